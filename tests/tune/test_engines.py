"""Engines of a study: the same rows however its blocks are cut; auto chooses once a run."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch

import initmem
from initmem.records.store import Store
from initmem.study.spec import StudyError, UserError
from initmem.training.batched import Batched
from initmem.training.loop import Engine, Loop
from initmem.training.replica import Training
from initmem.tune import engines
from initmem.tune.place import here
from initmem.tune.rerun import rerun
from tests.tiny import TINY, study
from tests.tune.driving import LONG, differing, driver, wait_for_records

BATCHED = "resources.engine=batched"


def test_batched_rows_do_not_depend_on_the_block(tmp_path: Path) -> None:
    for cut in ("all", "1", "3"):
        of = study(tmp_path, BATCHED, f"resources.replicas={cut}")
        summary = initmem.run(of, tmp_path / cut, local=True)
        assert summary.done == 12 and "failed" not in summary.states
    assert not differing(tmp_path / "all", tmp_path / "1")
    assert not differing(tmp_path / "all", tmp_path / "3")
    rows = Store(tmp_path / "all").rows()
    assert {row["engine"] for row in rows} == {"batched"}
    assert rerun(tmp_path / "1", rows[5]["replica"], "data") == {}


def test_what_auto_takes_on_ray_leaves_the_rows_of_that_engine(tmp_path: Path) -> None:
    initmem.run(study(tmp_path, "resources.engine=auto"), tmp_path / "ray", workers=2)
    (taken,) = {row["engine"] for row in Store(tmp_path / "ray").rows()}
    assert set(Store(tmp_path / "ray").engines().values()) == {taken}
    initmem.run(study(tmp_path, f"resources.engine={taken}"), tmp_path / "local", local=True)
    assert not differing(tmp_path / "local", tmp_path / "ray")


def test_a_killed_stack_goes_on_to_the_same_rows(tmp_path: Path) -> None:
    """SIGKILL in the middle of the second cell, whose four networks train at once."""
    text = LONG.replace("steps: 1500", "steps: 3000")
    of = study(tmp_path, text=text.replace("resources: {", "resources: {engine: batched, "))
    initmem.run(of, tmp_path / "undisturbed", local=True)
    run = tmp_path / "run"
    with driver(run, tmp_path / "tiny.yaml", "--local") as process:
        wait_for_records(run, 4, process)
        while {path.parent.name for path in run.glob("checkpoints/*/*.sealed")} <= (
            Store(run).names()
        ):
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
    assert 4 <= len(Store(run).names()) < 12, "the kill came too late to tell anything"
    assert initmem.run(of, run, local=True).done == 12
    assert not differing(tmp_path / "undisturbed", run)
    assert sum(row["run.resumed"] for row in Store(run).rows()) == 4


def test_networks_of_two_shapes_in_one_cell(tmp_path: Path) -> None:
    text = TINY.replace("init.scale: [1, 2]", "model.width: [8, 16]")
    text = text.replace(", width: 16}", "}") + "memory_axis: model.width\n"
    of = study(tmp_path, BATCHED, text=text)
    summary = initmem.run(of, tmp_path / "run", local=True)
    assert summary.done == 12 and "failed" not in summary.states


def test_an_error_is_its_own_replicas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    initmem.run(study(tmp_path, BATCHED), tmp_path / "whole", local=True)
    real = Training.outcome

    def outcome(self: Training):
        if self.seed == 1 and self.recipe.init.scale == 2:
            raise ZeroDivisionError("first line\nsecond")
        return real(self)

    monkeypatch.setattr(Training, "outcome", outcome)
    initmem.run(study(tmp_path, BATCHED), tmp_path / "run", local=True)
    rows = {row["replica"]: row for row in Store(tmp_path / "run").rows()}
    failed = [row for row in rows.values() if row["state"] == "failed"]
    assert len(rows) == 12 and len(failed) == 3
    assert {row["error"] for row in failed} == {"ZeroDivisionError: first line"}
    for row in Store(tmp_path / "whole").rows():
        mine = rows[row["replica"]]
        assert mine["state"] == "failed" or mine["curve"] == row["curve"]


def test_a_network_without_a_form_is_refused(tmp_path: Path) -> None:
    text = TINY.replace("name: mlp, width: 16", "name: resnet9, width: 12")
    text = text.replace("resources: {", "resources: {engine: batched, ")
    told = (
        r"tiny.yaml:15: resources.engine: .* resnet9 whose width is no multiple of 8; write loop"
    )
    with pytest.raises(StudyError, match=told):
        study(tmp_path, text=text)


def test_auto_takes_loop_where_there_is_nothing_to_choose(tmp_path: Path) -> None:
    of = study(
        tmp_path, "resources.engine=auto", text=TINY.replace("mlp, width: 16", "resnet9, width: 4")
    )
    assert engines.open_choices(of, torch.device("cpu")) == {}


@pytest.mark.parametrize("fast", ["loop", "batched"])
def test_auto_is_timed_once_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fast: str
) -> None:
    of = study(tmp_path, "resources.engine=auto")
    timings: list[str] = []

    def seconds(engine: object) -> float:
        name = "batched" if isinstance(engine, Batched) else "loop"
        timings.append(name)
        return 1.0 if name == fast else 2.0

    monkeypatch.setattr(engines, "seconds_a_step", seconds)
    initmem.run(of, tmp_path / "run", local=True)
    assert sorted(set(timings)) == ["batched", "loop"]
    assert {row["engine"] for row in Store(tmp_path / "run").rows()} == {fast}
    timings.clear()
    more = study(tmp_path, "resources.engine=auto", "search.draws=4")
    initmem.run(more, tmp_path / "run", local=True)
    assert not timings
    plain = study(tmp_path, f"resources.engine={fast}", "search.draws=4")
    initmem.run(plain, tmp_path / "plain", local=True)
    assert not differing(tmp_path / "plain", tmp_path / "run")


def test_timing_trains_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "ROUND_S", 0.01)
    seconds: dict[type, list[float]] = {}
    real = engines.seconds_a_step

    def watched(engine: Engine) -> float:
        before = [member.losses_T.count_nonzero() for member in engine.members]
        seconds.setdefault(type(engine), []).append(real(engine))
        assert len(engine.members) == (1 if isinstance(engine, Loop) else 4)
        after = [member.losses_T.count_nonzero() for member in engine.members]
        assert all(a >= max(b, 1) for a, b in zip(after, before, strict=True)), "all are trained"
        return seconds[type(engine)][-1]

    monkeypatch.setattr(engines, "seconds_a_step", watched)
    of = study(tmp_path, "resources.engine=auto")
    teams = engines.open_choices(of, torch.device("cpu"))
    (found,) = engines.timed(of, teams, Path("data"), here(of)).values()
    loop, batched = (min(seconds[engine]) for engine in (Loop, Batched))
    assert loop > 0 and batched > 0 and len(seconds[Loop]) == engines.ROUNDS
    assert found == ("batched" if batched < loop / engines.GAIN else "loop")


def test_auto_wants_a_gain_that_is_no_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = study(tmp_path, "resources.engine=auto")
    teams = engines.open_choices(of, torch.device("cpu"))
    for times, wanted in ((1.05, "loop"), (1.15, "batched")):
        monkeypatch.setattr(
            engines,
            "seconds_a_step",
            lambda engine, times=times: times if isinstance(engine, Loop) else 1.0,
        )
        assert set(engines.timed(of, teams, Path("data"), here(of)).values()) == {wanted}


def test_the_engine_of_a_run_stays(tmp_path: Path) -> None:
    initmem.run(study(tmp_path), tmp_path / "run", local=True)
    with pytest.raises(UserError, match=r"resources\.engine: loop -> batched"):
        initmem.run(study(tmp_path, BATCHED), tmp_path / "run", local=True)
