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


class Slots:
    """What an optimizer keeps of one network: for each parameter, tensors [S, *shape]."""

    def __init__(self, optim: Any, network: nn.Module, total: int) -> None:
        count = SLOTS[optim.name]
        self.tensors = {
            name: torch.zeros(count, *p.shape, device=p.device)
            for name, p in network.named_parameters()
        }

    def state(self) -> dict[str, Tensor]:
        return {name: tensor.clone() for name, tensor in self.tensors.items()}

    def load(self, state: dict[str, Tensor]) -> None:
        for name, tensor in self.tensors.items():
            tensor.copy_(state[name])


class BatchedStepper:
    """From the gradients of R networks to their update."""

    def __init__(
        self,
        optims: Sequence[Any],
        weights: dict[str, Tensor],
        slots: dict[str, Tensor],
        total: int,
    ) -> None:
        """weights: name -> [R, *shape]; slots: name -> [S, R, *shape]; optims: R sections that
        differ in real numbers alone."""
        self.optims, self.weights, self.slots, self.total = optims, weights, slots, total
        self.device = next(iter(weights.values())).device
        clips = [math.inf if o.clip is None else o.clip for o in optims]
        self.clip_R = self._tensor(clips) if min(clips) < math.inf else None
        fields = ("momentum", "beta1", "beta2", "eps", "alpha")
        has = [f for f in fields if f in type(optims[0]).model_fields]
        self.constants = {f: self._tensor([getattr(o, f) for o in optims]) for f in has}

    def _tensor(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32, device=self.device)

    @torch.no_grad()
    def step(self, index: int, gradients: dict[str, Tensor]) -> None:
        """Apply gradients, name -> [R, *shape], as update `index`, counted from 0. They are
        written over."""
        rates = [learning_rate(o, index, self.total) for o in self.optims]
        acts = [decays(o, index) for o in self.optims]
        l2s = [o.l2 * a for o, a in zip(self.optims, acts, strict=True)]
        shrink = [
            1 - rate * o.weight_decay * a
            for rate, o, a in zip(rates, self.optims, acts, strict=True)
        ]
        if self.clip_R is not None:
            gradients = self._clipped(gradients, self.clip_R)
        rate_R = self._tensor(rates)
        l2_R = self._tensor(l2s) if any(l2s) else None
        shrink_R = self._tensor(shrink) if set(shrink) != {1.0} else None
        rule = getattr(self, f"_{self.optims[0].name}")
        for name, weight in self.weights.items():
            gradient = gradients[name]
            if l2_R is not None:
                gradient.addcmul_(weight, _over(l2_R, weight))
            if shrink_R is not None:
                weight.mul_(_over(shrink_R, weight))
            rule(name, weight, gradient, self.slots[name], rate_R, index)

    def _clipped(self, gradients: dict[str, Tensor], clip_R: Tensor) -> dict[str, Tensor]:
        """Each network's gradient cut to its largest norm, with torch's own margin of 1e-6."""
        norms = [g.flatten(1).norm(dim=1) for g in gradients.values()]
        share_R = (clip_R / (torch.stack(norms).norm(dim=0) + 1e-6)).clamp(max=1.0)
        return {name: g * _over(share_R, g) for name, g in gradients.items()}

    def _of(self, field: str, weight: Tensor) -> Tensor:
        return _over(self.constants[field], weight)

    def _sgd(
        self, name: str, weight: Tensor, g: Tensor, slots: Tensor, rate_R: Tensor, index: int
    ) -> None:
        weight.addcmul_(g, _over(rate_R, g), value=-1)

    def _momentum(
        self, name: str, weight: Tensor, g: Tensor, slots: Tensor, rate_R: Tensor, index: int
    ) -> None:
        momentum = self._of("momentum", g)
        velocity = slots[0].mul_(momentum).add_(g)
        if self.optims[0].nesterov:
            velocity = torch.addcmul(g, velocity, momentum)
        weight.addcmul_(velocity, _over(rate_R, g), value=-1)

    def _rmsprop(
        self, name: str, weight: Tensor, g: Tensor, slots: Tensor, rate_R: Tensor, index: int
    ) -> None:
        alpha = self._of("alpha", g)
        square = slots[0].mul_(alpha).add_(g * g * (1 - alpha))
        weight.sub_(g / square.sqrt().add_(self._of("eps", g)) * _over(rate_R, g))

    def _adam(
        self, name: str, weight: Tensor, g: Tensor, slots: Tensor, rate_R: Tensor, index: int
    ) -> None:
        beta1, beta2 = self._of("beta1", g), self._of("beta2", g)
        _adam_step(weight, g, slots, _over(rate_R, g), beta1, beta2, self._of("eps", g), index)

    _adamw = _adam

    def _muon(
        self, name: str, weight: Tensor, g: Tensor, slots: Tensor, rate_R: Tensor, index: int
    ) -> None:
        if group_of(name) != "body" or g.ndim < 3:
            beta1, beta2, eps = (self._tensor([value]) for value in (0.9, 0.95, 1e-8))
            _adam_step(weight, g, slots, _over(rate_R, g), beta1, beta2, eps, index)
            return
        momentum = self._of("momentum", g)
        velocity = slots[0].lerp_(g, 1 - momentum)
        update_ROI = _orthogonal(g.lerp(velocity, momentum))
        size = 0.2 * math.sqrt(max(update_ROI.shape[1:]))  # the size of AdamW's update
        weight.sub_(update_ROI * _over(rate_R * size, g))


def _adam_step(
    weight: Tensor,
    g: Tensor,
    slots: Tensor,
    rate: Tensor,
    beta1: Tensor,
    beta2: Tensor,
    eps: Tensor,
    index: int,
) -> None:
    """Kingma and Ba (arXiv 1412.6980, algorithm 1)."""
    mean = slots[0].mul_(beta1).add_(g * (1 - beta1))
    square = slots[1].mul_(beta2).add_(g * g * (1 - beta2))
    correction1 = 1 - beta1.double() ** (index + 1)
    correction2 = 1 - beta2.double() ** (index + 1)
    root = square.sqrt().div_(correction2.sqrt().float()).add_(eps)
    weight.sub_(mean / root * (rate / correction1).float())


def _orthogonal(g_ROI: Tensor) -> Tensor:
    """Nearest (semi-)orthogonal matrices, about, in bf16."""
    a, b, c = NEWTON_SCHULZ
    wide = g_ROI.shape[1] <= g_ROI.shape[2]
    x = (g_ROI if wide else g_ROI.transpose(1, 2)).bfloat16()
    x = x / x.flatten(1).norm(dim=1).clamp(min=1e-7)[:, None, None]
    for _ in range(5):
        gram = x @ x.transpose(1, 2)
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return (x if wide else x.transpose(1, 2)).float()


def _over(value_R: Tensor, like: Tensor) -> Tensor:
    """[R] as [R, 1, ..., 1], to meet a tensor [R, ...]."""
    return value_R.view(-1, *[1] * (like.ndim - 1))
