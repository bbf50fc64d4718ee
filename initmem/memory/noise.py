"""The noise of an arm's cells: each cell's own, drawn towards what they have in common.

Cells differ in noise, and each alone has few degrees of freedom; the moderated variance weighs
them by how much they differ (Smyth 2004, "Linear models and empirical Bayes methods for assessing
differential expression", section 6).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

from initmem.memory.paired import Array


@dataclass(frozen=True)
class Noise:
    """What an arm's cells say together of the variance between replicas."""

    variance: float
    """The cells' common one. nan where no cell has degrees of freedom."""
    df: float
    """What it counts for: 0 for nothing in common or one cell, inf for one variance for all."""
    pooled: int
    """Degrees of freedom of all cells together."""
    least: float = 0.0
    """No variance is below that of rounding."""

    def of_cell(self, mean_square: float, df: int) -> tuple[float, float]:
        """The moderated variance of a cell and its degrees of freedom; nan, 0 where none."""
        if not self.pooled or (not df and not self.df):
            return np.nan, 0.0
        if np.isinf(self.df):
            return self.variance, float(self.pooled)
        total = self.df + df
        own = max(mean_square, self.least) * df if df else 0.0
        return (self.df * self.variance + own) / total, min(total, float(self.pooled))


def pool(mean_squares: Array, dfs: NDArray[np.int64], resolution: float = 0.0) -> Noise:
    """The noise that cells have in common, from their residual mean squares [C] and degrees of
    freedom [C]. resolution: the smallest step of the measure; residuals of rounded numbers can be
    0 by luck, so no variance is taken below that of rounding, resolution^2 / 12."""
    has = dfs > 0
    least = resolution**2 / 12
    squares, d = np.maximum(mean_squares[has], least), dfs[has].astype(float)
    pooled = int(d.sum())
    if not pooled:
        return Noise(np.nan, 0.0, 0)
    common = float(squares @ d / pooled)
    if len(d) == 1 or common == 0:
        return Noise(common, 0.0 if len(d) == 1 else np.inf, pooled, least)
    logs = np.log(np.maximum(squares, 1e-5 * (np.median(squares) or common)))
    centred = logs - digamma(d / 2) + np.log(d / 2)
    excess = centred.var(ddof=1) - polygamma(1, d / 2).mean()
    if excess <= 0:
        return Noise(common, np.inf, pooled, least)
    prior = 2 * _trigamma_inverse(excess)
    variance = np.exp(centred.mean() + digamma(prior / 2) - np.log(prior / 2))
    return Noise(float(variance), prior, pooled, least)


def errors(mean_squares: Array, dfs: NDArray[np.int64], contrasts: Array) -> Array:
    """Standard errors [C] of what cells are measured by, from the noise that they have in common
    (see `pool`) and the variances of what is measured in units of the noise's [C]."""
    noise = pool(mean_squares, dfs)
    each = zip(mean_squares, dfs, contrasts, strict=True)
    return np.array([np.sqrt(noise.of_cell(square, int(df))[0] * c) for square, df, c in each])


def _trigamma_inverse(x: float) -> float:
    """The z with trigamma(z) = x; it lies in this bracket, for 1/z < trigamma(z) < 1/z + 1/z^2."""
    return float(brentq(lambda z: polygamma(1, z) - x, 1 / x, 1 / x + 1 / np.sqrt(x)))
