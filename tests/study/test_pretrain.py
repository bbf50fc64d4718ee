"""A stage before a recipe's own training: what it learns, and what is wrong with one, said of its
own fields."""

from __future__ import annotations

from pathlib import Path

import pytest
from sklearn.datasets import load_digits

from initmem.forecast import outline
from initmem.study import plan
from initmem.study.data_section import Digits, classes_in
from initmem.study.recipe import variants
from initmem.study.spec import Study
from tests.study.helpers import STUDY, changed, faults, study

BEFORE = """\
  pretrain: {name: stage, classes: rest, train: 800, steps: 500}
"""
STAGED = changed(
    ("train: 500, validation: 300", "train: 50, validation: 100, classes: 8-9"),
    ("  eval_every: 50\n", "  eval_every: 50\n" + BEFORE),
)
MODULAR = """\
recipe:
  data: {name: modular, p: 7}
  model: {name: transformer, width: 8}
  init: {rule: kaiming}
  optim: {name: sgd, lr: 0.1, batch: 9, steps: 30}
  pretrain: {name: stage, operation: subtract, train_fraction: 0.8}
axes:
  init.scale: [1, 2]
"""


def _replicas(of: Study) -> list[plan.Replica]:
    low = {field: r.low for field, r in of.ranges.items()}
    return [r for arm in plan.arms(of) for r in plan.cell(of, arm, 0, low).replicas]


def test_the_first_recipe_is_the_own_one_with_what_the_stage_says(tmp_path: Path) -> None:
    own = _replicas(study(tmp_path, STAGED, "pretrain.l2=0.5", "probes.rank=true"))[0].recipe
    first, second = own.stages
    assert second is own and first.pretraining is None and first.stages == (first,)
    assert (first.data.classes, first.data.train) == ("0,1,2,3,4,5,6,7", 800)
    assert (first.data.validation, first.data.split) == (100, 0)
    assert (first.total_steps, own.total_steps) == (500, 100)
    assert (first.optim.l2, first.optim.lr) == (0.5, own.optim.lr)
    assert (first.init, first.model, first.eval_every) == (own.init, own.model, 50)
    assert first.probes.on == []


def test_labels_of_both_trainings_are_wrong_alike(tmp_path: Path) -> None:
    of = _replicas(study(tmp_path, STAGED, "data.label_noise=0.2"))[0].recipe
    assert [stage.data.label_noise for stage in of.stages] == [0.2, 0.2]
    found = faults(tmp_path, STAGED, "pretrain.label_noise=0.1")
    assert found[0].startswith("--set: pretrain.label_noise: unknown field, allowed in pretrain")


def test_no_stage_is_no_other_network(tmp_path: Path) -> None:
    none = changed(("  eval_every: 50\n", "  eval_every: 50\n  pretrain: {name: none}\n"))
    plain = [r.id for r in _replicas(study(tmp_path, STUDY))]
    assert [r.id for r in _replicas(study(tmp_path, none, "init.kappa=1"))] == plain
    assert not set(plain) & {r.id for r in _replicas(study(tmp_path, STAGED))}


def test_a_stage_is_one_of_two_arms_and_its_fields_hold_for_it_alone(tmp_path: Path) -> None:
    text = STAGED.replace("name: stage, ", "").replace(
        "3]\n", "3]\n  pretrain.name: [none, stage]\n"
    )
    recipes = [replica.recipe for replica in _replicas(study(tmp_path, text))]
    assert [len(recipe.stages) for recipe in recipes] == [1] * 8 + [2] * 8


