"""The implicit bias of a diagonal linear network that is pretrained and then fine-tuned.

The network is beta = w+ v+ - w- v- in R^D, w the earlier layer and v the readout. It starts at
w+- = sqrt(c (1 + lam) / 2), v+- = sqrt(c (1 - lam) / 2), so at beta = 0, and gradient flow of the
square loss conserves w^2 - v^2 = c lam on both paths and w+ w- + v+ v- = c. Before fine-tuning
the earlier layer of both paths is set to w+ + w-, and the readout to gam / sqrt(2). Both trainings
end at the minimizer of sum_d q_{k_d}(beta_d) over the beta that fit (arXiv 2602.20062, Theorem
4.1).

Everywhere root = sqrt(k), in units of beta, stands for k: it neither over- nor underflows where k
would.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Init:
    """How both trainings start. ValueError where that is no start."""

    c: float
    """Absolute scale of pretraining, w^2 + v^2; above 0."""
    lam: float = 0.0
    """Relative scale of pretraining, (w^2 - v^2) / c in [-1, 1]: below 0 the earlier layer is the
    smaller one."""
    gam: float = 0.0
    """Scale of the readout in fine-tuning, at least 0."""

    def __post_init__(self) -> None:
        if not 0 < self.c < math.inf:
            raise ValueError(f"c: must be above 0 and finite, got {self.c:g}")
        if not -1 <= self.lam <= 1:
            raise ValueError(f"lam: must be in [-1, 1], got {self.lam:g}")
        if not 0 <= self.gam < math.inf:
            raise ValueError(f"gam: must be at least 0 and finite, got {self.gam:g}")
        if self.lam == -1 and self.gam**2 == 0:
            rule = "-1 needs gam above 0, for else nothing learns in fine-tuning; try -0.99999"
            raise ValueError(f"lam: {rule}, got lam {self.lam:g} with gam {self.gam:g}")

    @property
    def pretraining_root(self) -> float:
        """sqrt(k) of all coordinates in pretraining, 2 c: lam does not matter there."""
        return 2 * self.c

    def finetuning_root(self, pretrained: ArrayLike) -> Array:
        """sqrt(k_d) in fine-tuning, of the shape of the pretrained beta:
        2 c (1 + lam) (1 + sqrt(1 + (beta / c)^2)) + gam^2."""
        return 2 * (1 + self.lam) * (self.c + np.hypot(self.c, pretrained)) + self.gam**2

    def pretrained_weights(self, beta: ArrayLike) -> tuple[Array, Array, Array, Array]:
        """`weights` where pretraining is at beta."""
        return weights(beta, self.c, self.lam)


def weights(beta: ArrayLike, c: ArrayLike, lam: ArrayLike) -> tuple[Array, Array, Array, Array]:
    """w+, w-, v+, v- where a training that began at c and lam is at beta; shapes broadcast. They
    are the same on all ways there, for the conserved quantities and beta leave nothing open."""
    c, lam = np.asarray(c), np.asarray(lam)
    half = np.arcsinh(np.asarray(beta) / c) / 2
    share = np.sqrt(1 + np.sqrt((1 - lam) * (1 + lam)))
    up, down = share * np.exp(half), share * np.exp(-half)
    up_back, down_back = lam / up, lam / down
    scale = np.sqrt(c) / 2
    return (
        scale * (up + up_back),
        scale * (down + down_back),
        scale * (up - up_back),
        scale * (down - down_back),
    )


def penalty(beta: ArrayLike, root: ArrayLike) -> Array:
    """q_k(beta) = root/4 (1 - sqrt(1 + t^2) + t asinh t), t = 2 beta / root; at root -> 0 it is
    |beta| up to half a logarithm, at root -> infinity beta^2 / (2 root)."""
    beta, t = np.asarray(beta), _ratio(beta, root)
    return beta / 2 * (np.arcsinh(t) - t / (1 + np.hypot(1, t)))


def penalty_slope(beta: ArrayLike, root: ArrayLike) -> Array:
    """q_k'(beta) = asinh(2 beta / root) / 2."""
    return np.arcsinh(_ratio(beta, root)) / 2


def penalty_curvature(beta: ArrayLike, root: ArrayLike) -> Array:
    """q_k''(beta) = 1 / sqrt(k + 4 beta^2)."""
    return 1 / np.hypot(root, 2 * np.asarray(beta))


def order(beta: ArrayLike, root: ArrayLike) -> Array:
    """The l-order ell = d log q_k(beta) / d log|beta|, from 1 (l1: sparse, rich) to 2 (l2: lazy);
    2 at beta = 0. Closed form: t asinh t / (1 - sqrt(1 + t^2) + t asinh t)."""
    t = np.abs(_ratio(beta, root))
    bend = np.arcsinh(t)
    part = bend - t / (1 + np.hypot(1, t))
    return np.divide(bend, part, out=np.full_like(t, 2.0), where=part > 0)


def dependence(beta: ArrayLike, pretrained: ArrayLike, init: Init) -> Array:
    """The pretraining dependence PD = d log q_k(beta) / d log|pretrained| in fine-tuning, from -1
    (features of pretraining cost the less, the larger they are) to 0; ell + PD is in [1, 2].
    Closed form: (1 - ell) d log root / d log|pretrained|."""
    root = init.finetuning_root(pretrained)
    square = np.square(pretrained)
    moves = 2 * (1 + init.lam) * square / np.hypot(init.c, pretrained) / root
    return (1 - order(beta, root)) * moves


def _ratio(beta: ArrayLike, root: ArrayLike) -> Array:
    return np.asarray(2 * np.asarray(beta, dtype=float) / root)
