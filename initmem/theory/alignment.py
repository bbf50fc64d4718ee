"""How fast first-layer neurons align with a reward's direction under pairwise labels, and what a
weak teacher leaves them to find. Of weak-to-strong training (Awano and Suzuki 2026, arXiv
2605.12908); all of this is our derivation.

A neuron a relu(w.x - bias) with |w| = 1 and m = w.theta follows, at a small output scale, inputs
N(0, I) and steps of size lr along the gradient of mean log sigmoid over pairs,

    dm/dt = a (1 - m^2) sum_k k t_k c_k m^(k-1),        t = steps lr,

t_k of the labels (see `exponent`) and c_k of the relu, both on normalized Hermite polynomials.
Where the first k is 2 that is c m (1 - m^2) at small m, which has a closed form.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, ndtr

from initmem.theory.diagonal import Array
from initmem.theory.exponent import hermite


def relu_coefficients(bias: float, highest: int) -> Array:
    """c_k of relu(z - bias) for k = 0 to highest, at least 2 [K]: phi(bias) He_(k-2)(bias) /
    sqrt(k!) from k = 2 on."""
    k_J = np.arange(2, highest + 1)
    ratio_J = np.exp((gammaln(k_J - 1) - gammaln(k_J + 1)) / 2)
    tail_J = _density(bias) * hermite(bias, highest - 2) * ratio_J
    return np.array([_density(bias) - bias * ndtr(-bias), ndtr(-bias), *tail_J])


def drift(t_K: Array, bias: float, m: ArrayLike, output: float = 1.0) -> Array:
    """dm/dt at each |m| < 1 of a neuron with output weight `output`, all coefficients counted."""
    m = np.asarray(m, dtype=float)
    k_K = np.arange(1, len(t_K))
    slope_K = k_K * t_K[1:] * relu_coefficients(bias, len(t_K) - 1)[1:]
    return output * (1 - m**2) * (m[..., None] ** (k_K - 1) @ slope_K)


def rate(t2: float, bias: float, output: float = 1.0) -> float:
    """c = output t2 sqrt(2) phi(bias). Below 0 the neuron turns away from theta: a reward with
    t2 < 0 needs neurons with output weight below 0."""
    return output * t2 * math.sqrt(2) * _density(bias)


def alignment(t: ArrayLike, m0: ArrayLike, c: float) -> Array:
    """m at time t from m0, by dm/dt = c m (1 - m^2); shapes broadcast."""
    m0 = np.asarray(m0, dtype=float)
    return m0 / np.sqrt(m0**2 + (1 - m0**2) * np.exp(-2 * c * np.asarray(t)))


def duration(m: ArrayLike, m0: ArrayLike, c: float) -> Array:
    """The time t at which alignment is m, from m0: of one sign, neither 0 nor 1."""
    m, m0 = np.asarray(m, dtype=float), np.asarray(m0, dtype=float)
    return (np.log(m**2 / (1 - m**2)) - np.log(m0**2 / (1 - m0**2))) / (2 * c)


def noise_start(lr: float, batch: int, bias: float, c: float) -> float:
    """The m0 to which the noise of the gradient amounts, in alignment, where a neuron starts
    without overlap: sqrt(lr v / (2 c batch)), v = P(z > bias) / 2 a coordinate of a pair's
    gradient. A scale, the standard deviation of a sign-symmetric start at times above 1/c, while
    m is small; so an overlap of 0 is left later, not never."""
    return math.sqrt(lr * ndtr(-bias) / (4 * c * batch))


def noise_loss(t: float, lr: float, batch: int, bias: float, d: int) -> float:
    """About 1 - cosine to its start of a neuron that has noise alone in d dimensions, at time t:
    lr v d t / (2 batch), v as in noise_start, while that is small."""
    return float(lr * ndtr(-bias) * d * t / (4 * batch))


def squared_projection(teacher: float, share: float) -> float:
    """|P theta_w|^2 of a weak teacher's direction theta_w = m theta + sqrt(1 - m^2) u, theta in
    the subspace of P: m^2 + (1 - m^2) share. Updates projected by P are slower by this factor.

    teacher: m. share: |P u|^2 of the teacher's error; (s - 1) / (d - 1), about s/d, in the mean
    over isotropic u with P of dimension s, 1 where the error lies in the subspace.
    """
    return teacher**2 + (1 - teacher**2) * share


def limit_cosine(teacher: float, share: float) -> float:
    """The cosine to theta that training confined to the subspace ends at: that of P theta_w,
    above the teacher's own where share < 1. Arguments as of squared_projection."""
    return teacher / math.sqrt(squared_projection(teacher, share))


def pairwise_accuracy(m: ArrayLike) -> Array:
    """P(two inputs are ordered as their rewards order them) for a score that is increasing in
    |w.x| and a reward in |theta.x|, m = w.theta: p^2 + (1 - p)^2 with p = 1 - acos(m) / pi.

    The order is the sign of (w.(x - x')) (w.(x + x')), of two independent factors. For h_2; the
    other even links are not increasing.
    """
    p = 1 - np.arccos(np.asarray(m, dtype=float)) / np.pi
    return np.asarray(p**2 + (1 - p) ** 2)


def _density(z: float) -> float:
    return math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
