"""The whole digits study, start-up included: `initmem run studies/digits.yaml` against the same
networks in Ray Tune as a user would write it (naive_tune.py), each in a fresh process.

CPU seconds are those of every process that came of it, by a mark in its environment: Ray's
daemons outlive their parents and reap workers without adding up their time.
"""

from __future__ import annotations

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
WORKERS = 2
QUICK = {"ours": ["--set", "search.draws=1", "--set", "optim.epochs=5"],
         "naive_tune": ["--points", "1", "--epochs", "5"]}  # fmt: skip
"""8 networks, 50 steps each."""


@dataclass(frozen=True)
class Spent:
    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class Study:
    ours: Spent
    naive: Spent
    networks: int
    training_s: float
    """Of all networks of ours, from their rows: wall time of a worker."""

    def not_training(self) -> float:
        """Percent of the time of ours' workers that is not training or evaluating."""
        return 100 * (1 - self.training_s / (self.ours.wall_s * WORKERS))


def study(quick: bool = False) -> Study:
    """Run both. Raises CalledProcessError with what was said if one fails."""
    with tempfile.TemporaryDirectory(prefix="speed") as folder:
        commands = {
            "ours": ["initmem.cli", "run", STUDY, "--run", f"{folder}/ours",
                     "--workers", str(WORKERS)],
            "naive_tune": ["benchmarks.speed.naive_tune", "--storage", f"{folder}/naive"],
        }  # fmt: skip
        found = {
            name: spent([sys.executable, "-m", *command, *(QUICK[name] if quick else [])])
            for name, command in commands.items()
        }
        rows = Store(f"{folder}/ours").rows()
        trials = len(list(Path(f"{folder}/naive/digits").glob("*/result.json")))
        assert len(rows) == trials, f"{len(rows)} networks of ours, {trials} of naive_tune"
    training = sum(row["run.seconds"] for row in rows)
    return Study(found["ours"], found["naive_tune"], trials, training)


def spent(command: list[str]) -> Spent:
    """Wall and CPU seconds of a command and of all that it starts."""
    mark = uuid.uuid4().hex
    ticks: dict[tuple[int, int], int] = {}
    with tempfile.TemporaryFile("w+") as said:
        clock = time.monotonic()
        process = subprocess.Popen(
            command, env={**os.environ, MARK: mark}, stdout=said, stderr=subprocess.STDOUT
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
