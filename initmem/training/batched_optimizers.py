"""The optimizers of optimizers.py for R networks at once; every rate is a tensor [R].

Same rules and order: clip, L2 onto the gradient, decoupled decay, update. Arithmetic on one
replica's numbers depends neither on R nor on the others: a NaN stays where it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from initmem.study.schedule import decays, learning_rate
from initmem.study.size import SLOTS
from initmem.training.initialize import group_of

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic iteration of Muon (Jordan et al. 2024), five rounds in bf16."""
MUON_REST = {"beta1": 0.9, "beta2": 0.95, "eps": 1e-8}
"""Of the AdamW that Muon leaves stem, head and vectors to."""


class Slots:
    """What an optimizer keeps of one network: for each parameter, tensors of its shape."""

    def __init__(self, optim: Any, network: nn.Module, total: int) -> None:
        self.tensors = {
            name: [torch.zeros_like(p.detach()) for _ in range(SLOTS[optim.name])]
            for name, p in network.named_parameters()
        }

    def state(self) -> dict[str, list[Tensor]]:
        return {name: [t.clone() for t in tensors] for name, tensors in self.tensors.items()}

    def load(self, state: dict[str, list[Tensor]]) -> None:
        for name, tensors in self.tensors.items():
            for tensor, saved in zip(tensors, state[name], strict=True):
                tensor.copy_(saved)