def test_the_readouts_scale_can_be_the_memory_axis(tmp_path: Path) -> None:
    text = STAGED.replace("init.scale: [0.25, 1, 2, 3]", "pretrain.head: [0, 0.5]")
    recipes = [r.recipe for r in _replicas(study(tmp_path, text, "memory_axis=pretrain.head"))]
    assert [recipe.pretrain.head for recipe in recipes] == [0, 0, 0.5, 0.5]
    assert len({recipe.pretraining for recipe in recipes}) == 1


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("pretrain.classes=0-8", "pretrain.classes: must be those of data.classes, or none of"),
        ("pretrain.classes=0-12", "pretrain.classes: in the first stage: digits has the classes"),
        ("pretrain.classes=4-0", "pretrain.classes: must name two classes or more in ascending"),
        ("pretrain.classes='3'", "pretrain.classes: must name two classes or more"),
        ("data.classes=rest", "data.classes: rest is for pretrain.classes"),
        ("data.classes=0-8", "pretrain.classes: rest: data.classes leaves fewer than two"),
        ("data.classes=8-10", "data.classes: digits has the classes 0-9, got 8-10"),
        ("data.train=300", "data.train: train + validation may be at most 353 for classes 8-9"),
        (
            "pretrain.train=1400",
            "pretrain.train: in the first stage: train + validation may be at",
        ),
        ("pretrain.classes=null", "pretrain.train: in the first stage: train + validation may"),
        ("pretrain={name: stage, train: 60}", "pretrain.train: at most data.train 50, where the"),
        ("pretrain.operation=add", "pretrain.operation: does not apply to data.name digits, wher"),
        ("pretrain.batch=900", "pretrain.batch: in the first stage: at most the 800 training ex"),
        ("pretrain.epochs=2", "pretrain.epochs: in the first stage: give either optim.epochs or"),
        (
            "pretrain.steps=4",
            "optim.warmup: in the first stage: must be less than the budget of 4",
        ),
        ("pretrain.head=-1", "pretrain.head: must be greater than or equal to 0, got -1"),
        ("pretrain.name=twice", "pretrain.name: unknown name 'twice', allowed: none, stage"),
        ("pretrain={name: none, head: 1}", "pretrain.head: does not apply to none"),
        ("init.kappa=0", "init.kappa: must be greater than 0, got 0"),
    ],
)
def test_faults_of_images(tmp_path: Path, change: str, found: str) -> None:
    line, *more = faults(tmp_path, STAGED, "optim.warmup=5", change)
    assert found in line and not more


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        (["pretrain.operation=add"], "pretrain.train_fraction: at most data.train_fraction 0.5"),
        (["pretrain.operation=mixed", "data.operation=divide"], "pretrain.operation: mixed and"),
        (["pretrain.operation=mixed", "data.operation=subtract"], "pretrain.train_fraction: at"),
        (["pretrain.classes=rest"], "pretrain.classes: does not apply to data.name modular"),
        (["data.equals=false", "model.tied=true"], "pretrain.name: draws the readout anew, trans"),
        (["pretrain={name: none}", "data.equals=false", "model.tied=true", "init.kappa=2"],
         "init.kappa: divides the readout, transformer with model.tied true has no readout"),
    ],
)  # fmt: skip
def test_faults_of_tokens(tmp_path: Path, changes: list[str], found: str) -> None:
    line, *more = faults(tmp_path, MODULAR, *changes)
    assert found in line and not more


def test_data_sets_without_parts_refuse_them(tmp_path: Path) -> None:
    data = "data={name: anchors}"
    [line] = faults(tmp_path, MODULAR, data, "pretrain={name: stage, train: 9}")
    assert "pretrain.train: does not apply to data.name anchors" in line
    study(tmp_path, MODULAR, data, "pretrain={name: stage}")


def test_classes_are_ranges_and_numbers_in_order() -> None:
    assert classes_in("0-2,7") == (0, 1, 2, 7) and classes_in("12-13") == (12, 13)
    assert [classes_in(text) for text in ("", "a", "2-1", "1,1", "0-2,1", "1-", "-1")] == [()] * 7


def test_images_of_a_class_are_counted() -> None:
    labels = load_digits(return_X_y=True)[1].tolist()
    digits = Digits(name="digits", classes="0-2,7", train=100, validation=50)
    assert digits.per_class() == tuple(labels.count(k) for k in range(10))
    assert digits.sizes() == (100, 50, sum(labels.count(k) for k in (0, 1, 2, 7)) - 150)
    sizes = {"fashion_mnist": 70_000, "cifar10": 60_000, "cifar100": 60_000, "svhn": 99_289}
    for name, total in sizes.items():
        data = variants("data")[name].model_validate({"name": name})
        assert sum(data.per_class()) + sum(data.tested_per_class()) == total  # type: ignore[attr-defined]  # images
        assert len(data.per_class()) == (100 if name == "cifar100" else 10)  # type: ignore[attr-defined]  # images
    part = variants("data")["svhn"].model_validate(
        {"name": "svhn", "classes": "0-1", "train": 9000, "validation": 9000}
    )
    assert part.sizes() == (9000, 9000, 1744 + 5099)  # type: ignore[attr-defined]  # images


def test_steps_of_both_trainings_are_planned(tmp_path: Path) -> None:
    said = outline(study(tmp_path, STAGED))
    both = "two trainings of all networks: up to 500 steps (pretrain), then, with the readout"
    assert both in said and "up to 100 steps" in said
    assert f"{16 * 8 * (500 + 100):,} steps in all" in said
    assert "two trainings" not in outline(study(tmp_path, STUDY))
