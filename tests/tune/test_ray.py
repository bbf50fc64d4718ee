"""On Ray: the same rows as in one process, with one worker and with two, killed or not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
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


def start(folder: Path, path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "initmem.cli", "run", str(path), "--run", str(folder),
               "--workers", "2"]  # fmt: skip
    log = open(folder.parent / "log", "ab")  # noqa: SIM115 - the process keeps it
    return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def test_a_killed_study_goes_on_to_the_same_rows(tmp_path: Path) -> None:
    """SIGKILL of the driver's process group in the middle of training, twice."""
    text = TINY.replace("steps: 30", "steps: 3000").replace("eval_every: 10", "eval_every: 500")
    of = study(tmp_path, text=text)
    initmem.run(of, tmp_path / "undisturbed", local=True)
    run = tmp_path / "killed"
    for wanted in (2, 6):
        driver = start(run, tmp_path / "tiny.yaml")
        deadline = time.monotonic() + 120
        while len(Store(run).names()) < wanted:
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            assert driver.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.02)
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert 2 <= len(Store(run).names()) < 12, "the kill came too late to tell anything"
    assert start(run, tmp_path / "tiny.yaml").wait(timeout=180) == 0, (
        tmp_path / "log"
    ).read_text()
    pd.testing.assert_frame_equal(
        comparable(tmp_path / "undisturbed"), comparable(run), check_exact=True
    )


def test_a_lost_worker_is_replaced_and_its_block_finishes(tmp_path: Path) -> None:
    text = TINY.replace("steps: 30", "steps: 3000").replace("eval_every: 10", "eval_every: 500")
    of = study(tmp_path, text=text)
    initmem.run(of, tmp_path / "undisturbed", local=True)
    run = tmp_path / "run"
    driver = start(run, tmp_path / "tiny.yaml")
    deadline = time.monotonic() + 120
    while len(Store(run).names()) < 2:
        assert time.monotonic() < deadline, (tmp_path / "log").read_text()
        time.sleep(0.02)
    subprocess.run(["pkill", "-KILL", "-s", str(driver.pid), "-f", "ray::"], check=False)
    assert driver.wait(timeout=180) == 0, (tmp_path / "log").read_text()
    pd.testing.assert_frame_equal(
        comparable(tmp_path / "undisturbed"), comparable(run), check_exact=True
    )


def test_fractions_of_gpus_are_asked_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    from initmem.tune.cluster import placement

    of = initmem.load_study("studies/digits.yaml", ["resources.gpus=0.25", "resources.cpus=2"])
    assert placement(of, "cuda") == {"cpu": 2, "gpu": 0.25}
    assert placement(of, "cpu") == {"cpu": 2, "gpu": 0.0}
    whole = initmem.load_study("studies/digits.yaml", ["resources.device=auto"])
    assert placement(whole, "cuda") == {"cpu": 1, "gpu": 1.0}