class BatchedStepper:
    """From the gradients of R networks to their update."""

    def __init__(
        self,
        optims: Sequence[Any],
        weights: dict[str, Tensor],
        slots: dict[str, list[Tensor]],
        total: int,
    ) -> None:
        """weights: name -> [R, *shape]; slots: name -> tensors [R, *shape]; optims: R sections
        that differ in real numbers alone."""
        self.optims, self.weights, self.slots, self.total = optims, weights, slots, total
        self.device = next(iter(weights.values())).device
        self.clips = any(o.clip is not None for o in optims)
        self.l2 = any(o.l2 for o in optims)
        self.shrinks = any(o.weight_decay for o in optims)
        self.of: dict[str, Tensor] = {}
        """Field or rate of each network, [R]."""
        self._put("clip", [math.inf if o.clip is None else o.clip for o in optims])
        for field in ("momentum", "beta1", "beta2", "eps", "alpha"):
            if field in type(optims[0]).model_fields:
                self._put(field, [getattr(o, field) for o in optims])
        if optims[0].name == "muon":
            for field, value in MUON_REST.items():
                self._put(field, [value] * len(optims))

    def _put(self, field: str, values: Sequence[float]) -> None:
        found = torch.tensor(values, dtype=torch.float32)
        if field in self.of:
            self.of[field].copy_(found)  # in its place, for a graph that reads it
        else:
            self.of[field] = found.to(self.device)

    def at(self, index: int) -> None:
        """Set the rates for update `index`, counted from 0."""
        rates = [learning_rate(o, index, self.total) for o in self.optims]
        acts = [decays(o, index) for o in self.optims]
        both = list(zip(self.optims, acts, strict=True))
        self._put("rate", rates)
        if self.l2:
            self._put("l2", [o.l2 * act for o, act in both])
        if self.shrinks:
            decay = [o.weight_decay * act for o, act in both]
            self._put("shrink", [1 - r * d for r, d in zip(rates, decay, strict=True)])
        if "beta2" in self.of:
            betas = [self.of[field].tolist() for field in ("beta1", "beta2")]
            self._put("correction1", [1 - beta ** (index + 1) for beta in betas[0]])
            self._put("correction2", [math.sqrt(1 - beta ** (index + 1)) for beta in betas[1]])

    @torch.no_grad()
    def apply(self, gradients: dict[str, Tensor]) -> None:
        """Gradients, name -> [R, *shape], to the weights. They are written over."""
        if self.clips:
            gradients = self._clipped(gradients)
        rule = getattr(self, f"_{self.optims[0].name}")
        for name, weight in self.weights.items():
            gradient = gradients[name]
            if self.l2:
                gradient.addcmul_(weight, self._of("l2", weight))
            if self.shrinks:
                weight.mul_(self._of("shrink", weight))
            rule(name, weight, gradient, self.slots[name])

    def _clipped(self, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        """Each network's gradient cut to its largest norm, with torch's own margin of 1e-6."""
        # A network at a time: the order of a sum over rows depends on how many rows there are.
        norms = [
            torch.stack([g[r].norm() for g in gradients.values()]).norm()
            for r in range(len(self.optims))
        ]
        share_R = (self.of["clip"] / (torch.stack(norms) + 1e-6)).clamp(max=1.0)
        return {name: g * _over(share_R, g) for name, g in gradients.items()}

    def _of(self, field: str, like: Tensor) -> Tensor:
        return _over(self.of[field], like)

    def _sgd(self, name: str, weight: Tensor, g: Tensor, slots: list[Tensor]) -> None:
        weight.addcmul_(g, self._of("rate", g), value=-1)

    def _momentum(self, name: str, weight: Tensor, g: Tensor, slots: list[Tensor]) -> None:
        momentum = self._of("momentum", g)
        velocity = torch.addcmul(g, slots[0], momentum, out=slots[0])
        if self.optims[0].nesterov:
            velocity = torch.addcmul(g, velocity, momentum)
        weight.addcmul_(velocity, self._of("rate", g), value=-1)

    def _rmsprop(self, name: str, weight: Tensor, g: Tensor, slots: list[Tensor]) -> None:
        alpha = self._of("alpha", g)
        square = slots[0].mul_(alpha).add_(g * g * (1 - alpha))
        step = g / square.sqrt().add_(self._of("eps", g))
        weight.addcmul_(step, self._of("rate", g), value=-1)

    def _adam(self, name: str, weight: Tensor, g: Tensor, slots: list[Tensor]) -> None:
        """Kingma and Ba (arXiv 1412.6980, algorithm 1)."""
        beta1, beta2 = self._of("beta1", g), self._of("beta2", g)
        mean = slots[0].mul_(beta1).add_(g * (1 - beta1))
        square = slots[1].mul_(beta2).add_(g * g * (1 - beta2))
        root = square.sqrt().div_(self._of("correction2", g)).add_(self._of("eps", g))
        rate = self._of("rate", g) / self._of("correction1", g)
        weight.addcmul_(mean / root, rate, value=-1)

    _adamw = _adam

    def _muon(self, name: str, weight: Tensor, g: Tensor, slots: list[Tensor]) -> None:
        if group_of(name) != "body" or g.ndim < 3:
            self._adam(name, weight, g, slots)
            return
        momentum = self._of("momentum", g)
        velocity = slots[0].lerp_(g, 1 - momentum)
        matrix_ROI = g.lerp(velocity, momentum).flatten(2)
        size = 0.2 * math.sqrt(max(matrix_ROI.shape[1:]))  # the size of AdamW's update
        update = _orthogonal(matrix_ROI).view(g.shape)
        weight.addcmul_(update, self._of("rate", g) * size, value=-1)


def _orthogonal(g_ROI: Tensor) -> Tensor:
    """Nearest (semi-)orthogonal matrices, about, in bf16."""
    a, b, c = NEWTON_SCHULZ
    wide = g_ROI.shape[1] <= g_ROI.shape[2]
    x = (g_ROI if wide else g_ROI.transpose(1, 2)).bfloat16()
    x = x / x.flatten(1).norm(dim=1).clamp(min=1e-7)[:, None, None]
    for _ in range(5):
        gram = x @ x.transpose(1, 2)
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return (x if wide else x.transpose(1, 2)).float().contiguous()


def _over(value_R: Tensor, like: Tensor) -> Tensor:
    """[R] as [R, 1, ..., 1], to meet a tensor [R, ...]."""
    return value_R.view(-1, *[1] * (like.ndim - 1))
