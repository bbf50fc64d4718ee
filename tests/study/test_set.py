"""`--set field=value`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.study.helpers import STUDY, changed, faults, study


def test_a_field_of_the_recipe(tmp_path: Path) -> None:
    for text in ("optim.batch=100", " optim.batch = 100", "recipe.optim.batch=100"):
        assert study(tmp_path, STUDY, text).recipe["optim.batch"] == 100
    assert study(tmp_path, STUDY, "optim.batch=").recipe["optim.batch"] is None
    assert study(tmp_path, STUDY, "optim.clip=1e-3").recipe["optim.clip"] == 0.001
    assert study(tmp_path, STUDY, "eval_every=5").recipe["eval_every"] == 5


def test_the_last_of_two_holds(tmp_path: Path) -> None:
    assert study(tmp_path, STUDY, "seeds=3", "seeds=4").seeds == 4


def test_a_section_of_the_recipe_is_replaced(tmp_path: Path) -> None:
    recipe = study(tmp_path, STUDY, "model={name: mlp, depth: 2}").recipe
    assert {k: v for k, v in recipe.items() if k.startswith("model.")} == {
        "model.name": "mlp",
        "model.depth": 2,
    }


def test_fields_of_the_study(tmp_path: Path) -> None:
    loaded = study(
        tmp_path,
        STUDY,
        "name=short",
        "seeds=5",
        "search.draws=3",
        "resources.gpus=0.25",
        "resources.replicas=all",
        "axes.init.scale=[1, 2]",
        "axes.optim.clip=[1, 2]",
        "ranges.optim.lr.low=1e-3",
        "ranges.optim.l2={low: 0, high: 1}",
        "ranges.init.stem={low: 1, high: 2}",
    )
    assert (loaded.name, loaded.seeds, loaded.search.draws) == ("short", 5, 3)
    assert loaded.search.sampler == "qmc"
    assert (loaded.resources.gpus, loaded.resources.replicas) == (0.25, "all")
    assert loaded.axes == {"init.scale": [1, 2], "optim.clip": [1, 2]}
    assert (loaded.ranges["optim.lr"].low, loaded.ranges["optim.lr"].high) == (0.001, 0.06)
    assert not loaded.ranges["optim.l2"].log
    assert loaded.ranges["init.stem"].high == 2


def test_groups_that_the_file_does_not_have_are_added(tmp_path: Path) -> None:
    ranges = STUDY[STUDY.index("ranges:") : STUDY.index("seeds:")]
    text = changed((ranges, ""))
    assert (
        study(tmp_path, text, "ranges.optim.lr={low: 1e-3, high: 1}").ranges["optim.lr"].high == 1
    )
    hint = "ranges.optim.lr.high: required"
    assert faults(tmp_path, text, "ranges.optim.lr.low=1e-3") == [f"--set: {hint}"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x", "x: must be field=value, got 'x'"),
        ("=3", "field: must be field=value, got '=3'"),
        ("optim.lr=1", "optim.lr: varies in the study; set ranges.optim.lr instead"),
        ("recipe.init.scale=1", "recipe.init.scale: varies in the study; set axes.init.scale"),
        ("seed=1", "seed: unknown field, allowed: name, question, recipe,"),
        ("optim.bach=1", "optim.bach: unknown field, allowed in optim: lr, l2,"),
        ("search.draw=1", "search.draw: unknown key, allowed: sampler, draws,"),
        ("axes.scale=[1, 2]", "scale: unknown field, allowed: data, model,"),
        ("axes.init.scale=1", "axes.init.scale: must be a list, got 1"),
        ("axes={init.scale: [1, x]}", "init.scale: must be a valid number, got 'x'"),
        ("axes.optim.batch=[1, 2]", "optim.batch: already given under recipe (s.yaml:6)"),
        ("ranges.optim.lr.low=1", "ranges.optim.lr.low: must be less than high, got 1 >= 0.06"),
        ("ranges=3", "ranges: must be a mapping, got 3"),
        ("name.first=3", "name.first: name is not a mapping in the study file"),
        ("optim.batch=0", "optim.batch: must be greater than or equal to 1, got 0"),
        ("optim.batch=[", "optim.batch: while parsing a flow node, expected"),
        ("optim.batch=*a", "optim.batch: anchors and aliases are not allowed"),
        ("optim.batch=\udcff", "optim.batch: is not UTF-8 text"),
        ("a\nb=1", "a\\nb: unknown field,"),
        ("model.name=mlp", "s.yaml:4: model.norm: does not apply to mlp, which has: name,"),
    ],
)
def test_wrong(tmp_path: Path, text: str, found: str) -> None:
    first = faults(tmp_path, STUDY, text)[0]
    assert first.startswith(found if found.startswith("s.yaml") else f"--set: {found}")


def test_faults_of_the_file_and_of_overrides_are_said_together(tmp_path: Path) -> None:
    found = faults(tmp_path, changed(("width: 8", "width: 0")), "seeds=0", "optim.epochs=0")
    assert [line.rpartition(" must")[0] for line in found] == [
        "--set: seeds:",
        "--set: optim.epochs:",
        "s.yaml:4: model.width:",
    ]
