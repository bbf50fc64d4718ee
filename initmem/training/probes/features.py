"""What is left of planted features, and what has come in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from initmem.models.two_layer import TwoLayer
from initmem.training.probes.looking import Values

if TYPE_CHECKING:
    from initmem.training.replica import Training


@torch.no_grad()
def features(training: Training) -> Values:
    """Means over neurons of |cosine|. Of on-target neurons (stem): on_target, to theta_1, and
    to_limit, to the limit of their arm; of off-target neurons (body): kept, to theta_2, and
    captured, to theta_1."""
    network, known = training.network, training.data.geometry
    assert isinstance(network, TwoLayer) and known is not None
    on_ND, off_MD = network.stem.weight, network.body.weight
    return {
        ("on_target", "stem"): mean_cosine(on_ND, known.theta1),
        ("to_limit", "stem"): mean_cosine(on_ND, known.limit),
        ("kept", "body"): mean_cosine(off_MD, known.theta2),
        ("captured", "body"): mean_cosine(off_MD, known.theta1),
    }


def mean_cosine(w_ND: Tensor, v_D: Tensor) -> float:
    """The mean over rows of |cosine| to v, in float64: links are even, so both signs are one
    feature."""
    w, v = w_ND.detach().double(), v_D.double()
    return ((w @ v).abs() / (w.norm(dim=1) * v.norm())).mean().item()
