"""One coordinate seen through noise: z = X + sqrt(s2) V, V ~ N(0, 1), and the estimate x of X that
the penalty q_k makes of it, x - z + (g/2) asinh(2 x / root) = 0.

Averages over z are sums over u = asinh(2 x / root): z is a closed form of u, so nothing is solved
at the nodes, and smooth where x as a function of z all but has kinks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from initmem.theory.diagonal import Array

REACH = 9.0
"""Standard deviations of z that are summed over: beyond are 1e-19 of the coordinates."""
NODES = 160
"""They err by up to 1e-5 of an average, mostly by less than 1e-9; 201 Gauss-Hermite nodes in z by
up to 1e-2 where the penalty is nearly l1."""


class NotConverged(ArithmeticError):
    """An equation of the theory was not solved: the message says which."""


@dataclass(frozen=True)
class Mixture:
    """Coordinates in groups: a share `mass_G` has targets X ~ N(mean, variance) and the penalty
    with sqrt(k) = root. All [G]; masses sum to 1, roots are above 0."""

    mass_G: Array
    mean_G: Array
    variance_G: Array
    root_G: Array

    @property
    def square(self) -> float:
        """E X^2, the error of predicting 0."""
        return float(self.mass_G @ (self.mean_G**2 + self.variance_G))


class Averages(NamedTuple):
    slope_A: Array
    """E dx/dz."""
    fall_A: Array
    """Its derivative by log g, at fixed z."""
    square_A: Array
    """E (X - x)^2."""


def prox(z: ArrayLike, g: ArrayLike, root: ArrayLike) -> Array:
    """The x that minimizes (x - z)^2 / 2 + g q_k(x), between 0 and z; shapes broadcast."""
    return np.asarray(root) / 2 * np.sinh(bend(z, g, root))


def bend(z: ArrayLike, g: ArrayLike, root: ArrayLike) -> Array:
    """u = asinh(2 x / root) of x = prox(z, g, root), which solves root sinh u + g u = 2 z; that is
    convex for z > 0, so Newton's method falls to it from above."""
    double, g, root = 2 * np.abs(np.asarray(z)), np.asarray(g), np.asarray(root)
    u = np.minimum(double / g, np.arcsinh(double / root))
    for _ in range(100):
        sinh = root * np.sinh(u)
        step = (sinh + g * u - double) / (np.hypot(root, sinh) + g)
        u = u - step
        if (np.abs(step) <= 1e-12 * u).all():
            return np.copysign(u, z)
    raise NotConverged("theory: the proximal map was not found")


def averages(mixture: Mixture, s2_A: Array, g_A: Array) -> Averages:
    """Over the coordinates of the mixture, for each s2 and g above 0."""
    g_A11, s2_A1 = g_A[:, None, None], s2_A[:, None]
    mean_G1, root_G1 = mixture.mean_G[:, None], mixture.root_G[:, None]
    total_AG = mixture.variance_G + s2_A1
    sd_AG = np.sqrt(total_AG)
    high_AG = bend(mixture.mean_G + REACH * sd_AG, g_A[:, None], mixture.root_G)
    low_AG = bend(mixture.mean_G - REACH * sd_AG, g_A[:, None], mixture.root_G)
    step_AG = (high_AG - low_AG) / (NODES - 1)
    u_AGN = low_AG[..., None] + step_AG[..., None] * np.arange(NODES)
    grown_AGN = np.exp(u_AGN)
    sinh_AGN = root_G1 / 2 * (grown_AGN - 1 / grown_AGN)
    cosh_AGN = root_G1 / 2 * (grown_AGN + 1 / grown_AGN)
    off_AGN = (sinh_AGN + g_A11 * u_AGN) / 2 - mean_G1
    height_AG = mixture.mass_G * step_AG / (sd_AG * np.sqrt(2 * np.pi))
    density_AGN = height_AG[..., None] * np.exp(-(off_AGN**2) / (2 * total_AG[..., None]))
    both_AGN = cosh_AGN + g_A11
    moved_AGN = (g_A11 * sinh_AGN * u_AGN / both_AGN + cosh_AGN) / both_AGN
    believed_AGN = mean_G1 + (mixture.variance_G / total_AG)[..., None] * off_AGN
    square_A = (density_AGN * both_AGN * (believed_AGN - sinh_AGN / 2) ** 2).sum((1, 2)) / 2
    return Averages(
        (density_AGN * cosh_AGN).sum((1, 2)) / 2,
        -g_A * (density_AGN * moved_AGN).sum((1, 2)) / 2,
        square_A + s2_A * (mixture.mass_G * mixture.variance_G / total_AG).sum(1),
    )


def law(mean: float, root: float, s2: float, g: float, nodes: int = 48) -> tuple[Array, Array]:
    """The estimates x [M] of a target that is `mean`, and their probabilities [M]."""
    sd = np.sqrt(s2)
    low, high = bend(mean + REACH * sd * np.array([-1, 1]), g, root)
    u_M = np.linspace(low, high, nodes)
    sinh_M, cosh_M = root * np.sinh(u_M), root * np.cosh(u_M)
    off_M = (sinh_M + g * u_M) / 2 - mean
    weight_M = np.exp(-(off_M**2) / (2 * s2)) * (cosh_M + g)
    held = weight_M > 1e-12 * weight_M.max()
    return sinh_M[held] / 2, weight_M[held] / weight_M[held].sum()
