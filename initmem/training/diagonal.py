"""Diagonal networks: their start, and where gradient flow from it ends, without the way there (see
`theory/diagonal.py`)."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits
from torch import Tensor

from initmem.models.diagonal import Diagonal
from initmem.study.init_section import DiagonalRule
from initmem.theory.diagonal import Init, weights
from initmem.theory.minimizer import minimizer
from initmem.training.initialize import Audit


def start(network: Diagonal, init: DiagonalRule, pretrained: Tensor | None) -> Audit:
    """Set the parameters to the start of the only training, or of that after a pretraining which
    ended at the coefficients `pretrained` [D]; nothing is drawn."""
    if pretrained is None:
        w = math.sqrt(init.c * (1 + init.lam) / 2)
        v = math.sqrt(init.c * (1 - init.lam) / 2)
        _set(network, w, w, v, v)
    else:
        known = Init(init.c, init.lam, init.gam)
        w_plus, w_minus, _, _ = known.pretrained_weights(pretrained.cpu().numpy())
        w_D, v = w_plus + w_minus, init.gam / math.sqrt(2)
        _set(network, w_D, w_D, v, v)
    return Audit(assigned=[name for name, _ in network.named_parameters()])


def settle(network: Diagonal, X_ND: Tensor, y_N: Tensor) -> None:
    """From its start, where both paths are the same, bring the network to the end of gradient flow
    on these examples: to the minimizer, and there to the weights that the flow would have.

    Raises NotConverged where the minimizer is not found, ValueError where a coordinate is 0 in
    both layers, which no gradient moves.
    """
    w_D, v_D = network.stem.plus.detach().cpu().numpy(), network.head.plus.detach().cpu().numpy()
    c_D = w_D**2 + v_D**2
    with threadpool_limits(1):  # bits depend on the number of threads
        beta_D = minimizer(X_ND.cpu().numpy(), y_N.cpu().numpy(), 2 * c_D)
    _set(network, *weights(beta_D, c_D, (w_D**2 - v_D**2) / c_D))


@torch.no_grad()
def _set(network: Diagonal, *values: ArrayLike) -> None:
    """w+, w-, v+, v-."""
    w, v = network.stem, network.head
    for parameter, value in zip((w.plus, w.minus, v.plus, v.minus), values, strict=True):
        parameter.copy_(torch.from_numpy(np.asarray(value)))
