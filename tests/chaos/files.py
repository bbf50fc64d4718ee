"""Files that are cut, flipped, replaced, or half written when their writer dies."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from initmem.records.files import seal, unseal
from initmem.training.checkpoint import unpack
from tests.chaos.scene import Line, Scene, wait_for_training
from tests.tune.driving import driver, running, workers_of


def state_files_damaged(scene: Scene) -> Line:
    """Every state file of a half-finished run, cut at 0, half and last-1 bytes or with one bit
    flipped; after each the run goes on."""
    run = scene.folder / "files"
    injected = 0
    for damage in (cut_to_nothing, cut_in_half, cut_by_a_byte, flip(scene.dice)):
        with driver(run, scene.path) as process:
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
    scene.finish(run)
    return scene.held_against(run, "state file cut or flipped", injected)


def checkpoint_flipped(scene: Scene, flips: int) -> Line:
    """Bits of a checkpoint, one at a time: each must be found."""
    content = seal(scene.dice.randbytes(60_000))
    missed = sum(unseal(flip(scene.dice)(content)) is not None for _ in range(flips))
    return Line("bit of a checkpoint flipped", flips, bits_different=missed)


def pickle_bomb(scene: Scene) -> Line:
    """Code in the place of a checkpoint, rightly sealed: refused, and not run."""
    mark = scene.folder / "bomb went off"
    bomb = pickle.dumps(Bomb(f"touch '{mark}'"), protocol=2)
    assert unpack(bomb) is None
    return Line("pickle bomb for a checkpoint", 1, bits_different=int(mark.exists()))


WRITER = """
import os, sys
from initmem.records.files import files_at, seal
files, die_at, calls = files_at(sys.argv[1]), int(sys.argv[2]), 0
def dying(act):
    def wrapped(*args, **more):
        global calls
        if calls == die_at:
            os.kill(os.getpid(), 9)
        calls += 1
        return act(*args, **more)
    return wrapped
for name in ("open", "write", "fsync", "replace", "close"):
    setattr(os, name, dying(getattr(os, name)))
import builtins
builtins.open = dying(builtins.open)
files.write("state.sealed", seal(b"new" * 5000))
"""


def killed_in_a_write(scene: Scene) -> Line:
    """SIGKILL of a writer before each of its steps: the old file or the new is there, whole."""
    folder = scene.folder / "write"
    folder.mkdir()
    state = folder / "state.sealed"
    unreadable = died = 0
    for step in range(12):
        state.write_bytes(seal(b"old"))
        command = [sys.executable, "-c", WRITER, str(folder), str(step)]
        if subprocess.run(command, check=False).returncode != -signal.SIGKILL:
            break
        died += 1
        unreadable += unseal(state.read_bytes()) not in (b"old", b"new" * 5000)
    assert died >= 5, "temp, fsync, rename, open and fsync of the folder"
    return Line("SIGKILL between steps of a write", died, bits_different=unreadable)


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
