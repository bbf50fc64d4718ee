"""What a study trains: arms, draws, cells, blocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from initmem.study import plan
from initmem.study.spec import Range
from tests.study.helpers import STUDY, changed, study

AXIS = "3]\n"
POINT = {"optim.lr": 0.02, "optim.l2": 0.001}
RANGES = STUDY[STUDY.index("ranges:") : STUDY.index("seeds:")]


def test_a_cell_is_every_scale_and_seed_of_a_point(tmp_path: Path) -> None:
    loaded = study(tmp_path, STUDY)
    [arm] = plan.arms(loaded)
    assert (arm.index, arm.values, plan.draws(loaded)) == (0, {}, 16)
    cell = plan.cell(loaded, arm, 3, POINT)
    assert [(r.recipe.init.scale, r.seed) for r in cell.replicas] == [
        (scale, seed) for scale in (0.25, 1, 2, 3) for seed in (0, 1)
    ]
    assert {(r.recipe.optim.lr, r.recipe.optim.l2) for r in cell.replicas} == {(0.02, 0.001)}
    assert {(r.arm, r.cell, r.draw) for r in cell.replicas} == {(arm.id, cell.id, 3)}
    assert len({r.id for r in cell.replicas}) == 8


def test_arms_are_the_axes_but_the_memory_axis_the_last_one_fastest(tmp_path: Path) -> None:
    axes = "3]\n  model.norm: [batch, none]\n  optim.batch: [50, 100, 250]\n"
    text = changed((", norm: batch", ""), ("batch: 50, ", ""), (AXIS, axes))
    arms = plan.arms(study(tmp_path, text))
    assert [tuple(arm.values.values()) for arm in arms] == [
        (norm, batch) for norm in ("batch", "none") for batch in (50, 100, 250)
    ]
    assert [arm.index for arm in arms] == list(range(6))
    assert len({arm.id for arm in arms}) == 6


def test_an_axis_that_a_variant_lacks_leaves_it_one_arm(tmp_path: Path) -> None:
    axes = "3]\n  optim.name: [sgd, momentum]\n  optim.momentum: [0.5, 0.9]\n"
    loaded = study(tmp_path, changed(("name: sgd, ", ""), (AXIS, axes)))
    arms = plan.arms(loaded)
    assert [arm.values["optim.name"] for arm in arms] == ["sgd", "momentum", "momentum"]
    names = [plan.cell(loaded, arm, 0, POINT).replicas[0].recipe.optim.name for arm in arms]
    assert names == ["sgd", "momentum", "momentum"]


def test_another_field_can_be_the_memory_axis(tmp_path: Path) -> None:
    text = changed((AXIS, "3]\n  init.stem: [1, 2]\n"), ("seeds", "memory_axis: init.stem\nseeds"))
    loaded = study(tmp_path, text)
    arms = plan.arms(loaded)
    assert [arm.values for arm in arms] == [{"init.scale": s} for s in (0.25, 1, 2, 3)]
    cell = plan.cell(loaded, arms[2], 0, POINT)
    assert [(r.recipe.init.scale, r.recipe.init.stem) for r in cell.replicas] == [
        (2, stem) for stem in (1, 1, 2, 2)
    ]


@pytest.mark.parametrize(
    ("size", "cuts"), [("all", [8]), (1, [1] * 8), (3, [3, 3, 2]), (4, [4, 4]), (9, [8])]
)
def test_blocks_are_a_cell_in_slices(tmp_path: Path, size: str | int, cuts: list[int]) -> None:
    loaded = study(tmp_path, STUDY, f"resources.replicas={size}")
    cell = plan.cell(loaded, plan.arms(loaded)[0], 0, POINT)
    blocks = plan.blocks(loaded, cell)
    assert [len(block.replicas) for block in blocks] == cuts
    assert sum((block.replicas for block in blocks), ()) == cell.replicas
    assert [block.name for block in blocks] == [f"{cell.id}-{i}" for i in range(len(cuts))]


def test_ranges_with_points_are_a_grid(tmp_path: Path) -> None:
    ranges = "ranges:\n  optim.lr: {low: 1e-3, high: 1e-1, log: true, points: 3}\n"
    ranges += "  optim.l2: {low: 0, high: 0.3, points: 4}\n"
    loaded = study(tmp_path, changed((RANGES, ranges), (", draws: 16", "")))
    points = plan.grid(loaded.ranges)
    assert points is not None
    assert plan.draws(loaded) == len(points) == 12
    assert [p["optim.l2"] for p in points[:4]] == pytest.approx([0, 0.1, 0.2, 0.3])
    assert [p["optim.lr"] for p in points[::4]] == pytest.approx([1e-3, 1e-2, 1e-1])


@pytest.mark.parametrize("log", [True, False])
def test_the_ends_of_a_grid_are_exact(log: bool) -> None:
    for low, high in [(1e-3, 0.3), (0.1, 0.7), (1e-300, 1e300), (3e-4, 3e-2)]:
        points = plan.grid({"x": Range(low=low, high=high, log=log, points=7)})
        assert points is not None
        values = [point["x"] for point in points]
        assert (values[0], values[-1]) == (low, high)
        assert values == sorted(set(values))


def test_without_ranges_an_arm_is_one_cell(tmp_path: Path) -> None:
    text = changed((RANGES, ""), (", draws: 16", ""), ("batch: 50", "batch: 50, lr: 0.1"))
    loaded = study(tmp_path, text)
    assert plan.grid(loaded.ranges) == [{}]
    assert plan.draws(loaded) == 1
    assert plan.grid(study(tmp_path, STUDY).ranges) is None


def test_an_arm_is_named_as_in_a_study_file(tmp_path: Path) -> None:
    more = "3]\n  optim.batch: [128, null]\n  data.flip: [true]\n"
    named = [
        arm.named for arm in plan.arms(study(tmp_path, changed(("batch: 50, ", ""), (AXIS, more))))
    ]
    assert named == [
        ["optim.batch 128", "data.flip true"],
        ["optim.batch null", "data.flip true"],
    ]
