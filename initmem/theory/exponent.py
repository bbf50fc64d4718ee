"""What pairwise labels make of a reward: its Hermite coefficients and its information exponent.

A reward r(x) = A h_k(theta.x), x ~ N(0, I) and |theta| = 1, labels pairs by Bradley and Terry:
x is preferred to x' with probability sigmoid(r(x) - r(x')). What a first-layer gradient sees of
x is then not r but

    T(r) = E_x' [2 P(x preferred) - 1] = E_r' tanh((r - r') / 2),

whose coefficients t_k = E T(r(z)) h_k(z), z ~ N(0, 1), on the normalized Hermite polynomials h_k
begin at another k than those of r: early alignment with theta takes its rate from the first k
with t_k not 0, the information exponent (Ben Arous et al. 2021, "Online stochastic gradient
descent on non-convex losses from high-dimensional inference"). That T is what lowers it in
weak-to-strong training (Awano and Suzuki 2026, arXiv 2605.12908) is our reading.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermevander
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import gammaln

from initmem.theory.channel import NotConverged
from initmem.theory.diagonal import Array

REACH = 12.0
"""Standard deviations of z that are summed over: beyond, |h_k| density is below 1e-16."""
COARSE, FINE = 256, 2**14
"""Intervals of the trapezoid rule: the first, and the most. They are doubled until no coefficient
changes by more than TOLERANCE. The rule converges geometrically, so the last change bounds
the error; h_6 at amplitude 10 needs 8,192 intervals for 1e-10. A Gauss-Hermite rule of 200 nodes
errs there by 1.4e-3, for T is steep where its nodes are sparse."""
TOLERANCE = 1e-10
HIGHEST = 40
"""Of the coefficients, the last k."""


@dataclass(frozen=True)
class Reward:
    """r(z) = amplitude h_link(z). ValueError where there is no such reward."""

    link: int
    amplitude: float

    def __post_init__(self) -> None:
        if not 1 <= self.link <= HIGHEST:
            raise ValueError(f"link: must be from 1 to {HIGHEST}, got {self.link}")
        if not 0 < self.amplitude < math.inf:
            raise ValueError(f"amplitude: must be above 0 and finite, got {self.amplitude:g}")

    def __call__(self, z: ArrayLike) -> Array:
        return self.amplitude * hermite(z, self.link)[..., -1]


class Coefficients(NamedTuple):
    """Of a function of z ~ N(0, 1)."""

    t_K: Array
    """On h_0 to h_HIGHEST."""
    error: float
    """The largest change of one of them when the intervals were last doubled."""


def hermite(z: ArrayLike, highest: int) -> Array:
    """h_k(z) = He_k(z) / sqrt(k!) for k = 0 to highest, [..., K]: orthonormal under N(0, 1)."""
    z = np.asarray(z, dtype=float)
    norm_K = np.exp(gammaln(np.arange(highest + 1) + 1) / 2)
    return np.reshape(hermevander(z, highest) / norm_K, (*z.shape, highest + 1))


def transformed(reward: Reward, reward_P: Array, intervals: int = 4096) -> Array:
    """T at the given rewards [P], by one trapezoid rule."""
    z_N, weight_N = _rule(intervals)
    half_N, parts = reward(z_N) / 2, np.array_split(reward_P / 2, len(reward_P) // 256 + 1)
    return np.concatenate([np.tanh(half_P[:, None] - half_N) @ weight_N for half_P in parts])


def raw_coefficients(reward: Reward) -> Coefficients:
    """Of r itself: the amplitude at the link's k, else 0."""
    return _converged(reward)


def label_coefficients(reward: Reward) -> Coefficients:
    """Of T(r(z)). NotConverged where FINE intervals do not reach TOLERANCE."""

    def signal(z_N: Array) -> Array:
        return transformed(reward, reward(z_N), len(z_N) - 1)

    return _converged(signal)


def information_exponent(found: Coefficients) -> int:
    """The first k above 0 whose coefficient is not 0: above ten times TOLERANCE, which bounds
    its error. ValueError where none is."""
    nonzero_K = np.abs(found.t_K[1:]) > 10 * TOLERANCE
    if not nonzero_K.any():
        raise ValueError(f"information exponent: t_1 to t_{HIGHEST} are all 0 within the error")
    return int(np.argmax(nonzero_K)) + 1


def sign_change(link: int, k: int, low: float, high: float) -> float:
    """The amplitude between low and high at which t_k of the labels is 0, to 1e-9; ValueError
    where it has one sign at both."""

    def coefficient(amplitude: float) -> float:
        return float(label_coefficients(Reward(link, amplitude)).t_K[k])

    return float(brentq(coefficient, low, high, xtol=1e-9))


def _rule(intervals: int) -> tuple[Array, Array]:
    """Nodes and weights of averages over N(0, 1)."""
    z_N = np.linspace(-REACH, REACH, intervals + 1)
    density_N = np.exp(-(z_N**2) / 2) / math.sqrt(2 * math.pi)
    return z_N, density_N * (2 * REACH / intervals)


def _converged(signal: Callable[[Array], Array]) -> Coefficients:
    intervals, before_K = COARSE, np.full(HIGHEST + 1, np.inf)
    while intervals <= FINE:
        z_N, weight_N = _rule(intervals)
        t_K = (signal(z_N) * weight_N) @ hermite(z_N, HIGHEST)
        error = float(np.abs(t_K - before_K).max())
        if error <= TOLERANCE:
            return Coefficients(t_K, error)
        intervals, before_K = 2 * intervals, t_K
    raise NotConverged(f"theory: coefficients still change by {error:.1e} at {FINE} intervals")
