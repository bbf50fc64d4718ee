"""The whole digits study, start-up included: `initmem run studies/digits.yaml` against the same
networks in Ray Tune as a user would write it (naive_tune.py), each in a fresh process.

CPU seconds are those of every process that came of it, by a mark in its environment: Ray's
daemons outlive their parents and reap workers without adding up their time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from initmem.records.store import Store

STUDY, LOOK_EVERY_S = "studies/digits.yaml", 0.2
MARK = "INITMEM_BENCHMARK"
TICKS = os.sysconf("SC_CLK_TCK")
NETWORKS, WORKERS, POINT = 64, 2, 8
"""Of the study; networks at once; networks of a pair of lr and l2."""
QUICK = {
    "ours": ["--set", "search.draws=1", "--set", "optim.epochs=5"],
    "naive_tune": ["--epochs", "5"],
}
"""8 networks, 50 steps each."""


@dataclass(frozen=True)
class Spent:
    wall_s: float
    cpu_s: float

    def of(self, smaller: Spent, factor: float) -> Spent:
        """On the line through a smaller run and this one, so many times the way between them."""
        wall, cpu = self.wall_s - smaller.wall_s, self.cpu_s - smaller.cpu_s
        return Spent(smaller.wall_s + factor * wall, smaller.cpu_s + factor * cpu)


@dataclass(frozen=True)
class Study:
    networks: int
    ours: Spent
    naive: Spent
    training_s: float
    """Of all networks of ours, from their rows: wall time of a worker."""
    trial_s: float
    """Of a naive trial in its training function, wall; the rest is the start of its process."""
    measured: int
    """Trials of naive_tune that were run; if not all, its numbers are on the line through two
    sizes."""

    def not_training(self) -> float:
        """Percent of the time of ours' workers that is not training or evaluating."""
        return 100 * (1 - self.training_s / (self.ours.wall_s * WORKERS))


def study(quick: bool = False, whole: bool = False) -> Study:
    """Run both. whole: all trials of naive_tune; else 8, then 16.

    Raises CalledProcessError if one fails.
    """
    with tempfile.TemporaryDirectory(prefix="speed") as folder:
        command = ["initmem.cli", "run", STUDY, "--run", f"{folder}/ours"]
        command += ["--workers", str(WORKERS), "--set", "resources.engine=auto"]
        ours = spent([*command, *(QUICK["ours"] if quick else [])])
        rows = Store(f"{folder}/ours").rows()
        few = _naive(f"{folder}/few", 1, quick)
        if quick:
            naive, trials = few, POINT
        elif whole:
            naive, trials = _naive(f"{folder}/all", None, quick), NETWORKS
        else:
            naive = _naive(f"{folder}/more", 2, quick).of(few, (NETWORKS - POINT) / POINT)
            trials = 3 * POINT
        seconds = [_trained(path) for path in Path(folder).glob("*/digits/*/result.json")]
    training = sum(row["run.seconds"] for row in rows)
    wanted = POINT if quick else NETWORKS
    assert len(rows) == wanted, f"ours left {len(rows)} rows, not {wanted}"
    return Study(wanted, ours, naive, training, sum(seconds) / len(seconds), trials)


def _naive(folder: str, points: int | None, quick: bool) -> Spent:
    some = ["--points", str(points)] if points else []
    options = ["--storage", folder, *some, *(QUICK["naive_tune"] if quick else [])]
    return spent(["benchmarks.speed.naive_tune", *options])


def _trained(result: Path) -> float:
    return float(json.loads(result.read_text().splitlines()[-1])["time_total_s"])


def spent(command: list[str]) -> Spent:
    """Wall and CPU seconds of a module with its arguments, and of all that it starts."""
    mark = uuid.uuid4().hex
    ticks: dict[tuple[int, int], int] = {}
    with tempfile.TemporaryFile("w+") as said:
        clock = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            env={**os.environ, MARK: mark},
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        while process.poll() is None:
            ticks |= _ticks(f"{MARK}={mark}".encode())
            time.sleep(LOOK_EVERY_S)
        wall = time.monotonic() - clock
        if process.returncode:
            said.seek(0)
            raise subprocess.CalledProcessError(process.returncode, command, said.read())
    return Spent(wall, sum(ticks.values()) / TICKS)


def _ticks(mark: bytes) -> dict[tuple[int, int], int]:
    """Process and when it began -> CPU ticks so far. Who ends between two looks is seen as it
    was at the first: at most LOOK_EVERY_S too little for each process."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if mark not in (folder / "environ").read_bytes():
                continue
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended, or is someone else's
        user, system, began = int(fields[11]), int(fields[12]), int(fields[19])
        found[int(folder.name), began] = user + system
    return found
