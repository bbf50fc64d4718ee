"""On Ray: the same rows as in one process, with one worker and with two, killed or not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest

import initmem
from initmem.records.store import Store
from tests.tiny import TINY, study

BLOCKS = ("search.sampler=tpe", "search.draws=4", "resources.replicas=3")


def comparable(run: Path) -> pd.DataFrame:
    rows = initmem.rows(run)
    return rows[[column for column in rows if not column.startswith("run.")]]


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


@contextmanager
def driver(run: Path, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`initmem run` in a process group of its own; what is left of it is killed."""
    command = [sys.executable, "-m", "initmem.cli", "run", str(path), "--run", str(run),
               "--workers", "2"]  # fmt: skip
    with open(path.parent / "log", "ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def wait_for_records(run: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while len(Store(run).names()) < count:
        assert time.monotonic() < deadline and process.poll() is None, said(run)
        time.sleep(0.02)


def said(run: Path) -> str:
    return (run.parent / "log").read_text()


def workers_of(process: subprocess.Popen[bytes]) -> list[int]:
    """Ray's workers below a driver: children of its children."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True,
                            check=True).stdout  # fmt: skip
    lines = [line.split(None, 2) for line in listed.splitlines()]
    below = {process.pid}
    for _ in range(4):
        below |= {int(pid) for pid, parent, _ in lines if int(parent) in below}
    return [int(pid) for pid, _, args in lines if int(pid) in below and "ray::Block" in args]


LONG = TINY.replace("steps: 30", "steps: 3000").replace("eval_every: 10", "eval_every: 500")


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


def test_fractions_of_gpus_are_asked_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    from initmem.tune.cluster import placement

    of = initmem.load_study("studies/digits.yaml", ["resources.gpus=0.25", "resources.cpus=2"])
    assert placement(of, "cuda") == {"cpu": 2, "gpu": 0.25}
    assert placement(of, "cpu") == {"cpu": 2, "gpu": 0.0}
    whole = initmem.load_study("studies/digits.yaml", ["resources.device=auto"])
    assert placement(whole, "cuda") == {"cpu": 1, "gpu": 1.0}
