"""Driving `initmem run` from outside, as a process that can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from ray.cluster_utils import Cluster

import initmem
from initmem.records.store import Store
from tests.tiny import TINY

LONG = TINY.replace("steps: 30", "steps: 1500").replace("eval_every: 10", "eval_every: 500")


def comparable(run: Path) -> pd.DataFrame:
    """The rows without what may differ between two runs."""
    rows = initmem.rows(run)
    return rows[[column for column in rows if not column.startswith("run.")]]


def differing(a: Path, b: Path) -> list[str]:
    """Columns in which the rows of two runs differ, but those of the run."""
    pairs = list(zip(Store(a).rows(), Store(b).rows(), strict=True))
    assert pairs, "no rows"
    return sorted({c for x, y in pairs for c in x if c[:4] != "run." and x[c] != y[c]})


def at_once(run: Path) -> int:
    """The most cells that were in training together, by their rows; a row notes its start in
    whole seconds."""
    rows = initmem.rows(run)
    start = pd.to_datetime(rows["run.started"]).map(pd.Timestamp.timestamp)
    first = start.groupby(rows["cell"]).min() + 1
    last = (start + rows["run.seconds"]).groupby(rows["cell"]).max()
    return max(int(((first <= at) & (at < last)).sum()) for at in first)


@contextmanager
def driver(
    run: Path | str, path: Path, *options: str, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """`initmem run` in a process group of its own; what is left of it is killed. What it says is
    added to a log beside the study."""
    command = [sys.executable, "-m", "initmem.cli", "run", str(path), "--run", str(run),
               "--workers", "2", *options]  # fmt: skip
    with open(path.parent / "log", "ab") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextmanager
def cluster(*nodes: dict[str, Any]) -> Iterator[Cluster]:
    """A cluster on this machine, the head first, each node with what Ray's `add_node` takes."""
    before = os.environ.get("RAY_TMPDIR")
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as short:  # for the paths of sockets
        os.environ["RAY_TMPDIR"] = short
        made = Cluster(initialize_head=True, head_node_args=nodes[0])
        try:
            for node in nodes[1:]:
                made.add_node(**node)
            yield made
        finally:
            made.shutdown()
            os.environ.pop("RAY_TMPDIR")
            if before is not None:
                os.environ["RAY_TMPDIR"] = before


def wait_for_records(run: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while len(Store(run).names()) < count:
        assert time.monotonic() < deadline and process.poll() is None, said(run)
        time.sleep(0.02)


def said(beside: Path) -> str:
    """What the drivers of the study said so far; `beside`: its file, or a run beside it."""
    return (beside.parent / "log").read_text()


def processes() -> list[tuple[int, int, str]]:
    """(pid, parent, command line) of every process but zombies."""
    listed = subprocess.run(["ps", "-ewwo", "pid=,ppid=,stat=,args="], capture_output=True,
                            text=True, check=True).stdout  # fmt: skip
    lines = (line.split(None, 3) for line in listed.splitlines())
    return [(int(p), int(pp), args) for p, pp, stat, args in lines if not stat.startswith("Z")]


def descendants(pid: int) -> dict[int, str]:
    """Processes below one, with their command lines."""
    below: dict[int, str] = {}
    found = {pid}
    while found:
        found = {p for p, parent, _ in processes() if parent in found and p not in below}
        below |= {p: args for p, _, args in processes() if p in found}
    return below


def running(pid: int) -> bool:
    return any(p == pid for p, _, _ in processes())


def workers_of(process: subprocess.Popen[bytes]) -> list[int]:
    """Ray's workers that hold a block."""
    return [pid for pid, args in descendants(process.pid).items() if "ray::Block" in args]
