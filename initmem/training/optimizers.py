"""torch's own optimizers by name, with L2 and decoupled decay kept apart.

`l2` is added to the gradient, `weight_decay` multiplies the weights by 1 - lr x weight_decay
before the step (Loshchilov and Hutter, arXiv 1711.05101). Both act on every parameter, under
every optimizer, in `Stepper.step`; torch's own `weight_decay` stays 0. For sgd, momentum, adam
and rmsprop with `l2`, and for adamw with `weight_decay`, this is torch's arithmetic bit for bit.

To add an optimizer: its fields in `study/recipe.py`, its constructor in `_build`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from initmem.models.two_layer import TwoLayer
from initmem.study.schedule import decays, learning_rate
from initmem.training.initialize import group_of
from initmem.training.tangent import Tangent


class Stepper:
    """The optimizers of one network, and everything between its gradient and its update."""

    def __init__(self, optim: Any, network: nn.Module, total: int) -> None:
        self.optim, self.total = optim, total
        self.parameters: list[Tensor] = list(network.parameters())
        self.kernels = _Kernels([])
        self.optimizers = self._build(network)
        self.tangent: Tangent | None = None
        if optim.name == "online_sgd":
            assert isinstance(network, TwoLayer)
            self.tangent = Tangent(network, optim.update)

    def _build(self, network: nn.Module) -> list[Optimizer]:
        o, parameters = self.optim, self.parameters
        if o.name == "exact":  # takes no steps along a gradient
            return []
        if o.name in ("sgd", "online_sgd"):
            return [torch.optim.SGD(parameters, lr=o.lr)]
        if o.name == "momentum":
            return [torch.optim.SGD(parameters, o.lr, o.momentum, nesterov=o.nesterov)]
        if o.name in ("adam", "adamw"):
            return [torch.optim.Adam(parameters, o.lr, (o.beta1, o.beta2), o.eps)]
        if o.name == "rmsprop":
            return [torch.optim.RMSprop(parameters, o.lr, o.alpha, o.eps)]
        assert o.name == "muon"
        named = dict(network.named_parameters())
        kernels = [n for n, p in named.items() if group_of(n) == "body" and p.ndim > 1]
        self.kernels = _Kernels([named[name] for name in kernels])
        rest = [p for name, p in named.items() if name not in kernels]
        adamw = torch.optim.AdamW(rest, o.lr, betas=(0.9, 0.95), weight_decay=0)
        if not self.kernels.flat:
            return [adamw]
        muon = torch.optim.Muon(
            self.kernels.flat, o.lr, 0, o.momentum, adjust_lr_fn="match_rms_adamw"
        )
        return [muon, adamw]

    @torch.no_grad()
    def step(self, index: int) -> None:
        """Apply the gradients that stand in the parameters as update `index`, from 0."""
        rate = learning_rate(self.optim, index, self.total)
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        assert len(gradients) == len(self.parameters), "a parameter got no gradient"
        if self.tangent:
            self.tangent.project()
        if self.optim.clip is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.optim.clip)
        decay = decays(self.optim, index)
        if self.optim.l2 and decay:
            torch._foreach_add_(gradients, self.parameters, alpha=self.optim.l2)
        if self.optim.weight_decay and decay:
            torch._foreach_mul_(self.parameters, 1 - rate * self.optim.weight_decay)
        self.kernels.flatten()
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
        self.kernels.unflatten()
        if self.tangent:
            self.tangent.rescale()
        for parameter in self.parameters:
            parameter.grad = None

    def state(self) -> list[dict[str, Any]]:
        return [optimizer.state_dict() for optimizer in self.optimizers]

    def load(self, state: list[dict[str, Any]]) -> None:
        for optimizer, saved in zip(self.optimizers, state, strict=True):
            optimizer.load_state_dict(saved)


class _Kernels:
    """torch's Muon takes matrices only: kernels [O, I, k, k] as matrices [O, I k k]."""

    def __init__(self, parameters: list[Tensor]) -> None:
        self.parameters = parameters
        self.flat = [nn.Parameter(p.detach().reshape(len(p), -1).clone()) for p in parameters]

    def flatten(self) -> None:
        for matrix, parameter in zip(self.flat, self.parameters, strict=True):
            assert parameter.grad is not None
            matrix.copy_(parameter.reshape(matrix.shape))
            matrix.grad = parameter.grad.reshape(matrix.shape)

    def unflatten(self) -> None:
        for matrix, parameter in zip(self.flat, self.parameters, strict=True):
            parameter.copy_(matrix.reshape(parameter.shape))
