"""What online SGD does to the gradients of planted features, and to what a step makes of them."""

from __future__ import annotations

import torch
from torch import Tensor

from initmem.models.two_layer import TwoLayer


class Tangent:
    """Of a network at its start: each neuron keeps the norm that it has there, if updates are
    tangential."""

    def __init__(self, network: TwoLayer, update: str) -> None:
        self.layers = (network.stem, network.body)
        self.keeps = update == "tangential"
        self.norms = [_norms(layer.weight) for layer in self.layers]

    @torch.no_grad()
    def project(self) -> None:
        """Gradients on the subspaces of their neurons, and across the neurons' weights."""
        for layer in self.layers:
            gradient, w_ND = layer.weight.grad, layer.weight
            assert gradient is not None
            if layer.plane.shape[1]:
                gradient.copy_(gradient @ layer.plane @ layer.plane.T)
            if self.keeps:
                along_N1 = (gradient * w_ND).sum(dim=1, keepdim=True)
                gradient -= along_N1 / w_ND.square().sum(dim=1, keepdim=True) * w_ND

    @torch.no_grad()
    def rescale(self) -> None:
        """Neurons to their norms."""
        if self.keeps:
            for layer, norms_N1 in zip(self.layers, self.norms, strict=True):
                layer.weight.mul_(norms_N1 / _norms(layer.weight))


def _norms(w_ND: Tensor) -> Tensor:
    return w_ND.detach().norm(dim=1, keepdim=True)
