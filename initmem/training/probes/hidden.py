"""Lengths of hidden vectors, and how much of the gradient goes into them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from initmem.models.taps import taps
from initmem.training.probes.looking import Values, first, matrices, outputs

if TYPE_CHECKING:
    from initmem.training.replica import Training


@torch.no_grad()
def radius(training: Training) -> Values:
    """radius: mean |h| / sqrt(d) of the pre-activations h of width d at each tap; logit_norm: mean
    norm of the logits of an answer; both on the first 512 validation examples. weight_norm: of all
    weights of layers together."""
    with outputs(taps(training.network, "pre")) as hidden:
        logits = training.forward(first(training.data.validation).inputs)
    radii = {name: _lengths(h).mean().item() / h.shape[-1] ** 0.5 for name, h in hidden.items()}
    norms = [matrix.double().norm().item() for matrix in matrices(training.network).values()]
    return {
        **{("radius", name): value for name, value in radii.items()},
        ("weight_norm", "all"): math.hypot(*norms),
        ("logit_norm", "validation"): _lengths(logits).mean().item(),
    }


def radial_share(training: Training) -> Values:
    """The mean of `radial_shares` over the pre-activations at each tap, with the gradient of the
    task's loss alone, on the first 512 training examples (tap/train) and on the first 512 for
    validation (tap/validation). nan where all gradients are 0."""
    values = {}
    for batch in ("train", "validation"):
        chosen = first(getattr(training.data, batch))
        with outputs(taps(training.network, "pre")) as hidden:
            logits = training.forward(chosen.inputs)
        targets_M = chosen.targets.flatten()
        # The sum over answers: their mean would only bring small gradients nearer to 0.
        loss = F.cross_entropy(logits.flatten(0, -2), targets_M, reduction="sum")
        gradients = torch.autograd.grad(loss, list(hidden.values()))
        for (name, h), g in zip(hidden.items(), gradients, strict=True):
            share = radial_shares(h.detach(), g).mean().item()
            values["radial_share", f"{name}/{batch}"] = share
    return values


def radial_shares(h: Tensor, g: Tensor) -> Tensor:
    """d |P_r g|^2 / |g|^2 of gradients g at hidden vectors h, both [..., d], with P_r the
    projection onto h (arXiv 2606.32000): 1 on average for a random direction, d along h, 0 across
    it. Float64, one for each vector but those whose g or h is 0."""
    h_MD, g_MD = h.double().flatten(0, -2), g.double().flatten(0, -2)
    sizes_M = h_MD.square().sum(dim=1) * g_MD.square().sum(dim=1)
    shares_M = h.shape[-1] * (h_MD * g_MD).sum(dim=1).square() / sizes_M
    return shares_M[sizes_M != 0]


def _lengths(h: Tensor) -> Tensor:
    return h.double().norm(dim=-1)
