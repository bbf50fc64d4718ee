"""The test error of regression under the penalty q_k, from two numbers (arXiv 2602.20062,
Proposition 4.2; the replica method, not a proof).

With n = alpha d examples x ~ N(0, 1/d) each coordinate of the target is estimated as through a
channel (see `channel`), whose noise s2 and regularization g solve

    s2 = (noise^2 + E (X - x)^2) / alpha        E dx/dz = alpha

E dx/dz falls in g, so g is found for each s2, and s2 between bounds: the penalty is convex, so
there is one solution, and no start that it depends on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import elementwise

from initmem.theory.channel import Mixture, NotConverged, averages
from initmem.theory.diagonal import Array

TOLERANCE = 1e-10
"""Of log s2 and of log E dx/dz."""


def error_curve(mixture: Mixture, alphas: ArrayLike, noise: float = 0.0) -> Array:
    """E (X - x)^2 for each alpha = n/d [A]: |estimate - target|^2 / d, which is the mean squared
    error of a prediction, without the noise of its label; mixture.square is that of predicting 0.

    noise: standard deviation of the training labels'. From alpha 1 on the fit is that of least
    squares, with error noise^2 / (alpha - 1). ValueError for an alpha that is not above 0;
    NotConverged says at which alpha no solution was found.
    """
    alpha_A = np.asarray(alphas, dtype=float)
    if alpha_A.ndim != 1 or not ((alpha_A > 0) & np.isfinite(alpha_A)).all():
        raise ValueError(f"alphas: must be a list of finite numbers above 0, got {alpha_A}")
    if not 0 <= noise < np.inf:
        raise ValueError(f"noise: must be at least 0 and finite, got {noise:g}")
    error_A = np.zeros_like(alpha_A)
    under = alpha_A < 1
    if under.any():
        s2_U, _ = channels(mixture, alpha_A[under], noise)
        error_A[under] = alpha_A[under] * s2_U - noise**2
    if noise:
        with np.errstate(divide="ignore"):
            error_A[~under] = noise**2 / (alpha_A[~under] - 1)
    return error_A


def channels(mixture: Mixture, alpha_A: Array, noise: float = 0.0) -> tuple[Array, Array]:
    """s2 and g [A] for each alpha; those are below 1."""
    index_A, logg_A = np.arange(len(alpha_A), dtype=float), np.zeros_like(alpha_A)

    def excess(logs: Array, index: Array) -> Array:
        at = index.astype(int)
        logg_A[at], square = _balanced(mixture, np.exp(logs), logg_A[at], alpha_A[at])
        return np.log((noise**2 + square) / alpha_A[at]) - logs

    high_A = np.log((mixture.square + noise**2) / alpha_A)
    bounds = elementwise.bracket_root(excess, high_A - 2, high_A, args=(index_A,))
    tolerances = {"xatol": TOLERANCE, "xrtol": 0, "fatol": TOLERANCE / 10, "frtol": 0}
    found = elementwise.find_root(excess, bounds.bracket, args=(index_A,), tolerances=tolerances)
    if not found.success.all():
        failed = ", ".join(f"{alpha:g}" for alpha in alpha_A[~found.success])
        raise NotConverged(f"theory: the error at alpha {failed} was not found")
    s2_A = np.exp(found.x)
    return s2_A, np.exp(_balanced(mixture, s2_A, logg_A, alpha_A)[0])


def _balanced(mixture: Mixture, s2_A: Array, logg_A: Array, alpha_A: Array) -> tuple[Array, Array]:
    """log g [A] at which E dx/dz is alpha, and E (X - x)^2 [A] there: by Newton's method from the
    given one, between bounds, for the slope has a step for each size of root."""
    low_A, high_A = np.full_like(logg_A, -np.inf), np.full_like(logg_A, np.inf)
    for _ in range(100):
        slope_A, fall_A, square_A = averages(mixture, s2_A, np.exp(logg_A))
        excess_A = np.log(slope_A / alpha_A)
        done = np.abs(excess_A) < TOLERANCE
        if done.all():
            return logg_A, square_A
        low_A = np.where(excess_A > 0, logg_A, low_A)
        high_A = np.where(excess_A < 0, logg_A, high_A)
        next_A = logg_A + np.clip(-excess_A * slope_A / fall_A, -3, 3)
        inside = (low_A < next_A) & (next_A < high_A)
        with np.errstate(invalid="ignore"):  # of what is not taken: without bounds
            middle_A = (low_A + high_A) / 2
        logg_A = np.where(done, logg_A, np.where(inside, next_A, middle_A))
    failed = ", ".join(f"{alpha:g}" for alpha in alpha_A[~done])
    raise NotConverged(f"theory: the regularization at alpha {failed} was not found")
