"""A run in a bucket: the same rows as in a folder, through all of the tool."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import initmem
from initmem.cli import main
from initmem.records.checkpoints import Checkpoints
from initmem.records.files import files_at
from initmem.study.spec import UserError
from initmem.tune.owner import owner_of, owning
from tests.buckets import ENVIRONMENT, Bucket, serving
from tests.tiny import study
from tests.tune.driving import comparable


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        with serving(tmp_path_factory.mktemp("server")) as served:
            yield served


def test_files_of_a_bucket(bucket: Bucket) -> None:
    files = files_at(bucket.address("files"))
    assert files.read("a/b") is None and files.names("a") == []
    files.write("a/b", b"1")
    files.write("a/c", b"2" * 100_000)
    assert files.names("a") == ["b", "c"] and files.read("a/c") == b"2" * 100_000
    files.rename("a/b", "a/d")
    files.remove_file("a/c")
    assert files.names("a") == ["d"]
    files.remove("a")
    files.remove("a")
    assert files.names("a") == []


def test_a_study_in_a_bucket_from_run_to_report(tmp_path: Path, bucket: Bucket) -> None:
    storage = bucket.address("runs")
    of = study(tmp_path, f"storage={storage}")
    assert of.address == storage.replace("runs?", "runs/tiny?")
    assert initmem.run(of, local=True).trained == 12
    assert initmem.run(of, local=True).trained == 0
    initmem.run(of, tmp_path / "run", local=True)
    pd.testing.assert_frame_equal(
        comparable(of.address), comparable(tmp_path / "run"), check_exact=True
    )
    optuna = ["export", "--optuna", str(tmp_path / "o.db")]
    for words in (["status"], ["export"], optuna):
        assert CliRunner().invoke(main, [*words, of.address]).exit_code == 0
    command = [sys.executable, "-m", "analysis", of.address]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "report/report.html" in done.stdout
    files = files_at(of.address)
    assert files.names("") == ["rows.csv", "rows.parquet", "study.sealed"]
    assert {"cells.csv", "cells.parquet", "report.html"} <= set(files.names("report"))
    assert files.names("checkpoints") == []


def test_on_ray_with_the_server_away_for_ten_seconds(tmp_path: Path, bucket: Bucket) -> None:
    of = study(tmp_path, f"storage={bucket.address('ray')}", "optim.steps=2000",
               "resources.checkpoint_every=500")  # fmt: skip
    initmem.run(of, tmp_path / "run", local=True)

    def away() -> None:
        os.kill(bucket.process.pid, signal.SIGSTOP)
        threading.Timer(10, os.kill, (bucket.process.pid, signal.SIGCONT)).start()

    threading.Timer(9, away).start()
    assert initmem.run(of, workers=2).trained == 12
    assert len(files_at(of.address).names("tensorboard/arm0-draw2-block0")) == 1
    pd.testing.assert_frame_equal(
        comparable(of.address), comparable(tmp_path / "run"), check_exact=True
    )


def test_checkpoints_in_a_bucket(bucket: Bucket) -> None:
    kept = Checkpoints(files_at(bucket.address("checkpoints")), "r")
    for step in (5, 10, 15):
        kept.save(step, f"state {step}".encode())
    assert kept.latest() == b"state 15"
    kept.remove()
    assert kept.latest() is None


def test_a_bucket_that_is_not_there_is_said_at_once(tmp_path: Path, bucket: Bucket) -> None:
    nowhere = bucket.address("x").replace("s3://lab", "s3://nobody")
    with pytest.raises(UserError, match=r"nobody/x/owner\.json\?.*: refuses: .*NO_SUCH_BUCKET"):
        initmem.run(study(tmp_path), nowhere, local=True)
    result = CliRunner().invoke(main, ["status", nowhere])
    assert result.exit_code == 2 and "holds no study.sealed" in result.stderr


def test_one_driver_a_bucket(bucket: Bucket) -> None:
    files = files_at(bucket.address("owned"))
    assert owner_of(files) is None
    with owning(files):
        other = [sys.executable, "-c", OTHER, files.address]
        refused = subprocess.run(other, capture_output=True, text=True, check=False)
        assert f"another driver runs it (host {os.uname().nodename}, pid {os.getpid()}" in (
            refused.stderr
        )
    assert owner_of(files) is None
    files.write("owner.json", b'{"host": "elsewhere", "pid": 1, "since": "x", "signed": 1.0}')
    with owning(files):
        assert owner_of(files)["pid"] == os.getpid()


OTHER = """
import sys
from initmem.records.files import files_at
from initmem.tune.owner import owning
with owning(files_at(sys.argv[1])):
    pass
"""
