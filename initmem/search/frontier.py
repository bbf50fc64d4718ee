"""The next cell for the frontier: where memory crosses the threshold, found with few cells.

After a quasi-random start, the next cell is drawn where the side of the threshold is least known:
straddle, kappa * sd - |mean - threshold| (Bryan et al. 2005, "Active learning for identifying
function threshold boundaries"). Places where cells do not train are avoided, not punished.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.stats import qmc

from initmem.memory.noise import pool
from initmem.memory.paired import Array
from initmem.memory.surface import Measured, Surface, surface
from initmem.study.spec import Range, Study

KAPPA = 1.4
CANDIDATES = 1024
"""Points among which the next cell is chosen, a fresh quasi-random set for each draw."""

Told = tuple[float, ...]
"""Of a cell: its memory, its noise's mean square and degrees of freedom, and the variance of a
difference of two means in units of the noise's."""


def next_place(found: Surface, open_PD: Array, rng_seed: int) -> Array:
    """Where to draw the next cell [D], given the cells in training."""
    for place_D in open_PD:
        found = found.with_cell(place_D)
    dimensions = found.process.X_train_.shape[1]
    candidate_CD = qmc.Sobol(dimensions, rng=rng_seed).random(CANDIDATES)
    mean_C, sd_C = found.believed(candidate_CD)
    straddle_C = KAPPA * sd_C - np.abs(mean_C)
    # A share of what could be learned: a cell that does not train tells nothing of memory.
    worth_C = (straddle_C - straddle_C.min()) * found.trains(candidate_CD)
    return np.asarray(candidate_CD[worth_C.argmax()])


def start(study: Study) -> int:
    """Quasi-random draws before the first that is chosen."""
    return max(8, 4 * len(study.ranges))


def choose(
    study: Study,
    known: list[tuple[dict[str, float], Told | None]],
    open_points: list[dict[str, float]],
    seed: int,
) -> dict[str, float] | None:
    """The point of the next draw; None where no cell has trained yet.

    known: ended draws and what is told of them, None where too few scales trained; open_points:
    draws in training.
    """
    there = [told for _, told in known if told is not None]
    noise = pool(
        np.array([told[1] for told in there]), np.array([told[2] for told in there], dtype=int)
    )
    errors = iter(
        np.sqrt(noise.of_cell(square, int(df))[0] * contrast) for _, square, df, contrast in there
    )
    measured = Measured(
        np.array([to_unit(point, study.ranges) for point, _ in known]),
        np.array([np.nan if told is None else told[0] for _, told in known]),
        np.array([np.nan if told is None else next(errors) for _, told in known]),
    )
    found = surface(measured, study.threshold)
    if found is None:
        return None
    open_PD = np.array([to_unit(point, study.ranges) for point in open_points])
    return from_unit(next_place(found, open_PD, seed), study.ranges)


def to_unit(point: Mapping[str, float], ranges: Mapping[str, Range]) -> Array:
    """A point -> its place in the unit cube [D], on the logarithm where the range has it."""
    return np.array([_share(point[field], r) for field, r in ranges.items()])


def from_unit(place_D: Array, ranges: Mapping[str, Range]) -> dict[str, float]:
    """The reverse of `to_unit`, within the ranges."""
    point = {}
    for share, (field, r) in zip(place_D, ranges.items(), strict=True):
        value = r.low * (r.high / r.low) ** share if r.log else r.low + share * (r.high - r.low)
        point[field] = float(np.clip(value, r.low, r.high))
    return point


def _share(value: float, r: Range) -> float:
    if r.log:
        return float(np.log(value / r.low) / np.log(r.high / r.low))
    return (value - r.low) / (r.high - r.low)
