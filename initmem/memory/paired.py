"""The paired table of a cell, value of the memory axis x seed, and its additive fit.

Memory is the spread of the means over seeds: the largest minus the smallest, in the unit of the
measure, over the replicas that interpolated or plateaued (after arXiv 2605.29152, which leaves the
formula open; this one is ours). A seed draws the same init noise at every value, so the noise of a
mean is what is left of the table when values and seeds are taken out of it.

A censored replica is measured by a lower bound (see `measures`). The spread is then a lower bound
too, where the smallest mean is of replicas that are not censored; where it is not, nothing is
known of the spread. What bounds differ by is no noise, so noise is that of values without any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from initmem.memory.measures import MEASURE, TRAINED, named

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Paired:
    """The measured replicas of a cell, and what the additive fit makes of them."""

    values: list[Any]
    """Of the memory axis that have a measured replica, ascending."""
    untrained: list[Any]
    """Values that have none."""
    measured_AS: Array
    """nan where a replica is not measured."""
    mean_A: Array
    """Means over seeds; where seeds are missing, adjusted for which ones (least squares)."""
    contrast_AA: Array
    """Variance of the difference of two means, in units of the noise's; 2 / seeds where none is
    missing."""
    mean_square: float
    """Of the residuals: the noise's variance. nan without degrees of freedom."""
    df: int
    """Degrees of freedom of the residuals."""
    censored_A: tuple[int, ...] = ()
    """Replicas that are measured by a lower bound; empty for none at all."""

    @property
    def trained(self) -> bool:
        """Whether two values, and half of all, are measured."""
        return len(self.values) >= max(2, len(self.untrained))

    @property
    def hidden(self) -> bool:
        """Whether the smallest mean is a lower bound, so that nothing is known of the spread."""
        return bool(self.censored_A) and not (self.mean_A == self.mean_A.min())[self.exact_A].any()

    @property
    def exact_A(self) -> NDArray[np.bool_]:
        """Whether no replica of a value is measured by a lower bound."""
        return np.array([not n for n in self.censored_A or (0,) * len(self.values)], dtype=bool)

    @property
    def whole(self) -> bool:
        """Whether there is a spread to speak of. If any replica is censored, it is a lower
        bound."""
        return self.trained and not self.hidden

    @property
    def censored(self) -> int:
        """Replicas that are measured by a lower bound."""
        return sum(self.censored_A)

    @property
    def spread(self) -> float:
        return float(np.ptp(self.mean_A))

    @property
    def mean(self) -> float:
        """Over the values' means; a lower bound if any replica is censored."""
        return float(self.mean_A.mean()) if self.values else np.nan

    @property
    def mean_noise(self) -> tuple[float, int, float]:
        """Of `mean`, whose noise is what seeds differ by, each averaged over the values: mean
        square, its degrees of freedom, and the variance of the mean in units of it (1 / seeds)."""
        off_AS = (self.measured_AS - self.mean_A[:, None])[self.exact_A]
        off_AS = off_AS[:, np.isfinite(off_AS).any(axis=0)]
        seeds = off_AS.shape[1]
        if seeds < 2:
            return np.nan, 0, 1.0
        return float(np.nanmean(off_AS, axis=0).var(ddof=1)), seeds - 1, 1 / seeds

    @property
    def seeds(self) -> int:
        return self.measured_AS.shape[1]

    @property
    def n(self) -> int:
        """Replicas measured."""
        return int(np.isfinite(self.measured_AS).sum())

    @property
    def summary(self) -> dict[str, Any]:
        """What `spread` returns."""
        return {
            "memory": self.spread if self.whole else None,
            "highest_at": self.values[int(self.mean_A.argmax())] if self.whole else None,
            "lowest_at": self.values[int(self.mean_A.argmin())] if self.whole else None,
            "mean": self.mean if self.values else None,
            "values": len(self.values) + len(self.untrained),
            "trained_values": len(self.values),
            "n": self.n,
            **({"censored": self.censored} if self.censored else {}),
        }


