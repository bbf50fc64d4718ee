"""On Ray: the same rows as in one process, with one worker and with two, killed or not."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import initmem
from initmem.records.store import Store
from tests.tiny import study
from tests.tune.driving import (
    LONG,
    comparable,
    descendants,
    driver,
    running,
    said,
    wait_for_records,
    workers_of,
)

BLOCKS = ("search.sampler=tpe", "search.draws=4", "resources.replicas=3")


def test_rows_are_the_same_in_process_and_with_one_and_two_workers(tmp_path: Path) -> None:
    of = study(tmp_path, *BLOCKS)
    initmem.run(of, tmp_path / "local", local=True)
    for workers in (1, 2):
        summary = initmem.run(of, tmp_path / f"ray{workers}", workers=workers)
        assert (summary.done, summary.trained) == (16, 16)
        pd.testing.assert_frame_equal(
            comparable(tmp_path / "local"),
            comparable(tmp_path / f"ray{workers}"),
            check_exact=True,
        )
    events = list((tmp_path / "ray2" / "tensorboard").glob("*/events.out.tfevents.*"))
    assert len(events) == 8


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    folder = tmp_path_factory.mktemp("undisturbed")
    initmem.run(study(folder, text=LONG), folder / "run", local=True)
    return comparable(folder / "run")


def test_a_killed_study_goes_on_to_the_same_rows(
    tmp_path: Path, undisturbed: pd.DataFrame
) -> None:
    """SIGKILL of the driver's process group in the middle of training, twice."""
    study(tmp_path, text=LONG)
    path, run = tmp_path / "tiny.yaml", tmp_path / "run"
    for wanted in (2, 6):
        with driver(run, path) as process:
            wait_for_records(run, wanted, process)
            os.killpg(process.pid, signal.SIGKILL)
    assert 2 <= len(Store(run).names()) < 12, "the kills came too late to tell anything"
    with driver(run, path) as process:
        assert process.wait(timeout=180) == 0, said(run)
    pd.testing.assert_frame_equal(undisturbed, comparable(run), check_exact=True)


def test_lost_workers_are_replaced_and_their_blocks_finish(
    tmp_path: Path, undisturbed: pd.DataFrame
) -> None:
    study(tmp_path, text=LONG)
    run = tmp_path / "run"
    with driver(run, tmp_path / "tiny.yaml") as process:
        wait_for_records(run, 2, process)
        lost = workers_of(process)
        assert lost, said(run)
        for pid in lost:
            os.kill(pid, signal.SIGKILL)
        assert process.wait(timeout=180) == 0, said(run)
    pd.testing.assert_frame_equal(undisturbed, comparable(run), check_exact=True)


def test_a_worker_that_lost_its_gpu_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process can train nothing more; another takes its block."""
    from initmem.tune import trainable

    marks = tmp_path / "workers"

    class Losing(trainable.BlockTrainable):
        def setup(self, config: dict[str, Any]) -> None:
            super().setup(config)
            known = marks.read_text().split() if marks.exists() else []
            marks.write_text(" ".join([*known, str(os.getpid())]))
            if not known:
                self.progress = self.broken()

        def broken(self) -> Iterator[trainable.Progress]:
            raise torch.AcceleratorError("CUDA error: unspecified launch failure")
            yield

    monkeypatch.setattr(trainable, "BlockTrainable", Losing)
    of = study(tmp_path, "search.draws=2")
    summary = initmem.run(of, tmp_path / "run", workers=1)
    assert summary.done == summary.trained == 8 and "failed" not in summary.states
    first, *others = marks.read_text().split()
    assert len(others) == 2 and first not in others


def test_a_dead_raylet_is_noticed_within_a_minute(tmp_path: Path) -> None:
    study(tmp_path, text=LONG.replace("steps: 1500", "steps: 100000"))
    run = tmp_path / "run"
    with driver(run, tmp_path / "tiny.yaml") as process:
        deadline = time.monotonic() + 120
        while not list(run.glob("checkpoints/*/meter")):
            assert time.monotonic() < deadline and process.poll() is None, said(run)
            time.sleep(0.1)
        below = descendants(process.pid)
        raylets = [pid for pid, args in below.items() if "raylet/raylet" in args]
        assert raylets
        for pid in raylets:
            os.kill(pid, signal.SIGKILL)
        assert process.wait(timeout=60) == 2, said(run)
    assert "ray: its raylet or head died; the same command goes on" in said(run)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_a_run_in_order(tmp_path: Path, number: int, status: int) -> None:
    """Within 10 s, with the command to go on, and without a Ray process left."""
    study(tmp_path, text=LONG)
    run = tmp_path / "run"
    with driver(run, tmp_path / "tiny.yaml") as process:
        wait_for_records(run, 1, process)
        below = descendants(process.pid)
        clock = time.monotonic()
        process.send_signal(number)
        assert process.wait(timeout=30) == status, said(run)
        assert time.monotonic() - clock < 10
    assert f"stopped by {signal.Signals(number).name}; to go on: initmem run" in said(run)
    assert below and not [pid for pid in below if running(pid)]
