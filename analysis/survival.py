"""Times of an event that some networks do not see before they end: their median, its interval and
ratios of medians.

A network that ended without the event is censored: its time is later than its end. Networks of a
group differ in their seed alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

LEVEL = 0.9
"""Least coverage of the interval of a median. Five times allow no 95%."""
RESAMPLES = 9_999


@dataclass(frozen=True)
class Times:
    """Of the networks of a group, in steps."""

    step_N: np.ndarray
    """Of the event, or the last trained."""
    seen_N: np.ndarray
    """Whether there was the event."""
    seed_N: np.ndarray

    def of(self, seeds: np.ndarray) -> Times:
        """Of these seeds, each in the group once, in their order."""
        order = np.argsort(self.seed_N)
        place_N = order[np.searchsorted(self.seed_N[order], seeds)]
        return Times(self.step_N[place_N], self.seen_N[place_N], seeds)


def medians(times: Times, count_BN: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of B groups that hold network n count_BN[b, n] times, all of one size: the Kaplan-Meier
    median (the first time at which the survival function is at most a half), inf where fewer than
    half saw the event; and what the median is not below, whatever the censored would have done:
    the median of the times until event or end. Both [B]; of an even number, the lower median."""
    order = np.lexsort((~times.seen_N, times.step_N))  # an event comes before an end at its time
    step_N, seen_N = times.step_N[order].astype(float), times.seen_N[order]
    count_BN = count_BN[:, order]
    at_risk_BN = count_BN[:, ::-1].cumsum(axis=1)[:, ::-1]
    size_B = at_risk_BN[:, 0]
    events_BN = count_BN * seen_N
    survival_BN = np.cumprod(1 - events_BN / np.maximum(at_risk_BN, 1), axis=1)
    half_BN = survival_BN <= 0.5 + 1e-9
    known_B = half_BN.any(axis=1) & (2 * events_BN.sum(axis=1) >= size_B)
    median_B = np.where(known_B, step_N[half_BN.argmax(axis=1)], np.inf)
    passed_BN = count_BN.cumsum(axis=1) >= (size_B[:, None] + 1) // 2
    return median_B, np.minimum(step_N[passed_BN.argmax(axis=1)], median_B)


def median(times: Times) -> tuple[float, float]:
    """Of the group itself: `medians`, or nan twice where it is empty."""
    if not len(times.step_N):
        return np.nan, np.nan
    median_B, least_B = medians(times, np.ones((1, len(times.step_N)), dtype=int))
    return float(median_B[0]), float(least_B[0])


def interval(times: Times, level: float = LEVEL) -> tuple[float, float, float]:
    """Of the median of the times that any seed would give: from one order statistic to its mirror
    image, the narrowest with this coverage, and that coverage, which is exact for every
    distribution without ties, and at least that for all. A censored time is its end below, and
    inf above. nan thrice where there are too few times for any interval of this level."""
    size = len(times.step_N)
    rank = int(binom.ppf((1 - level) / 2, size, 0.5)) if size else 0
    if rank == 0:
        return np.nan, np.nan, np.nan
    low = np.sort(times.step_N)[rank - 1]
    high = np.sort(np.where(times.seen_N, times.step_N, np.inf))[size - rank]
    return float(low), float(high), float(1 - 2 * binom.cdf(rank - 1, size, 0.5))


@dataclass(frozen=True)
class Ratio:
    """A reference's median by another group's: how many times fewer steps the other takes."""

    value: float
    """nan where neither median is known."""
    bound: str
    """at least (the reference's median is not known), at most (the other's is not), or empty."""
    low: float
    high: float
    """95% percentile bootstrap over seeds; inf where the resamples leave it open, nan for a single
    seed."""
    seeds: int
    """In both groups; they are drawn in pairs."""


def ratio(reference: Times, other: Times) -> Ratio:
    seeds = np.intersect1d(reference.seed_N, other.seed_N)
    size = len(seeds)
    a, b = reference.of(seeds), other.of(seeds)
    (over, over_least), (under, under_least) = median(a), median(b)
    if not np.isfinite([over, under]).any():
        return Ratio(np.nan, "", np.nan, np.nan, size)
    bound = "at least" if np.isinf(over) else "at most" if np.isinf(under) else ""
    value = over_least / under_least
    if size < 2:
        return Ratio(value, bound, np.nan, np.nan, size)
    picks_BN = np.random.default_rng(0).integers(size, size=(RESAMPLES, size))
    count_BN = (picks_BN[:, :, None] == np.arange(size)).sum(axis=1)
    (over_B, over_least_B), (under_B, under_least_B) = medians(a, count_BN), medians(b, count_BN)
    # The ends hold whatever the censored would have done: an unknown median is anything from its
    # least on.
    low = np.percentile(over_least_B / under_B, 2.5, method="inverted_cdf")
    high = np.percentile(over_B / under_least_B, 97.5, method="inverted_cdf")
    return Ratio(value, bound, float(low), float(high), size)
