"""The small study that everything is done to, and what it is held against."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import initmem
from initmem.records.rows import to_text
from initmem.records.store import Store
from tests.tiny import study
from tests.tune.driving import LONG, said

KEY = ["cell", "init.scale", "seed"]

TEXT = LONG.replace("steps: 1500", "steps: 4000").replace("draws: 3", "draws: 5")
TEXT = TEXT.replace("checkpoint_every: 7", "checkpoint_every: 200")


@dataclass
class Line:
    """What a fault came to: rows lost and doubled, rows whose bits are different (or, where no row
    is at stake, faults that were not found), steps trained twice."""

    fault: str
    injected: int
    rows_lost: int = 0
    rows_doubled: int = 0
    bits_different: int = 0
    steps_twice: int = 0
    seconds: float = 0.0


class Scene:
    """One study and its undisturbed rows; each fault has a run folder of its own."""

    def __init__(self, folder: Path, text: str = TEXT, seed: int = 0) -> None:
        self.folder, self.dice = folder, random.Random(seed)
        self.study = study(folder, text=text)
        self.path = folder / "tiny.yaml"
        initmem.run(self.study, folder / "undisturbed", local=True)
        self.reference = texts(folder / "undisturbed")

    def finish(self, run: Path | str) -> None:
        """Run it to its end; in this process, which is quicker."""
        initmem.run(self.study, run, local=True)

    def held_against(self, run: Path | str, fault: str, injected: int) -> Line:
        rows = texts(run)
        return Line(
            fault,
            injected,
            rows_lost=len(set(self.reference) - set(rows)),
            rows_doubled=sum(len(same) - 1 for same in rows.values()),
            bits_different=sum(rows[key] != self.reference.get(key) for key in rows),
            steps_twice=sum(row["run.repeated_steps"] for row in Store(run).rows()),
        )


Fault = Callable[[Scene], Line]


def texts(run: Path | str) -> dict[tuple[object, ...], list[bytes]]:
    """Network -> its rows, as text, without the columns that may differ."""
    found: dict[tuple[object, ...], list[bytes]] = {}
    for row in Store(run).rows():
        kept = {name: value for name, value in row.items() if not name.startswith("run.")}
        found.setdefault(tuple(row[name] for name in KEY), []).append(to_text(kept))
    return found


def wait_for_training(run: Path, process: subprocess.Popen[bytes]) -> None:
    """Until a meter turns that did not turn before."""
    before = {path: path.read_bytes() for path in run.glob("checkpoints/*/meter")}
    deadline = time.monotonic() + 120
    while process.poll() is None:
        assert time.monotonic() < deadline, said(run)
        now = {path: read(path) for path in run.glob("checkpoints/*/meter")}
        if any(before.get(path) != content for path, content in now.items()):
            return
        time.sleep(0.02)


def read(path: Path) -> bytes | None:
    """The content of a file that may go away at any moment."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
