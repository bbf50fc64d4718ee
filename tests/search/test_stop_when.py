"""An arm's search ends when the band of the frontier is narrow enough."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from initmem.memory.surface import Measured, surface, unsure
from initmem.search import frontier
from initmem.search.agenda import Agenda
from initmem.study.plan import Point, Replica, arms
from initmem.study.seeds import fold
from initmem.study.spec import Study
from initmem.study.unit import from_unit, to_unit
from tests.search.test_agenda import World, played
from tests.search.test_frontier import memory
from tests.search.test_suggest import ARMS
from tests.tiny import study

SEARCHED = ("search.sampler=frontier", "search.draws=30", "search.lag=2")


def accuracy(replica: Replica) -> float:
    """Scale 2 loses the memory that `memory` has at the point; arms differ in where it ends."""
    optim = replica.recipe.optim
    lr, l2 = math.log10(optim.lr) + 2, (math.log10(optim.l2) + 4) / 3
    (lost,) = memory(np.array([[lr, l2 if optim.name == "sgd" else 0.2 + l2]]))
    noise = 0.2 * np.random.default_rng(fold(replica.id)).standard_normal()
    return 90 - lost * (replica.recipe.init.scale == 2) + noise


def test_it_ends_at_the_same_draw_whoever_finishes_first(tmp_path: Path) -> None:
    of = study(tmp_path, *SEARCHED, "search.stop_when=band < 0.3", text=ARMS)
    handed, agenda = played(World(of, accuracy), workers=1, seed=0)
    assert set(agenda.ended) == {arm.id for arm in arms(of)}
    assert all(18 <= draws < 30 for draws in agenda.ended.values())
    points = {(b.cell.arm.id, b.cell.draw): b.cell.point for b in handed}
    assert len(points) == sum(agenda.ended.values())
    for workers, seed in ((3, 1), (64, 2)):
        world = World(of, accuracy)
        again, other = played(world, workers, seed)
        assert {(b.cell.arm.id, b.cell.draw): b.cell.point for b in again} == points
        assert other.ended == agenda.ended

    rerun = Agenda(of, world.rows_of, points)
    assert rerun.next() is None and rerun.exhausted and rerun.ended == agenda.ended
    tighter = study(tmp_path, *SEARCHED, "search.stop_when=band < 0.001", text=ARMS)
    goes_on = Agenda(tighter, world.rows_of, points)
    block = goes_on.next()
    assert block is not None and block.cell.draw == agenda.ended[block.cell.arm.id]
    assert not goes_on.ended and not goes_on.exhausted


def test_it_ends_by_what_the_next_draw_may_know(tmp_path: Path) -> None:
    """Lag 2: draw k is not drawn if the draws 0 .. k-3 have a narrow band."""
    of = study(tmp_path, *SEARCHED, "search.stop_when=band < 0.3")
    world = World(of, accuracy)
    handed, agenda = played(world, workers=1, seed=0)
    (last,) = agenda.ended.values()
    told = [(b.cell.point, told_of(world.rows_of(b.cell), of)) for b in handed]
    narrow = [frontier.narrow(of, told[:known]) for known in range(last - 1)]
    assert narrow == [False] * (last - 2) + [True]


def told_of(rows: object, of: Study) -> frontier.Told | None:
    from initmem.search.suggest import objectives

    return objectives(of, rows)


def spread_out(of: Study, count: int) -> list[Point]:
    steps = [[k * 0.618 % 1, k * 0.325 % 1] for k in range(count)]
    return [from_unit(place, of.ranges) for place in steps]


@pytest.mark.parametrize("level", [0.0, 20.0])
def test_few_cells_end_nothing_however_much_alike_they_are(tmp_path: Path, level: float) -> None:
    """Three cells of 20 points leave the process little doubt of anything; a search needs 16."""
    of = study(tmp_path, *SEARCHED, "search.stop_when=band < 0.1")
    known = [(point, (level, 0.04, 6.0, 1.0)) for point in spread_out(of, 16)]
    places = np.array([to_unit(point, of.ranges) for point, _ in known])
    for count in (3, 8):
        cells = Measured(places[:count], np.full(count, 20.0), np.full(count, 0.2))
        found = surface(cells, of.threshold)
        assert found is not None and found.band() < 0.1
    assert [frontier.narrow(of, known[:count]) for count in (0, 1, 3, 8, 15, 16)] == [
        *[False] * 5, True,
    ]  # fmt: skip
    assert not frontier.narrow(of, [*known[:15], (known[15][0], None)]), "it did not train"


def test_noisy_cells_are_certain_of_nothing(tmp_path: Path) -> None:
    """Memory at 1 point under a threshold of 2, with an error of 2."""
    of = study(tmp_path, *SEARCHED, "search.stop_when=band < 0.5")
    known = [(point, (1.0, 4.0, 6.0, 1.0)) for point in spread_out(of, 30)]
    assert not frontier.narrow(of, known)


def test_the_width_of_the_band_is_a_share_of_where_cells_train() -> None:
    rng = np.random.default_rng(0)
    place_ND = rng.random((40, 2))
    memory_N = memory(place_ND)
    even = (np.arange(50) + 0.5) / 50
    grid_ND = np.array([[x, y] for x in even for y in even])
    for there in (np.full(40, True), place_ND[:, 0] < 0.5):
        cells = Measured(place_ND, np.where(there, memory_N, np.nan), np.full(40, 0.5))
        found = surface(cells, 2.0)
        assert found is not None
        trains = found.trains(grid_ND) >= 0.5
        assert trains.all() == there.all()
        share = unsure(found.remembers(grid_ND[trains])).mean()
        assert 0.02 < share < 0.5 and found.band() == pytest.approx(share, abs=0.01)
