"""Faults of a study file: each said with its line, its field and the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.study.helpers import STUDY, changed, faults, study

RANGES = STUDY[STUDY.index("ranges:") : STUDY.index("seeds:")]
AXIS = "3]\n"
"""The end of the last axis; more axes follow it from line 10."""


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("seeds: 2", "seeds: 2\nseeds: 3", "s.yaml:14: seeds: given twice (first on line 13)"),
        (
            "batch: 50",
            "batch: 50,\n    batch: 60",
            "s.yaml:7: recipe.optim.batch: given twice (first on line 6)",
        ),
        (
            "eval_every: 50",
            "optim.batch: 60",
            "s.yaml:7: optim.batch: given twice (first on line 6)",
        ),
        (
            "recipe:\n",
            "recipe:\n  optim.batch: 60\n",
            "s.yaml:7: optim.batch: given twice (first on line 3)",
        ),
        (
            AXIS,
            "3]\n  init.scale: [1, 2]\n",
            "s.yaml:10: axes.init.scale: given twice (first on line 9)",
        ),
        (
            AXIS,
            "3]\n  optim.batch: [50, 100]\n",
            "s.yaml:10: optim.batch: already given under recipe (s.yaml:6)",
        ),
        (
            AXIS,
            "3]\n  optim.lr: [0.1, 1]\n",
            "s.yaml:12: optim.lr: already given under axes (s.yaml:10)",
        ),
        ("2, 3]", "2, 1.0]", "s.yaml:9: init.scale: lists 1.0 twice"),
    ],
)
def test_given_twice(tmp_path: Path, old: str, new: str, found: str) -> None:
    assert faults(tmp_path, changed((old, new))) == [found]


@pytest.mark.parametrize(
    ("old", "new", "start", "hint"),
    [
        ("seeds:", "seed:", "s.yaml:13: seed: unknown key, allowed: name, question,", "seeds"),
        ("draws: 16", "draws: 16, lags: 2", "s.yaml:14: search.lags: unknown key,", "lag"),
        ("low: 1e-2", "low: 1e-2, logs: true", "s.yaml:11: ranges.optim.lr.logs: unknown", "log"),
        (
            "width: 8",
            "widths: 8",
            "s.yaml:4: model.widths: unknown field, allowed in model: name, width,",
            "model.width",
        ),
        (AXIS, "3]\n  scale: [1, 2]\n", "s.yaml:10: scale: unknown field,", "init.scale"),
        (AXIS, "3]\n  lr: [1, 2]\n", "s.yaml:10: lr: unknown field, allowed: data,", "optim.lr"),
        ("norm: batch", "norm: bach", "s.yaml:4: model.norm: must be one of none,", "batch"),
        (
            "name: sgd",
            "name: sdg",
            "s.yaml:6: optim.name: unknown name 'sdg', allowed: sgd, momentum, adam, adamw,",
            "sgd",
        ),
    ],
)
def test_misspelt(tmp_path: Path, old: str, new: str, start: str, hint: str) -> None:
    [found] = faults(tmp_path, changed((old, new)))
    assert found.startswith(start)
    assert found.endswith(f"; did you mean '{hint}'?")


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("low: 1e-2", "low: 7e-2", "11: ranges.optim.lr.low: must be less than high, got 0.07"),
        ("low: 1e-4", "low: 1e-1", "12: ranges.optim.l2.low: must be less than high, got 0.1"),
        ("low: 1e-4", "low: 0", "12: ranges.optim.l2.low: must be greater than 0 on a log range"),
        ("low: 1e-4", "low: few", "12: ranges.optim.l2.low: must be a valid number, got 'few'"),
        ("low: 1e-4", "low: .nan", "12: ranges.optim.l2.low: must be a finite number, got nan"),
        ("low: 1e-4, ", "", "12: ranges.optim.l2.low: required"),
        ("{low: 1e-4, high: 1e-1, log: true}", "0.1", "12: ranges.optim.l2: must be"),
        (
            "{low: 1e-4, high: 1e-1, log: true}",
            "{low: 0, high: 1, points: 5}",
            "10: ranges: give `points` to every range or to none",
        ),
        ("optim.l2: {", "model.depth: {", "12: model.depth: is searched as a real number"),
        (", draws: 16", "", "14: search.draws: required with ranges"),
        ("[0.25, 1, 2, 3]", "[]", "9: axes.init.scale: must list at least one value"),
        ("[0.25, 1, 2, 3]", "[1]", "9: memory_axis: memory is measured over it: list at least"),
        ("seeds: 2", "memory_axis: init.stem", "13: memory_axis: memory is measured over it"),
        ("name: sgd, ", "", "6: optim.name: required, one of: sgd, momentum, adam"),
        ("epochs: 100", "warmup: 5", "6: optim.epochs: give either optim.epochs or optim.steps"),
        ("batch: 50", "batch: 501", "6: optim.batch: at most the 500 training examples"),
        ("train: 500", "train: 1500", "3: data.train: train + validation may be at most 1796"),
    ],
)
def test_one_fault(tmp_path: Path, old: str, new: str, found: str) -> None:
    lines = faults(tmp_path, changed((old, new)))
    assert lines[0].startswith(f"s.yaml:{found}")
    assert {line.split(":")[1] for line in lines} == {found.split(":")[0]}


def test_a_vit_says_what_it_does_not_take(tmp_path: Path) -> None:
    text = changed(("name: resnet9, width: 8, norm: batch", "name: vit, width: 8, patch: 2"))
    assert faults(tmp_path, text, "model.patch=3") == [
        "--set: model.patch: must divide the 8x8 pixels of digits, got 3"
    ]
    assert faults(tmp_path, text, "data={name: cifar10}", "model.patch=7")[0].startswith(
        "--set: model.patch: must divide the 32x32 pixels of cifar10, got 7"
    )
    [found] = faults(tmp_path, text, "model.width=9")
    assert found.endswith("model.heads: must divide model.width 9")
    [found] = faults(tmp_path, text, "probes.sink=true")
    assert found == "--set: probes.sink: reads causal attention, vit has none"
    [found] = faults(tmp_path, text, "resources.engine=batched")
    assert "batched trains no vit; write loop, or auto, which takes loop" in found
    study(tmp_path, text, "init.qk=2", "init.kappa=3", "resources.engine=auto")


def test_what_ends_a_search_early(tmp_path: Path) -> None:
    for said, band in (("band < 0.1", 0.1), ("band<.25", 0.25), ("band < 5e-2", 0.05)):
        text = changed(("sampler: qmc", f"sampler: frontier, stop_when: {said}"))
        assert study(tmp_path, text).search.band == band
    assert study(tmp_path, STUDY).search.band is None


@pytest.mark.parametrize("said", ["band < 0", "band < 1", "band > 0.1", "memory < 1", "band < nan",
                                  "band < -0.1", "band < 10%", "band < 0.1 0.2", ""])  # fmt: skip
def test_what_ends_no_search(tmp_path: Path, said: str) -> None:
    text = changed(("sampler: qmc", f"sampler: frontier, stop_when: '{said}'"))
    hint = f"search.stop_when: must be `band < NUMBER`, 0 < NUMBER < 1, got '{said}'"
    assert faults(tmp_path, text) == [f"s.yaml:14: {hint}"]


def test_who_has_no_band(tmp_path: Path) -> None:
    text = changed(("sampler: qmc", "stop_when: band < 0.1"))
    hint = "search.stop_when: sampler qmc has no band, frontier has"
    assert faults(tmp_path, text) == [f"s.yaml:14: {hint}"]
    assert faults(tmp_path, STUDY, "search.stop_when=0.1", "search.sampler=frontier") == [
        "--set: search.stop_when: must be a valid string, got 0.1"
    ]
    listed = changed(
        (RANGES, "ranges:\n  optim.lr: {low: 0.1, high: 1, points: 3}\n"),
        ("sampler: qmc, draws: 16", "sampler: frontier, stop_when: band < 0.1"),
    )
    hint = "search.stop_when: there is nothing to search, remove it"
    assert faults(tmp_path, listed) == [f"s.yaml:13: {hint}"]


def test_draws_without_ranges_are_refused(tmp_path: Path) -> None:
    text = changed((RANGES, ""), ("batch: 50", "batch: 50, lr: 0.1"))
    assert faults(tmp_path, text) == [
        "s.yaml:11: search.draws: there is nothing to draw, remove it"
    ]


def test_a_study_needs_a_memory_axis(tmp_path: Path) -> None:
    text = changed(("init.scale: [0.25, 1, 2, 3]", "init.stem: [1, 2]"))
    hint = "memory is measured over it: list at least two values of init.scale under axes"
    assert faults(tmp_path, text) == [f"s.yaml:1: memory_axis: {hint}"]


def test_a_field_must_apply_to_the_variant(tmp_path: Path) -> None:
    [found] = faults(tmp_path, changed(("batch: 50", "batch: 50, momentum: 0.9")))
    assert found.startswith("s.yaml:6: optim.momentum: does not apply to sgd, which has: lr, l2,")


def test_a_field_is_dropped_where_another_variant_of_the_axis_has_it(tmp_path: Path) -> None:
    text = changed(
        ("name: sgd, batch: 50", "momentum: 0.5"), (AXIS, "3]\n  optim.name: [sgd, momentum]\n")
    )
    assert study(tmp_path, text).recipe["optim.momentum"] == 0.5


def test_a_field_of_no_variant_of_the_axis_is_refused(tmp_path: Path) -> None:
    text = changed(
        ("name: sgd, batch: 50", "momentum: 0.5"), (AXIS, "3]\n  optim.name: [sgd, adam]\n")
    )
    found = faults(tmp_path, text)
    assert [line.partition(", which")[0] for line in found] == [
        "s.yaml:6: optim.momentum: does not apply to sgd",
        "s.yaml:6: optim.momentum: does not apply to adam",
    ]


def test_the_memory_axis_must_apply_in_every_arm(tmp_path: Path) -> None:
    axes = "3]\n  optim.name: [momentum, sgd]\n  optim.momentum: [0, 0.5]\n"
    text = changed(
        ("name: sgd, ", ""), (AXIS, axes), ("seeds", "memory_axis: optim.momentum\nseeds")
    )
    [found] = faults(tmp_path, text)
    hint = "optim.momentum does not apply in every arm (at init.scale 0.25, optim.name 'sgd',"
    assert found.startswith(f"s.yaml:11: memory_axis: {hint}")


def test_an_axis_value_that_breaks_a_rule_between_fields(tmp_path: Path) -> None:
    text = changed(
        ("name: digits, train: 500, validation: 300", "split: 1"),
        (AXIS, "3]\n  data.name: [digits, modular]\n"),
    )
    hint = "resnet9 takes image input, data.name modular gives tokens"
    assert faults(tmp_path, text) == [f"s.yaml:4: model.name: {hint}"]


def test_a_combination_that_breaks_a_rule_is_shown(tmp_path: Path) -> None:
    text = changed(
        ("train: 500, ", ""),
        ("batch: 50, ", ""),
        (AXIS, "3]\n  data.train: [500, 100]\n  optim.batch: [100, 500]\n"),
    )
    [found] = faults(tmp_path, text)
    at = "(at init.scale 0.25, data.train 100, optim.batch 500, optim.lr 0.01, optim.l2 0.0001)"
    hint = f"at most the 100 training examples, or null for all {at}"
    assert found == f"s.yaml:11: optim.batch: {hint}"


def test_all_faults_are_said_at_once_in_the_order_of_the_lines(tmp_path: Path) -> None:
    text = changed(
        ("train: 500", "train: 0"),
        ("width: 8", "widht: 8"),
        ("name: sgd", "name: sdg"),
        ("1, 2, 3]", "1, 2, -3]"),
        ("high: 6e-2", "high: 6e-3"),
        ("seeds: 2", "seeds: 2.5"),
        ("qmc", "sobol"),
    )
    found = [":".join(line.split(":")[1:3]) for line in faults(tmp_path, text)]
    assert found == [
        "3: data.train",
        "4: model.widht",
        "6: optim.name",
        "9: init.scale",
        "11: ranges.optim.lr.low",
        "13: seeds",
        "14: search.sampler",
    ]


def test_a_study_that_asks_for_too_much_is_refused(tmp_path: Path) -> None:
    found = faults(tmp_path, changed(("seeds: 2", "seeds: 200000")))
    hint = "asks for 12800000 networks, at most 1000000 are allowed"
    assert found == [f"s.yaml:1: study: {hint}"]
    many = ", ".join(str(1 + i) for i in range(5001))
    found = faults(tmp_path, changed((AXIS, f"3]\n  data.split: [{many}]\n")))
    assert found == ["s.yaml:8: axes: 20004 combinations, at most 20000 are allowed"]


def test_null_has_no_place_on_the_memory_axis(tmp_path: Path) -> None:
    text = changed((AXIS, "3]\n  optim.batch: [null, 50]\n"), ("batch: 50, ", ""))
    said = faults(tmp_path, text + "memory_axis: optim.batch\n")
    assert said == [
        "s.yaml:10: optim.batch: null has no place on the memory axis: "
        "write the value it stands for"
    ]