def paired(
    rows: Iterable[Mapping[str, Any]], measure: str = MEASURE, states: tuple[str, ...] = TRAINED
) -> Paired:
    """The table of one cell, from the rows of its replicas (each a mapping with at least
    `memory_axis`, that axis's column, `seed`, `state` and the column of `measure`: a name in
    `measures`, or the column's), over those in `states`."""
    of = named(measure)
    found: dict[tuple[Any, Any], float] = {}
    bounds: dict[Any, int] = {}
    values, seeds = set(), set()
    for row in rows:
        value = row[row["memory_axis"]]
        values.add(value)
        seeds.add(row["seed"])
        y = of.value(row)
        if row["state"] in states and np.isfinite(y):
            found[value, row["seed"]] = y
            bounds[value] = bounds.get(value, 0) + of.censored(row)
    table = np.array([[found.get((a, s), np.nan) for s in sorted(seeds)] for a in sorted(values)])
    table = table.reshape(len(values), len(seeds))
    there = np.isfinite(table).any(axis=1)
    kept = [value for value, has in zip(sorted(values), there, strict=True) if has]
    lost = [value for value, has in zip(sorted(values), there, strict=True) if not has]
    whole = fit(table[there], kept, lost)
    if not any(bounds.values()):
        return whole
    exact = fit(table[[a for a, v in enumerate(sorted(values)) if bounds.get(v) == 0]])
    censored = tuple(bounds[value] for value in kept)
    return replace(whole, mean_square=exact.mean_square, df=exact.df, censored_A=censored)


def fit(
    measured_AS: Array, values: list[Any] | None = None, untrained: list[Any] | None = None
) -> Paired:
    """The additive fit y[a, s] = value[a] + seed[s] + noise of a table; every row has a number.

    Where missing replicas leave no way to compare two values at a common seed, not even through
    others, seeds are taken for noise: y[a, s] = value[a] + noise.
    """
    named = list(range(len(measured_AS))) if values is None else values
    if measured_AS.size and np.isfinite(measured_AS).all():  # the fit is the means, exactly
        A, S = measured_AS.shape
        mean_A, mean_S = measured_AS.mean(axis=1), measured_AS.mean(axis=0)
        rest_AS = measured_AS - mean_A[:, None] - mean_S + measured_AS.mean()
        contrast_AA, df = 2 / S * (1 - np.eye(A)), (A - 1) * (S - 1)
        square = float((rest_AS**2).sum() / df) if df else np.nan
        return Paired(named, untrained or [], measured_AS, mean_A, contrast_AA, square, df)
    a, s = np.isfinite(measured_AS).nonzero()
    y = measured_AS[a, s]
    A, S = len(measured_AS), len(set(s))
    of_value, of_seed = np.eye(A)[a], (s[:, None] == sorted(set(s))).astype(float)
    design = np.hstack([of_value, of_seed - 1 / max(S, 1)])  # seeds sum to zero: means are at all
    rank = A + S - 1
    if np.linalg.matrix_rank(np.hstack([of_value, of_seed])) < rank:
        design, rank = of_value, A
    effects = np.linalg.lstsq(design, y, rcond=None)[0]
    covariance = np.linalg.pinv(design.T @ design)[:A, :A]
    variance_A = np.diag(covariance)
    residuals = y - design @ effects
    df = len(y) - rank if len(y) else 0
    return Paired(
        values=named,
        untrained=untrained or [],
        measured_AS=measured_AS,
        mean_A=effects[:A],
        contrast_AA=variance_A[:, None] + variance_A[None, :] - 2 * covariance,
        mean_square=float(residuals @ residuals / df) if df else np.nan,
        df=df,
    )


def spread(
    rows: Iterable[Mapping[str, Any]], measure: str = MEASURE, states: tuple[str, ...] = TRAINED
) -> dict[str, Any]:
    """The memory of one cell, from the rows of its replicas (see `paired`).

    Returns memory: in the unit of `measure`, or None where fewer than two values, or fewer than
    half of them, are measured, or the smallest mean is but a lower bound; highest_at, lowest_at:
    the values that attain it; mean: over the values' means; values, trained_values: how many the
    axis has, and how many are measured; n: replicas used; and, if any replica is measured by a
    lower bound, so that memory and mean are lower bounds: censored, how many.
    """
    return paired(rows, measure, states).summary
