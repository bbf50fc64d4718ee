"""Two trainings of a network in a run: killed in either of them, it goes on to the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import initmem
from initmem.records.store import Store
from initmem.study.plan import blocks
from initmem.tune.block import train_block
from initmem.tune.place import here
from initmem.tune.rerun import rerun
from tests.tiny import first_cell, study
from tests.tune.driving import differing

TEXT = """
recipe:
  data: {name: digits, classes: 6-9, train: 30, validation: 40}
  model: {name: mlp, width: 16}
  init: {rule: kaiming}
  optim: {name: sgd, lr: 0.1, batch: 20, steps: 30}
  pretrain: {name: stage, classes: rest, train: 60, steps: 20, lr: 0.05}
  eval_every: 10
axes:
  init.scale: [1, 2]
seeds: 2
resources: {checkpoint_every: 7}
"""


@pytest.mark.parametrize("engine", ["loop", "batched"])
def test_a_killed_block_goes_on_to_the_same_rows(engine: str, tmp_path: Path) -> None:
    """In the first training, and in the second of some or all: each network's curve has two
    points and then three."""
    of = study(tmp_path, f"resources.engine={engine}", text=TEXT)
    initmem.run(of, tmp_path / "whole", local=True)
    store = Store(tmp_path / "cut")
    store.create(of)
    [block] = blocks(of, first_cell(of))
    for points in (1, 13):
        training = train_block(of, block, store, Path("data"), here(of))
        for _ in range(points):
            next(training)
        training.close()
    done = len(store.names())
    initmem.run(of, tmp_path / "cut", local=True)
    assert differing(tmp_path / "whole", tmp_path / "cut") == []
    whole, cut = (Store(tmp_path / run).rows() for run in ("whole", "cut"))
    assert {row["run.resumed"] for row in whole} == {row["run.repeated_steps"] for row in whole}
    assert {row["run.resumed"] for row in whole} == {0}
    resumed = [row["run.resumed"] for row in cut]
    assert (done, sum(resumed)) == ((2, 2) if engine == "loop" else (0, 8))
    assert 0 < sum(row["run.repeated_steps"] for row in cut) <= 7 * sum(resumed)


def test_a_row_tells_of_both_trainings_and_can_be_trained_again(tmp_path: Path) -> None:
    of = study(tmp_path, "seeds=1", text=TEXT)
    initmem.run(of, tmp_path / "run", local=True)
    for row in Store(tmp_path / "run").rows():
        assert (row["first.steps"], row["steps"], row["total_steps"]) == (20, 30, 30)
        assert row["first.train_accuracy"] > 100 / 6 and row["pretrain.classes"] == "rest"
        asked = {line["tensor"]: line["asked_std"] for line in row["audit"]}
        assert (
            asked["head.weight"]
            == row["init.scale"] * asked["head.weight[redrawn]"]
            == (pytest.approx(row["init.scale"] / 4))
        )
    assert rerun(tmp_path / "run", row["replica"], "data") == {}
