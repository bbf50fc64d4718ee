"""What a study can measure, and what a frontier can be of."""

from __future__ import annotations

from pathlib import Path

import pytest

from initmem.study.compare import conflicts
from tests.study.helpers import STUDY, changed, faults, study

RECIPE = STUDY[STUDY.index("  data:") : STUDY.index("  eval")]
TOKENS = """\
  data: {name: %s}
  model: {name: token_mlp}
  init: {rule: gamma}
  optim: {name: sgd, batch: 50, epochs: 10}
"""
FRONTIER = ("sampler: qmc", "sampler: frontier, objective: accuracy, level: 50")


def tokens(name: str, *changes: tuple[str, str]) -> str:
    axis = ("init.scale: [0.25, 1, 2, 3]", "init.gamma: [0.3, 0.5]")
    memory = ("seeds: 2", "seeds: 2\nmemory_axis: init.gamma")
    return changed((RECIPE, TOKENS % name), axis, memory, *changes)


@pytest.mark.parametrize("name", ["anchors", "permutations"])
def test_accuracy_out_of_distribution_where_there_is_such_a_set(tmp_path: Path, name: str) -> None:
    assert study(tmp_path, tokens(name), "measure=ood_accuracy").measure == "ood_accuracy"


def test_accuracy_out_of_distribution_where_there_is_none(tmp_path: Path) -> None:
    for text in (tokens("modular"), STUDY):
        (found,) = faults(tmp_path, text + "measure: ood_accuracy\n")
        line = text.count("\n") + 1
        assert found.startswith(f"s.yaml:{line}: measure: data.name ")
        assert " has no set out of distribution (at " in found
    addition = tokens("addition", ("token_mlp", "transformer"))
    assert "but with data.square" in faults(tmp_path, addition, "measure=ood_accuracy")[0]
    square = study(tmp_path, addition, "measure=ood_accuracy", "data.square=true")
    assert square.recipe["data.square"]


def test_training_must_not_end_before_it_generalizes(tmp_path: Path) -> None:
    text = tokens("modular") + "measure: steps_to_validation\n"
    assert study(tmp_path, text, "optim.stop_validation=0.95").measure == "steps_to_validation"
    (found,) = faults(tmp_path, text, "optim.stop_validation=0.9")
    says = "optim.stop_validation 0.9 ends training before steps_to.validation 0.95"
    assert f": measure: {says}" in found


def test_an_unknown_measure(tmp_path: Path) -> None:
    (found,) = faults(tmp_path, STUDY, "measure=test_acuracy")
    assert found.startswith("--set: measure: must be one of test_accuracy, ood_accuracy, steps")
    assert found.endswith("did you mean 'test_accuracy'?")


def test_the_level_of_a_mean(tmp_path: Path) -> None:
    assert study(tmp_path, changed(FRONTIER)).level == 50
    assert study(tmp_path, STUDY, "threshold=3").level == 3
    early = study(tmp_path, changed(FRONTIER), "search.stop_when=band < 0.2")
    assert early.search.band == 0.2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("search.level=", "search.level: required: what the mean crosses"),
        ("search.objective=memory", "search.level: is for sampler frontier with objective acc"),
        ("search.sampler=qmc", "search.level: is for sampler frontier with objective accuracy"),
        ("search.level=100", "search.level: is in percent, 0 < level < 100, got 100"),
        ("seeds=1", "seeds: sampler frontier needs 2 or more"),
    ],
)
def test_a_level_that_means_nothing(tmp_path: Path, change: str, says: str) -> None:
    assert any(says in found for found in faults(tmp_path, changed(FRONTIER), change))


def test_a_level_of_steps_is_their_logarithm(tmp_path: Path) -> None:
    for level in ("0", "1000"):
        set_ = ("measure=steps_to_validation", f"search.level={level}")
        (found,) = faults(tmp_path, changed(FRONTIER), *set_)
        assert f"is in log2 of steps, 0 < level < 64, got {level}" in found


def test_another_measure_contradicts_the_draws_of_a_search_that_learns(tmp_path: Path) -> None:
    for sampler, contradicts in (("qmc", False), ("random", False), ("tpe", True)):
        old = study(tmp_path, STUDY, f"search.sampler={sampler}")
        new = study(tmp_path, STUDY, f"search.sampler={sampler}", "measure=steps_to_validation")
        said = ["measure: test_accuracy -> steps_to_validation"] if contradicts else []
        assert conflicts(old, new) == said
    levels = [study(tmp_path, changed(FRONTIER), f"search.level={level}") for level in (50, 60)]
    assert conflicts(*levels) == ["search.level: 50.0 -> 60.0"]
