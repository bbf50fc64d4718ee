"""What a search is told of other measures, and the frontier of a mean."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from initmem.memory.surface import Measured, surface
from initmem.search import frontier
from initmem.search.agenda import Agenda
from initmem.search.suggest import objectives, suggest
from initmem.study.plan import Point, Replica, arms
from initmem.study.seeds import fold
from initmem.study.spec import Study
from initmem.study.unit import to_unit
from tests.search.test_agenda import World, played
from tests.tiny import study

OF_MEAN = ("search.sampler=frontier", "search.draws=30", "search.lag=2",
           "search.objective=accuracy", "search.level=50")  # fmt: skip
STEPS = "measure=steps_to_validation"


def mean(place_ND: np.ndarray) -> np.ndarray:
    """Falls from 100 to 0 percent, and is 50 where the places sum to 0.8."""
    return np.asarray(100 / (1 + np.exp(12 * (place_ND.sum(axis=1) - 0.8))))


def accuracy(replica: Replica) -> float:
    """The mean above, 5 more at one scale than at the other, and noise of 1 that seeds share."""
    optim = replica.recipe.optim
    place = [math.log10(optim.lr) + 2, (math.log10(optim.l2) + 4) / 3]
    noise = np.random.default_rng(fold(replica.seed)).standard_normal()
    return float(mean(np.array([place]))[0] + 5 * replica.recipe.init.scale - 7.5 + noise)


def told(of: Study, point: Point, noise: float = 1.0) -> frontier.Told:
    (value,) = mean(np.array([to_unit(point, of.ranges)]))
    return float(value), noise**2, 3.0, 1 / 4


def test_the_frontier_of_a_mean_is_drawn_where_it_crosses_the_level(tmp_path: Path) -> None:
    of = study(tmp_path, *OF_MEAN, "search.lag=0")
    known: list[tuple[Point, frontier.Told | None]] = []
    for _ in range(20):
        point = suggest(of, arms(of)[0], known, [])
        known.append((point, told(of, point)))
    place_ND = np.array([to_unit(point, of.ranges) for point, _ in known])
    off_N = np.abs(place_ND.sum(axis=1) - 0.8)
    assert np.median(off_N[8:]) < 0.12 < np.median(off_N[:8])
    assert np.ptp(place_ND[8:, 0]) > 0.6, "along all of it"

    measured = Measured(place_ND, mean(place_ND), np.full(20, 0.5))
    found = surface(measured, of.level, unit=25.0)
    assert found is not None
    believed, _ = found.believed(place_ND)
    assert found.memory(believed) == pytest.approx(mean(place_ND), abs=2.0)
    even = np.linspace(0, 1, 30)
    grid_ND = np.array([[x, y] for x in even for y in even])
    above = found.remembers(grid_ND) > 0.5
    assert (above == (mean(grid_ND) > 50)).mean() > 0.97


def test_it_ends_when_its_band_is_narrow_whoever_finishes_first(tmp_path: Path) -> None:
    of = study(tmp_path, *OF_MEAN, "search.stop_when=band < 0.3")
    handed, agenda = played(World(of, accuracy), workers=1, seed=0)
    assert 18 <= sum(agenda.ended.values()) < 30
    again, other = played(World(of, accuracy), workers=5, seed=1)
    assert other.ended == agenda.ended
    assert {b.cell.draw: b.cell.point for b in again} == {
        b.cell.draw: b.cell.point for b in handed
    }
    assert isinstance(agenda, Agenda)


def rows(
    values: dict[float, list[float | None]], column: str, **more: Any
) -> list[dict[str, Any]]:
    return [
        {"memory_axis": "init.scale", "init.scale": scale, "state": "interpolated", "seed": seed,
         "steps": 1024, column: y, **more}
        for scale, ys in values.items() for seed, y in enumerate(ys)
    ]  # fmt: skip


def test_the_frontier_is_told_the_mean_with_its_own_noise(tmp_path: Path) -> None:
    """Seed means 84 and 88: variance 8, of their mean 8 / 2."""
    of = study(tmp_path, *OF_MEAN)
    made = rows({1.0: [90.0, 92.0], 2.0: [78.0, 84.0]}, "selected.validation_accuracy")
    assert objectives(of, made) == pytest.approx((86.0, 8.0, 1.0, 0.5))


def test_out_of_distribution_the_search_sees_what_the_map_shows(tmp_path: Path) -> None:
    of = study(tmp_path).model_copy(update={"measure": "ood_accuracy"})
    made = rows({1.0: [90.0, 92.0], 2.0: [80.0, 84.0]}, "selected.ood_accuracy")
    assert objectives(of, made) == (9.0,)


def test_of_steps_few_are_best_and_bounds_are_not_minimized(tmp_path: Path) -> None:
    named = {n: study(tmp_path, STEPS, f"search.objective={n}", "search.sampler=tpe",
                      "search.draws=40") for n in ("memory", "accuracy", "both")}  # fmt: skip
    exact = rows({1.0: [16, 64], 2.0: [64, 256]}, "steps_to_validation")
    late = rows({1.0: [16, 64], 2.0: [64, None]}, "steps_to_validation")
    assert {n: objectives(of, exact) for n, of in named.items()} == {
        "memory": (2.0,), "accuracy": (6.0,), "both": (2.0, 6.0),
    }  # fmt: skip
    assert objectives(named["memory"], late) is None and objectives(named["both"], late) is None
    assert objectives(named["accuracy"], late) == (6.5,)
    of, known = named["accuracy"], []
    for _ in range(40):
        point = suggest(of, arms(of)[0], known, [])
        known.append((point, (math.log(point["optim.lr"]),)))
    assert np.median([point["optim.lr"] for point, _ in known[20:]]) < 0.02


def test_a_bound_tells_the_frontier_its_side_or_nothing(tmp_path: Path) -> None:
    of_memory = study(tmp_path, STEPS, *OF_MEAN[:3], "threshold=2")
    of_mean = study(tmp_path, STEPS, *OF_MEAN, "search.level=6")
    far = rows({1.0: [16, 64], 2.0: [256, None]}, "steps_to_validation")
    near = rows({1.0: [16, 16], 2.0: [16, None]}, "steps_to_validation", steps=32)
    hidden = rows({1.0: [16, None], 2.0: [1024, 1024]}, "steps_to_validation")
    for of, values in ((of_memory, [4.0, None, None]), (of_mean, [7.0, None, 8.5])):
        each = [objectives(of, made) for made in (far, near, hidden)]
        assert [told and told[0] for told in each] == values
