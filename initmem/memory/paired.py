"""The paired table of a cell, value of the memory axis x seed, and its additive fit.

Memory is the spread of the means over seeds: the largest minus the smallest, in the unit of the
measure, over the replicas that interpolated or plateaued (after arXiv 2605.29152, which leaves the
formula open; this one is ours). A seed draws the same init noise at every value, so the noise of a
mean is what is left of the table when values and seeds are taken out of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MEASURE = "selected.test_accuracy"
STATES = ("interpolated", "plateaued", "undertrained", "diverged", "failed")
TRAINED = ("interpolated", "plateaued")

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

    @property
    def whole(self) -> bool:
        """Whether there is a spread to speak of: two values, and half of all, are measured."""
        return len(self.values) >= max(2, len(self.untrained))

    @property
    def spread(self) -> float:
        return float(np.ptp(self.mean_A))

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
            "mean": float(self.mean_A.mean()) if self.values else None,
            "values": len(self.values) + len(self.untrained),
            "trained_values": len(self.values),
            "n": self.n,
        }


def paired(
    rows: Iterable[Mapping[str, Any]], measure: str = MEASURE, states: tuple[str, ...] = TRAINED
) -> Paired:
    """The table of one cell, from the rows of its replicas (each a mapping with at least
    `memory_axis`, that axis's column, `seed`, `state` and `measure`), over those in `states`."""
    found: dict[tuple[Any, Any], float] = {}
    values, seeds = set(), set()
    for row in rows:
        value = row[row["memory_axis"]]
        values.add(value)
        seeds.add(row["seed"])
        y = row[measure]
        if row["state"] in states and y is not None and np.isfinite(y):
            found[value, row["seed"]] = y
    table = np.array([[found.get((a, s), np.nan) for s in sorted(seeds)] for a in sorted(values)])
    table = table.reshape(len(values), len(seeds))
    there = np.isfinite(table).any(axis=1)
    named = list(zip(sorted(values), there, strict=True))
    return fit(
        table[there],
        [value for value, has in named if has],
        [value for value, has in named if not has],
    )


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
    half of them, are measured; highest_at, lowest_at: the values that attain it; mean: over the
    values' means; values, trained_values: how many the axis has, and how many are measured; n:
    replicas used.
    """
    return paired(rows, measure, states).summary
