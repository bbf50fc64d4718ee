"""Ids name what was trained, and stay when a study grows: finished work is found again."""

from __future__ import annotations

from pathlib import Path

from initmem.study import plan
from initmem.study.spec import Study
from tests.study.helpers import STUDY, changed, study

POINT = {"optim.lr": 0.02, "optim.l2": 0.001}


def _ids(loaded: Study) -> set[str]:
    cells = [plan.cell(loaded, arm, 0, POINT) for arm in plan.arms(loaded)]
    return {replica.id for cell in cells for replica in cell.replicas}


def test_ids_are_the_ones_of_the_first_release(tmp_path: Path) -> None:
    loaded = study(tmp_path, STUDY)
    [arm] = plan.arms(loaded)
    cell = plan.cell(loaded, arm, 0, POINT)
    assert (arm.id, cell.id) == ("69e9c0b069b9", "32109e453c64")
    assert [replica.id for replica in cell.replicas] == [
        "fb475737a144",
        "19c0593748cf",
        "f431050cf242",
        "fffab5f29e0c",
        "0606a60e5976",
        "f346052e2b8b",
        "38391d09f763",
        "6395e084fe5d",
    ]


def test_an_arm_has_the_same_ids_alone_and_inside_a_larger_study(tmp_path: Path) -> None:
    alone = study(tmp_path, changed(("name: sgd", "name: adam")))
    axes = "3]\n  optim.name: [momentum, adam]\n  optim.momentum: [0.5, 0.9]\n"
    inside = study(tmp_path, changed(("name: sgd, ", ""), ("3]\n", axes)))
    [one] = plan.arms(alone)
    [same] = [arm for arm in plan.arms(inside) if arm.values["optim.name"] == "adam"]
    assert one.id == same.id
    cells = plan.cell(alone, one, 0, POINT), plan.cell(inside, same, 0, POINT)
    assert cells[0].id == cells[1].id
    assert [r.id for r in cells[0].replicas] == [r.id for r in cells[1].replicas]


def test_a_field_at_its_default_changes_no_id(tmp_path: Path) -> None:
    defaults = changed(
        ("norm: batch", "downsample: stride"),
        ("train: 500, validation: 300", "split: 0, crop: 0, flip: false, label_noise: 0"),
        ("rule: kaiming", "rule: kaiming, stem: 1, body: 1.0"),
        ("eval_every: 50", "eval_every: 50\n  precision: float32"),
        ("batch: 50", "batch: 50, schedule: constant, weight_decay: 0"),
    )
    loaded, plain = study(tmp_path, defaults), study(tmp_path, STUDY)
    assert plan.arms(loaded)[0].id == plan.arms(plain)[0].id
    assert _ids(loaded) == _ids(plain)


def test_how_a_study_is_written_changes_no_id(tmp_path: Path) -> None:
    dotted = changed(
        ("  model: {name: resnet9, width: 8, norm: batch}\n", ""),
        ("  eval_every: 50\n", "  eval_every: 50\n  model.width: 8\n  model.name: resnet9\n"),
        ("[0.25, 1, 2, 3]", "[3, 2.0, 1e0, .25]"),
    )
    assert _ids(study(tmp_path, dotted)) == _ids(study(tmp_path, STUDY))


def test_another_value_is_another_id(tmp_path: Path) -> None:
    old = _ids(study(tmp_path, STUDY))
    for text in (
        "optim.batch=100",
        "data.split=1",
        "data.label_noise=0.1",
        "eval_every=51",
        "init.rule=lecun",
    ):
        assert not old & _ids(study(tmp_path, STUDY, text))


def test_a_grown_study_keeps_its_ids(tmp_path: Path) -> None:
    old = study(tmp_path, STUDY)
    for text in ("seeds=4", "axes.init.scale=[0.5, 0.25, 1, 2, 3]", "search.draws=99"):
        grown = study(tmp_path, STUDY, text)
        assert _ids(old) <= _ids(grown)
        assert [arm.id for arm in plan.arms(grown)] == [arm.id for arm in plan.arms(old)]
    more = study(
        tmp_path, changed(("norm: batch", ""), ("3]\n", "3]\n  model.norm: [none, batch]\n"))
    )
    assert _ids(old) < _ids(more)
    assert {arm.id for arm in plan.arms(old)} < {arm.id for arm in plan.arms(more)}


def test_what_is_spent_on_a_study_changes_no_id(tmp_path: Path) -> None:
    spent = ("resources.cpus=2", "search.lag=3", "search.objective=accuracy", "name=x")
    assert _ids(study(tmp_path, STUDY, *spent)) == _ids(study(tmp_path, STUDY))
