"""The next cell for the frontier: where memory crosses the threshold, or the mean of the measure
`search.level`, found with few cells.

After a quasi-random start, the next cell is drawn where the side of the threshold is least known:
straddle, kappa * sd - |mean - threshold| (Bryan et al. 2005, "Active learning for identifying
function threshold boundaries"). Places where cells do not train are avoided, not punished.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import qmc

from initmem.memory.measures import named
from initmem.memory.noise import errors
from initmem.memory.paired import Array, Paired
from initmem.memory.surface import TRAINS, Measured, Surface, surface
from initmem.study.plan import Point
from initmem.study.spec import Study
from initmem.study.unit import from_unit, to_unit

KAPPA = 1.4
CANDIDATES = 1024
"""Points among which the next cell is chosen, a fresh quasi-random set for each draw."""

Told = tuple[float, ...]
"""Of a cell: its memory, its noise's mean square and degrees of freedom, and the variance of a
difference of two means in units of the noise's; or its mean, and the same of that."""


def told(study: Study, cell: Paired) -> Told | None:
    """What the frontier is to know of a cell; None where too few values are trained to speak of a
    spread, or a lower bound does not tell the side."""
    of_mean = study.search.level is not None
    if not (cell.trained if of_mean else cell.whole):
        return None
    found = cell.mean if of_mean else cell.spread
    if cell.censored and found < study.level:
        return None
    if of_mean:
        square, df, contrast = cell.mean_noise
        return found, square, float(df), contrast
    return found, cell.mean_square, float(cell.df), float(cell.contrast_AA.max())


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
    told_N4 = np.array([(np.nan,) * 4 if told is None else told for _, told in known])
    told_N4 = told_N4.reshape(len(known), 4)
    there_N = np.isfinite(told_N4[:, 0])
    _, square_M, df_M, contrast_M = told_N4[there_N].T
    error_N = np.full(len(known), np.nan)
    unit = study.threshold if study.search.level is None else named(study.measure).reach
    # Where no cell has a second trained seed, a memory is taken to say little of the threshold.
    error_M = np.nan_to_num(errors(square_M, df_M.astype(int), contrast_M), nan=unit)
    error_N[there_N] = error_M
    place_ND = np.array([to_unit(point, study.ranges) for point, _ in known])
    return surface(Measured(place_ND, told_N4[:, 0], error_N), study.level, unit)
