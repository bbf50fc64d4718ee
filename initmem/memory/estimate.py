"""What is known of a cell's memory, and how surely.

The spread of A means is the range of Tukey's studentized range statistic: with noise sigma and S
seeds, spread * sqrt(S) / sigma of a cell that remembers nothing follows it, and no range of true
means is further than q * sigma / sqrt(S) from the measured spread (scipy.stats.studentized_range).
Where seeds are missing, pairs of means have standard errors of their own (Tukey-Kramer).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm, studentized_range

from initmem.memory.noise import Noise, pool
from initmem.memory.paired import Paired

THRESHOLD = 2.0
"""Points of memory below which a cell counts as erased."""

MOST_SEEDS = 100
"""Nobody trains more, to decide a cell."""


@dataclass(frozen=True)
class Estimate:
    """The memory of one cell. Without degrees of freedom for the noise (one seed, one cell) there
    is a spread and nothing more: sigma is nan, and so is all that follows from it. A spread that
    is a lower bound has an interval without an upper end, and is never erased."""

    table: Paired
    noise: Noise
    """Of the arm."""
    threshold: float

    @property
    def sigma(self) -> float:
        """Standard deviation between replicas, without what seeds have in common."""
        return math.sqrt(self.noise.of_cell(self.table.mean_square, self.table.df)[0])

    @property
    def df(self) -> float:
        """Degrees of freedom that sigma rests on."""
        return self.noise.of_cell(self.table.mean_square, self.table.df)[1]

    @property
    def error(self) -> float:
        """Standard error of a mean; of the worst pair of them, where seeds are missing."""
        return self.sigma * math.sqrt(self.table.contrast_AA.max() / 2)

    @property
    def spread_error(self) -> float:
        """Standard error of the spread: of the difference of two means."""
        return self.error * math.sqrt(2)

    @property
    def floor(self) -> float:
        """The spread to expect where nothing is remembered. To be shown, not subtracted."""
        contrasts = self.table.contrast_AA[np.triu_indices(len(self.table.values), 1)]
        return mean_range(len(self.table.values)) * self.sigma * math.sqrt(contrasts.mean() / 2)

    @property
    def statistic(self) -> float:
        """The largest difference of two means, in units of its own noise (for one mean's)."""
        mean_A = self.table.mean_A
        a, b = np.triu_indices(len(mean_A), 1)
        errors = self.sigma * np.sqrt(self.table.contrast_AA[a, b] / 2)
        return float((np.abs(mean_A[a] - mean_A[b]) / errors).max()) if self.sigma else np.nan

    @property
    def p(self) -> float:
        """Probability of means this far apart where nothing is remembered."""
        if not self.df or np.isnan(self.statistic):
            return np.nan
        return float(studentized_range.sf(self.statistic, len(self.table.values), _round(self.df)))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Of the true spread, simultaneous over all pairs of values."""
        half = quantile(level, len(self.table.values), self.df) * self.error
        highest = np.inf if self.table.censored else self.table.spread
        return float(np.clip(self.table.spread - half, 0, None)), highest + half

    @property
    def verdict(self) -> str:
        """remembers: p < 0.05 and the spread reaches the threshold; erased: the upper end of the
        90% interval is below it; not trained, censored: see `Paired.trained` and `hidden`."""
        if not self.table.whole:
            return "censored" if self.table.trained else "not trained"
        beyond_chance = self.statistic > quantile(0.95, len(self.table.values), self.df)
        if self.table.spread >= self.threshold and beyond_chance:
            return "remembers"
        return "erased" if self.interval(0.9)[1] < self.threshold else "undecided"

    @property
    def more_seeds(self) -> float:
        """Seeds to add until an undecided cell is decided, should its spread stay as it is; nan
        where that takes more than MOST_SEEDS or nothing is known of the noise; 0 if decided."""
        if self.verdict != "undecided" or not self.sigma > 0:
            return 0 if self.verdict in ("remembers", "erased") else np.nan
        tried = range(self.table.seeds + 1, MOST_SEEDS + 1)
        more = bisect_left(tried, True, key=self._decided) + 1
        return more if more <= len(tried) else np.nan

    def _decided(self, seeds: int) -> bool:
        values = len(self.table.values)
        own = (values - 1) * (seeds - 1)
        df = self.noise.of_cell(self.table.mean_square, own)[1] or own
        remembers = self.table.spread >= self.threshold
        if self.table.censored and not remembers:
            return False
        q = quantile(0.95 if remembers else 0.9, values, min(df, 120))
        half = q * self.sigma / math.sqrt(seeds)
        spread = self.table.spread
        return spread > half if remembers else spread + half < self.threshold


def estimates(
    tables: list[Paired], threshold: float = THRESHOLD, resolution: float = 0.0
) -> list[Estimate]:
    """Of the cells of one arm, whose noise is pooled. resolution: see `noise.pool`."""
    noise = pool(
        np.array([table.mean_square for table in tables]),
        np.array([table.df for table in tables], dtype=np.int64),
        resolution,
    )
    return [Estimate(table, noise, threshold) for table in tables]


def resolves(values: int, seeds: int, cells: int, sigma: float) -> tuple[float, float, float]:
    """What an arm of so many cells can tell, before it is run: with noise sigma between replicas,
    the spread to expect of nothing; the least spread that is beyond chance (p < 0.05); and how far
    below the threshold a spread must lie to be erased. nan with one seed."""
    error, df = sigma / math.sqrt(seeds), (values - 1) * (seeds - 1) * cells
    far, near = (quantile(level, values, df) * error for level in (0.95, 0.9))
    return mean_range(values) * error, far, near


@lru_cache(maxsize=4096)
def _quantile(level: float, values: int, df: float) -> float:
    return float(studentized_range.ppf(level, values, df))


def quantile(level: float, values: int, df: float) -> float:
    """Of the studentized range of `values` means; nan without degrees of freedom."""
    return _quantile(level, values, _round(df)) if df > 0 else np.nan


def _round(df: float) -> float:
    """Down to two digits: it errs on the safe side, and few quantiles serve many cells."""
    if df >= 1000 or df <= 0:
        return np.inf if df > 0 else df
    step = 10.0 ** (math.floor(math.log10(df)) - 1)
    return math.floor(df / step + 1e-9) * step


@lru_cache(maxsize=256)
def mean_range(values: int) -> float:
    """Expected range of so many standard normal numbers (d2 of quality control)."""
    inside = quad(lambda x: 1 - norm.cdf(x) ** values - norm.sf(x) ** values, -12, 12, limit=200)
    return float(inside[0])
