"""The order in which blocks are handed out, and what a draw may know."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from initmem.search import agenda as agenda_module
from initmem.search import suggest as suggest_module
from initmem.search.agenda import Agenda, Rows
from initmem.study.plan import Block, Cell, Replica, arms, count
from initmem.study.spec import Study
from tests.search.test_suggest import ARMS
from tests.tiny import study

Accuracy = Callable[[Replica], float]


def falling(replica: Replica) -> float:
    return 90 - replica.recipe.optim.lr * replica.recipe.init.scale


class World:
    """Trains in no time: a cell's accuracy is a function of its point."""

    def __init__(self, of: Study, accuracy: Accuracy = falling) -> None:
        self.study, self.accuracy = of, accuracy
        self.done: dict[str, dict[str, object]] = {}

    def rows_of(self, cell: Cell) -> Rows | None:
        rows = [self.done.get(r.id) for r in cell.replicas]
        return [r for r in rows if r] if None not in rows else None

    def train(self, block: Block) -> None:
        for replica in block.replicas:
            self.done[replica.id] = {
                "memory_axis": "init.scale", "init.scale": replica.recipe.init.scale,
                "state": "interpolated", "seed": replica.seed,
                "selected.validation_accuracy": self.accuracy(replica),
            }  # fmt: skip


def simulate(of: Study, workers: int, seed: int, drawn: dict | None = None) -> tuple[dict, list]:
    """Blocks finish in random order; returns the points by arm and draw, and the blocks."""
    handed, _ = played(World(of), workers, seed, drawn)
    return {(b.cell.arm.id, b.cell.draw): b.cell.point for b in handed}, handed


def played(
    world: World, workers: int, seed: int, drawn: dict | None = None
) -> tuple[list[Block], Agenda]:
    of, dice = world.study, random.Random(seed)
    agenda = Agenda(of, world.rows_of, drawn or {})
    running: list[Block] = []
    handed: list[Block] = []
    while True:
        while len(running) < workers and (block := agenda.next()) is not None:
            running.append(block)
            handed.append(block)
        if not running:
            break
        block = running.pop(dice.randrange(len(running)))
        world.train(block)
        agenda.finished(block)
    assert agenda.exhausted and not agenda.incomplete
    assert len(world.done) == count(of, agenda.ended)
    return handed, agenda


def test_the_table_does_not_depend_on_workers_or_finishing_order(tmp_path: Path) -> None:
    of = study(tmp_path, "search.sampler=tpe", "search.draws=16", "search.lag=3", text=ARMS)
    reference, _ = simulate(of, workers=1, seed=0)
    assert len(reference) == 32
    for workers, seed in ((2, 1), (3, 2), (64, 3)):
        assert simulate(of, workers, seed)[0] == reference


def test_at_most_lag_plus_one_draws_of_an_arm_are_open(tmp_path: Path) -> None:
    of = study(tmp_path, "search.draws=10", "search.lag=2")
    agenda = Agenda(of, World(of).rows_of, {})
    assert [agenda.next() is not None for _ in range(5)] == [True, True, True, False, False]
    assert not agenda.exhausted


def test_blocks_cut_a_cell_and_close_it_together(tmp_path: Path) -> None:
    of = study(tmp_path, "resources.replicas=3", "search.draws=2", "search.lag=0")
    world = World(of)
    agenda = Agenda(of, world.rows_of, {})
    first, second = agenda.next(), agenda.next()
    assert [len(first.replicas), len(second.replicas)] == [3, 1]
    world.train(second)
    agenda.finished(second)
    assert agenda.next() is None
    world.train(first)
    agenda.finished(first)
    assert agenda.next().cell.draw == 1


def test_what_is_done_is_not_handed_out_and_drawn_points_are_kept(tmp_path: Path) -> None:
    of = study(tmp_path, "search.draws=3")
    points, blocks = simulate(of, 1, 0)
    moved = {
        key: {**p, "optim.lr": 0.05 + key[1] / 1000} for key, p in points.items() if key[1] < 2
    }
    again, _ = simulate(of, 1, 0, drawn=moved)
    assert {k: again[k] for k in moved} == moved
    world = World(of)
    for block in blocks:
        world.train(block)
    agenda = Agenda(of, world.rows_of, {})
    assert agenda.next() is None and agenda.exhausted


def test_a_lost_block_leaves_its_cell_incomplete_and_the_study_goes_on(tmp_path: Path) -> None:
    of = study(tmp_path, "search.draws=3", "search.lag=0", "search.sampler=tpe")
    world = World(of)
    agenda = Agenda(of, world.rows_of, {})
    handed = 0
    while (block := agenda.next()) is not None:
        handed += 1
        if block.cell.draw != 1:
            world.train(block)
        agenda.finished(block)
    assert handed == 3 and agenda.exhausted
    assert [c.draw for c in agenda.incomplete] == [1]


def test_the_arm_with_the_fewest_draws_is_next(tmp_path: Path) -> None:
    """Of those that may draw, the first in the study; held against all arms at each turn."""
    of = study(tmp_path, "search.draws=6", "search.lag=1", text=ARMS)
    world, dice = World(of), random.Random(0)
    agenda = Agenda(of, world.rows_of, {})
    drawn, told, running = [0, 0], [set(), set()], []
    while not agenda.exhausted or running:
        first = [next(k for k in range(7) if k not in told[arm]) for arm in (0, 1)]
        may = [arm for arm in (0, 1) if drawn[arm] < 6 and drawn[arm] <= first[arm] + 1]
        block = agenda.next()
        if block is not None:
            assert block.cell.arm.index == min(may, key=lambda arm: drawn[arm])
            drawn[block.cell.arm.index] += 1
            running.append(block)
            continue
        assert not may
        block = running.pop(dice.randrange(len(running)))
        world.train(block)
        agenda.finished(block)
        told[block.cell.arm.index].add(block.cell.draw)
    assert drawn == [6, 6]
    assert agenda.replicas == count(of) == len(world.done)


def test_an_arms_points_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is known of its draws is not gathered, where no draw depends on it."""
    asked = []
    made = suggest_module.fixed
    monkeypatch.setattr(agenda_module, "fixed", lambda of, arm: asked.append(arm) or made(of, arm))
    monkeypatch.setattr(agenda_module._Progress, "known", None)
    reference = [suggest_module._sequence(study(tmp_path, text=ARMS).model_dump_json(), arm.id)
                 for arm in arms(study(tmp_path, text=ARMS))]  # fmt: skip
    points, _ = simulate(study(tmp_path, text=ARMS), workers=2, seed=0)
    assert len(asked) == 2
    assert [list(points.values())[k::2] for k in (0, 1)] == reference
