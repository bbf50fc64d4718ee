from __future__ import annotations

import inspect
import math
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.collections import LineCollection, PathCollection

from analysis import accuracy_by_scale, frontier, phase_diagram, regularization, style, tables
from tests.analysis import make

FIGURES = (phase_diagram, regularization, accuracy_by_scale)
L2 = "  optim.l2: {low: 1e-4, high: 1e-1, log: true}\n"
SHAPES = {
    "one range": make.STUDY.replace(L2, ""),
    "no range": make.STUDY.partition("ranges:")[0].replace("100}", "100, lr: 0.1}"),
    "three ranges": make.STUDY.replace(L2, L2 + "  optim.weight_decay: {low: 0, high: 1}\n"),
    "two arms": make.STUDY.replace("axes:", "axes:\n  model.norm: [batch, none]"),
    "arms alone": make.STUDY.partition("ranges:")[0]
    .replace("axes:", "axes:\n  model.norm: [batch, none]")
    .replace("100}", "100, lr: 0.1}"),
    "linear from zero": make.STUDY.replace("low: 1e-4, high: 1e-1, log: true", "low: 0, high: 1"),
    "text axis": make.STUDY.replace("init.scale: [0.25, 1, 2, 3]", "init.rule: [kaiming, lecun]")
    .replace("  init: {rule: kaiming}\n", "")
    .replace("axes:", "memory_axis: init.rule\naxes:"),
}


def test_figures_take_tables_and_nothing_else() -> None:
    for module in FIGURES:
        parameters = inspect.signature(module.draw, eval_str=True).parameters.values()
        assert {p.annotation for p in parameters} == {pd.DataFrame}, module


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_study_is_drawn(tmp_path: Path, shape: str) -> None:
    run = tables.read(make.run(tmp_path / "run", make.study(tmp_path, SHAPES[shape])))
    points, axes, _ = phase_diagram.table(run)
    assert len(points) == len(run.cells)
    assert len(axes) == {"one range": 1, "no range": 0, "arms alone": 0}.get(shape, 2)
    arms = 2 if shape in ("two arms", "arms alone") else 1
    assert points["panel"].nunique() == arms
    for module in FIGURES:
        made = module.table(run)
        assert all(isinstance(table, pd.DataFrame) for table in made)
        if len(made[0]):
            module.draw(*made).canvas.draw()


def test_only_cells_with_a_memory_are_coloured(tmp_path: Path) -> None:
    study = make.study(tmp_path)
    run = tables.read(make.run(tmp_path / "run", study, make.some_lost))
    points, axes, surface = phase_diagram.table(run)
    panel = phase_diagram.draw(points, axes, surface).axes[0]
    numbers = [text.get_text() for text in panel.texts]
    assert numbers == [f"{memory:.1f}" for memory in points["memory"].dropna()]
    hatches = [mark.get_hatch() for mark in panel.collections if mark.get_hatch()]
    assert {frozenset(hatch) for hatch in hatches} == {
        frozenset("\\"),
        frozenset("."),
        frozenset("/"),
        frozenset("/\\"),
    }
    assert surface.empty, "five cells are too few for a frontier"


def test_drawing_leaves_its_tables_alone(tmp_path: Path) -> None:
    run = tables.read(make.run(tmp_path / "run", make.study(tmp_path), make.some_lost))
    for module in FIGURES:
        made = module.table(run)
        before = [table.copy() for table in made]
        module.draw(*made)
        for table, copy in zip(made, before, strict=True):
            pd.testing.assert_frame_equal(table, copy)


def test_memory_over_one_range_stands_with_its_intervals(tmp_path: Path) -> None:
    run = tables.read(make.run(tmp_path / "run", make.study(tmp_path, SHAPES["one range"])))
    memory, accuracy = phase_diagram.draw(*phase_diagram.table(run)).axes[:2]
    ends = {
        (line.get_segments()[0][0, 1], line.get_segments()[0][1, 1])
        for line in memory.collections
        if isinstance(line, LineCollection)
    }
    assert ends == set(zip(run.cells["low"], run.cells["high"], strict=True))
    assert not any(isinstance(line, LineCollection) for line in accuracy.collections)


def test_marks_of_a_crowded_map_are_small(tmp_path: Path) -> None:
    ranges = make.STUDY.replace("log: true}", "log: true, points: 11}").replace("draws: 6", "")
    run = tables.read(make.run(tmp_path / "run", make.study(tmp_path, ranges)))
    panel = phase_diagram.draw(*phase_diagram.table(run)).axes[0]
    marks = [mark for mark in panel.collections if isinstance(mark, PathCollection)]
    assert len(marks) == 121 and max(mark.get_sizes()[0] for mark in marks) == 36


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.01, 0.06, [0.01, 0.02, 0.03, 0.04, 0.06]),
        (1.1e-3, 0.097, [2e-3, 5e-3, 0.01, 0.02, 0.05]),
        (1.5e-5, 2e-3, [1e-4, 1e-3]),
        (1e-6, 1e2, [1e-5, 1e-3, 0.1, 10]),
    ],
)
def test_a_log_axis_has_few_ticks_and_never_one_alone(
    low: float, high: float, ticks: list[float]
) -> None:
    panel = style.figure(2, 2).subplots()
    style.span(panel.xaxis, low, high, True)
    shown = [tick for tick in panel.get_xticks() if low <= tick <= high]
    assert shown == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.06, "0.06"),
        (1e-4, "1e-4"),
        (0.00123, "1.23e-3"),
        (40000, "40000"),
        (0.25, "0.25"),
        (1.0, "1"),
        (math.nan, "-"),
        (None, "-"),
        ("sgd", "sgd"),
        (True, "true"),
        (3.16227766e-06, "3.16e-6"),
    ],
)
def test_numbers_read_as_a_person_writes_them(value: object, text: str) -> None:
    assert style.number(value) == text


def test_the_frontier_runs_where_memory_crosses_the_threshold(tmp_path: Path) -> None:
    """The made-up memory falls with lr x L2 alone, and is 6 points where that is 8.8e-4."""
    made = make.study(tmp_path, make.STUDY, "search.draws=16", "threshold=6")
    surface = frontier.table(tables.read(make.run(tmp_path / "run", made)))
    assert surface["cells"].iloc[0] == 16 and surface["trainings"].iloc[0] == 128
    decay = surface["x"] * surface["y"]
    assert (surface[decay < 2e-4]["remembers"] > 0.5).all()
    assert (surface[decay > 3e-3]["remembers"] < 0.5).all()
    between = surface["remembers"].between(*frontier.UNSURE)
    assert 0.005 < between.mean() < 0.3
    panel = phase_diagram.draw(*phase_diagram.table(tables.read(tmp_path / "run"))).axes[0]
    kinds = [type(mark).__name__ for mark in panel.collections]
    assert kinds.count("QuadContourSet") >= 2


def test_without_an_error_there_is_no_frontier(tmp_path: Path) -> None:
    made = make.study(tmp_path, make.STUDY, "search.draws=16", "seeds=1")
    assert frontier.table(tables.read(make.run(tmp_path / "run", made))).empty
