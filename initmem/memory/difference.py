"""How much more one cell remembers than another, seed by seed.

A seed draws the same init noise in every cell, and one that suffers at a large scale does so in
all of them: within seeds, a difference of two cells has less noise than the memory of either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import ttest_1samp

from initmem.memory.measures import MEASURE, TRAINED, Measure, named

Rows = Iterable[Mapping[str, Any]]


@dataclass(frozen=True)
class Difference:
    """Of the memory of two cells, the first minus the second, in the unit of the measure."""

    mean: float
    low: float
    high: float
    """95% interval, Student's t over seeds."""
    p: float
    """Two-sided, of no difference."""
    seeds: int
    best: Any
    worst: Any
    """Values of the memory axis that memory is taken between: those with the highest and lowest
    mean of both cells together, so that neither is favoured."""


def difference(
    first: Rows, second: Rows, measure: str = MEASURE, states: tuple[str, ...] = TRAINED
) -> Difference | None:
    """From the rows of two cells (see `paired`), over replicas in `states`. None where fewer than
    two seeds are measured in both at the two values, all of them say exactly the same, or one is
    measured by a lower bound."""
    of, first, second = named(measure), list(first), list(second)
    a, b = (_measured(rows, of, states) for rows in (first, second))
    shared: dict[Any, list[float]] = {}
    for value, seed in a.keys() & b.keys():
        shared.setdefault(value, []).append(a[value, seed] + b[value, seed])
    if len(shared) < 2:
        return None
    means = {value: np.mean(sums) for value, sums in sorted(shared.items())}
    best, worst = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
    seeds = [seed for value, seed in sorted(a.keys() & b.keys()) if value == best]
    seeds = [seed for seed in seeds if (worst, seed) in a and (worst, seed) in b]
    each_S = [(a[best, s] - a[worst, s]) - (b[best, s] - b[worst, s]) for s in seeds]
    if len(each_S) < 2 or np.ptp(each_S) == 0:
        return None
    if any(of.censored(r) for r in (*first, *second) if r[r["memory_axis"]] in (best, worst)):
        return None
    test = ttest_1samp(each_S, 0.0)
    low, high = test.confidence_interval(0.95)
    mean = float(np.mean(each_S))
    return Difference(mean, float(low), float(high), float(test.pvalue), len(seeds), best, worst)


def _measured(rows: Rows, of: Measure, states: tuple[str, ...]) -> dict[tuple[Any, Any], float]:
    return {
        (row[row["memory_axis"]], row["seed"]): of.value(row)
        for row in rows
        if row["state"] in states and np.isfinite(of.value(row))
    }
