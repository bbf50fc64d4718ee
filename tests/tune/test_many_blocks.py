"""A driver of many blocks: what it keeps and goes through does not grow with those that ended."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
from ray.tune.experiment import Trial
from tensorboardX.proto.event_pb2 import Event

import initmem
from benchmarks.driver import Case, a_row, at_once, loaded
from initmem.records.files import files_at
from initmem.tune import trainable
from initmem.tune.curves import Curves
from initmem.tune.searcher import Lookout

BLOCKS = 24


def test_tune_keeps_the_trials_that_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("", BLOCKS, workers=1)
    (tmp_path / "places").mkdir()
    swapped = at_once(a_row(tmp_path), case, tmp_path / "places")
    monkeypatch.setattr(trainable, "BlockTrainable", swapped)
    listed, alive = [], []
    before = living()  # of other tests, that somebody still holds
    step_end = Lookout.on_step_end

    def counted(self: Lookout, iteration: int, trials: list[Any], **info: Any) -> None:
        step_end(self, iteration, trials, **info)
        listed.append(len(trials))
        if len(self.searcher.agenda.arms[0].told) == BLOCKS - 1:
            alive.append(sum(all(one is not old for old in before) for one in living()))

    monkeypatch.setattr(Lookout, "on_step_end", counted)
    outcome = initmem.run(loaded(tmp_path, case), tmp_path / "run", workers=1)
    assert outcome.trained == 4 * BLOCKS and outcome.states == {"interpolated": 4 * BLOCKS}
    assert max(listed) <= 2 and min(alive) <= 3
    curves = list((tmp_path / "run" / "tensorboard").glob("arm0-draw*-block0/events.*"))
    assert len(curves) == BLOCKS


def living() -> list[Trial]:
    """Those that anybody holds, garbage aside."""
    gc.collect()
    return [one for one in gc.get_objects() if type(one) is Trial]


def records(path: Path) -> list[Event]:
    """The events of a file: length (8 bytes), its checksum (4), the event, its checksum (4)."""
    content, found = path.read_bytes(), []
    while content:
        length = int.from_bytes(content[:8], "little")
        found.append(Event.FromString(content[12 : 12 + length]))
        content = content[16 + length :]
    return found


def test_curves_of_a_block_by_its_steps(tmp_path: Path) -> None:
    curves = Curves(files_at(tmp_path / "run"))
    for step in (10, 20):
        point = {"step": step, "train_loss": 1 / step, "ood_accuracy": None}
        curves.log_trial_result(1, "block", {"scale_1_seed_0": point, "config": {"arm": 0}})
    curves.log_trial_end("block")
    (path,) = (tmp_path / "run" / "tensorboard" / "block").iterdir()
    _, *events = records(path)
    told = [(e.step, e.summary.value[0].tag, e.summary.value[0].simple_value) for e in events]
    assert told == [
        (10, "scale_1_seed_0/train_loss", pytest.approx(0.1)),
        (20, "scale_1_seed_0/train_loss", pytest.approx(0.05)),
    ]
    assert curves.writers == {}


def test_curves_that_cannot_be_written_end_nothing(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file in the place of the run")
    curves = Curves(files_at(tmp_path / "run"))
    curves.log_trial_result(1, "block", {"a": {"step": 1, "train_loss": 1.0}})
    curves.log_trial_end("block")
