"""make chaos: everything that can be done to a study from outside, and what it lost by it.

Each fault is brought into a run of one small study; then `initmem run` goes on, and the rows are
held against those of an undisturbed run. Prints a table and ends with status 1 if a row was lost,
doubled or different.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import pandas as pd
import torch

import initmem
from initmem.records.files import seal, unseal
from initmem.records.rows import to_text
from initmem.records.store import Store
from initmem.study.plan import count
from initmem.study.spec import UserError
from initmem.training.checkpoint import unpack
from tests.tiny import study
from tests.tune.driving import LONG, descendants, driver, running, said, workers_of

KEY = ["cell", "init.scale", "seed"]


@dataclass
class Line:
    fault: str
    injected: int
    rows_lost: int = 0
    rows_doubled: int = 0
    rows_different: int = 0
    steps_repeated: int = 0
    seconds: float = 0.0


class Chaos:
    """One study, its undisturbed rows, and a folder for each fault."""

    def __init__(self, folder: Path, text: str, seed: int = 0) -> None:
        self.folder, self.dice = folder, random.Random(seed)
        self.study = study(folder, text=text)
        self.path = folder / "tiny.yaml"
        initmem.run(self.study, folder / "undisturbed", local=True)
        self.reference = texts(folder / "undisturbed")

    def held_against(self, run: Path, fault: str, injected: int) -> Line:
        rows = texts(run)
        return Line(
            fault,
            injected,
            rows_lost=len(set(self.reference) - set(rows)),
            rows_doubled=sum(len(same) - 1 for same in rows.values()),
            rows_different=sum(rows[key] != self.reference.get(key) for key in rows),
            steps_repeated=sum(row["run.repeated_steps"] for row in Store(run).rows()),
        )

    def finish(self, run: Path) -> None:
        initmem.run(self.study, run, local=True)

    def driver_killed(self, kills: int) -> Line:
        """SIGKILL of the driver's process group, at random moments once it trains."""
        run = self.folder / "driver"
        injected = 0
        while injected < kills and len(Store(run).names()) < count(self.study):
            with driver(run, self.path) as process:
                wait_for_training(run, process)
                time.sleep(self.dice.uniform(0, 1.5))
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    injected += 1
        self.finish(run)
        return self.held_against(run, "driver killed", injected)

    def worker(self, number: int, pause: float) -> Line:
        """A signal to every worker once; SIGSTOP is followed by SIGCONT after `pause` seconds."""
        name = signal.Signals(number).name
        run = self.folder / name
        with driver(run, self.path) as process:
            wait_for_training(run, process)
            hit = workers_of(process)
            for pid in hit:
                os.kill(pid, number)
            time.sleep(pause)
            for pid in hit if number == signal.SIGSTOP else []:
                os.kill(pid, signal.SIGCONT)
            assert process.wait(timeout=300) == 0, said(run)
        return self.held_against(run, f"worker {name}", len(hit))

    def raylet_killed(self) -> Line:
        run = self.folder / "raylet"
        with driver(run, self.path) as process:
            wait_for_training(run, process)
            below = descendants(process.pid)
            for pid in [pid for pid, args in below.items() if "raylet/raylet" in args]:
                os.kill(pid, signal.SIGKILL)
            process.wait(timeout=120)
        self.finish(run)
        return self.held_against(run, "raylet killed", 1)

    def signalled(self, number: int) -> Line:
        run = self.folder / f"signal{number}"
        with driver(run, self.path) as process:
            wait_for_training(run, process)
            below = descendants(process.pid)
            clock = time.monotonic()
            process.send_signal(number)
            status = process.wait(timeout=60)
            assert time.monotonic() - clock < 10, "slower than ten seconds"
        assert status == (130 if number == signal.SIGINT else 143), said(run)
        assert not set(below) & set(descendants(1)), "a Ray process is left behind"
        self.finish(run)
        return self.held_against(run, f"driver {signal.Signals(number).name}", 1)

    def files_damaged(self) -> Line:
        """Every state file of a half-finished run, cut at 0, half and last-1 bytes or with one bit
        flipped; after each the run goes on."""
        run = self.folder / "files"
        injected = 0
        for damage in (cut_to_nothing, cut_in_half, cut_by_a_byte, flip(self.dice)):
            with driver(run, self.path) as process:
                wait_for_training(run, process)
                time.sleep(1)
                orphans = workers_of(process)
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            while any(running(pid) for pid in orphans):  # they write on for a moment
                time.sleep(0.1)
            for path in [p for p in run.rglob("*") if p.suffix == ".sealed" or p.name == "meter"]:
                path.write_bytes(damage(path.read_bytes()))
                injected += 1
        self.finish(run)
        return self.held_against(run, "state file damaged", injected)

    def checkpoint_flipped(self, flips: int) -> Line:
        """Bits of a checkpoint, one at a time: each must be found."""
        content = seal(self.dice.randbytes(60_000))
        missed = sum(unseal(flip(self.dice)(content)) is not None for _ in range(flips))
        return Line("checkpoint bit flipped", flips, rows_different=missed)

    def pickle_bomb(self) -> Line:
        """Code in the place of a checkpoint, rightly sealed: refused, and not run."""
        mark = self.folder / "bomb went off"
        bomb = pickle.dumps(Bomb(f"touch '{mark}'"), protocol=2)
        try:
            unpack(bomb, torch.device("cpu"))
        except pickle.UnpicklingError:
            pass
        return Line("pickle bomb", 1, rows_different=int(mark.exists()))

    def disk_full(self) -> Line:
        """A file system of 2 MB, filled up in mid-run; then freed."""
        place = self.folder / "small"
        place.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            return Line("disk full (no right to mount here)", 0)
        try:
            run = place / "run"
            part = initmem.load_study(self.path, ["search.draws=1"])
            initmem.run(part, run, local=True)
            ballast = place / "ballast"
            with open(ballast, "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(b"x" * 4096)
                except OSError:
                    pass
            try:
                self.finish(run)
                raise AssertionError("a full disk went unnoticed")
            except UserError as error:
                assert "No space left" in str(error) and "needed" in str(error)
            ballast.unlink()
            self.finish(run)
            return self.held_against(run, "disk full", 1)
        finally:
            subprocess.run(["umount", str(place)], check=True)


def texts(run: Path) -> dict[tuple[object, ...], list[str]]:
    """Network -> its rows, as text, without the columns that may differ."""
    found: dict[tuple[object, ...], list[str]] = {}
    for row in Store(run).rows():
        kept = {name: value for name, value in row.items() if not name.startswith("run.")}
        found.setdefault(tuple(row[name] for name in KEY), []).append(to_text(kept))
    return found


class Bomb:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (self.command,)


def cut_to_nothing(content: bytes) -> bytes:
    return b""


def cut_in_half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def cut_by_a_byte(content: bytes) -> bytes:
    return content[:-1]


def flip(dice: random.Random) -> Callable[[bytes], bytes]:
    def flipped(content: bytes) -> bytes:
        place = dice.randrange(8 * len(content)) if content else 0
        changed = bytearray(content)
        if content:
            changed[place // 8] ^= 1 << place % 8
        return bytes(changed)

    return flipped


def wait_for_training(run: Path, process: subprocess.Popen[bytes]) -> None:
    """Until a meter turns that did not turn before."""
    before = {path: path.read_bytes() for path in run.glob("checkpoints/*/meter")}
    deadline = time.monotonic() + 120
    while process.poll() is None:
        assert time.monotonic() < deadline, said(run)
        now = {path: path.read_bytes() for path in run.glob("checkpoints/*/meter")}
        if any(before.get(path) != content for path, content in now.items()):
            return
        time.sleep(0.02)


def main() -> None:
    text = LONG.replace("steps: 1500", "steps: 4000").replace("draws: 3", "draws: 5")
    text = text.replace("checkpoint_every: 7", "checkpoint_every: 200")
    with tempfile.TemporaryDirectory() as folder:
        chaos = Chaos(Path(folder), text)
        faults: list[Callable[[], Line]] = [
            lambda: chaos.driver_killed(20),
            lambda: chaos.worker(signal.SIGKILL, 0),
            lambda: chaos.worker(signal.SIGSTOP, 60),
            chaos.raylet_killed,
            lambda: chaos.signalled(signal.SIGINT),
            lambda: chaos.signalled(signal.SIGTERM),
            lambda: chaos.signalled(signal.SIGHUP),
            chaos.files_damaged,
            lambda: chaos.checkpoint_flipped(1500),
            chaos.pickle_bomb,
            chaos.disk_full,
        ]
        lines = []
        for fault in faults:
            clock = time.monotonic()
            line = fault()
            line.seconds = round(time.monotonic() - clock, 1)
            lines.append(line)
            print(line, flush=True)
    table = pd.DataFrame(lines, columns=[field.name for field in fields(Line)])
    print(table.to_string(index=False))
    bad = table[["rows_lost", "rows_doubled", "rows_different"]].to_numpy().sum()
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
