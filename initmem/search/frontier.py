"""The next cell for the frontier: where memory crosses the threshold, found with few cells.

After a quasi-random start, the next cell is drawn where the side of the threshold is least known:
straddle, kappa * sd - |mean - threshold| (Bryan et al. 2005, "Active learning for identifying
function threshold boundaries"). Places where cells do not train are avoided, not punished.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import qmc

from initmem.memory.noise import pool
from initmem.memory.paired import Array
from initmem.memory.surface import TRAINS, Measured, Surface, surface
from initmem.study.plan import Point
from initmem.study.spec import Study
from initmem.study.unit import from_unit, to_unit

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
    trains_C = found.trains(candidate_CD)
    # A share of what could be learned: a cell that does not train tells nothing of memory. Where
    # the side is known there is nothing to learn, however surely cells train there.
    worth_C = np.where(straddle_C > 0, straddle_C * trains_C, straddle_C)
    if (trains_C >= TRAINS).any():
        worth_C[trains_C < TRAINS] = -np.inf
    return np.asarray(candidate_CD[worth_C.argmax()])


def start(study: Study) -> int:
    """Quasi-random draws before the first that is chosen."""
    return max(8, 4 * len(study.ranges))


def choose(
    study: Study,
    known: list[tuple[Point, Told | None]],
    open_points: list[Point],
    seed: int,
) -> Point | None:
    """The point of the next draw; None where no cell has trained yet.

    known: ended draws and what is told of them, None where too few scales trained; open_points:
    draws in training.
    """
    found = _believed(study, known)
    if found is None:
        return None
    open_PD = np.array([to_unit(point, study.ranges) for point in open_points])
    return from_unit(next_place(found, open_PD, seed).tolist(), study.ranges)


def narrow(study: Study, known: list[tuple[Point, Told | None]]) -> bool:
    """Whether the frontier's band, as the ended draws have it, is as narrow as `stop_when` asks.

    Never with fewer trained cells than twice the quasi-random start: three cells of 20 points are
    enough for the process to be certain of everything, and after little more than the start it
    can be wrong on a sixth of the ranges with a band below a tenth.
    """
    assert study.search.band is not None
    if sum(told is not None for _, told in known) < 2 * start(study):
        return False
    found = _believed(study, known)
    return found is not None and found.band() < study.search.band


def _believed(study: Study, known: list[tuple[Point, Told | None]]) -> Surface | None:
    there = [told for _, told in known if told is not None]
    noise = pool(
        np.array([told[1] for told in there]), np.array([told[2] for told in there], dtype=int)
    )
    known_errors = [
        np.sqrt(noise.of_cell(square, int(df))[0] * contrast) for _, square, df, contrast in there
    ]
    # Where no cell has a second trained seed, a memory is taken to say little of the threshold.
    errors = iter(np.nan_to_num(known_errors, nan=study.threshold))
    measured = Measured(
        np.array([to_unit(point, study.ranges) for point, _ in known]),
        np.array([np.nan if told is None else told[0] for _, told in known]),
        np.array([np.nan if told is None else next(errors) for _, told in known]),
    )
    return surface(measured, study.threshold)
