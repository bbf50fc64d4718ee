"""Storage that is full, read-only or away."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import initmem
from initmem.records.store import Store
from initmem.study.spec import UserError
from tests.buckets import ENVIRONMENT, serving
from tests.chaos.scene import Line, Scene, wait_for_training
from tests.tune.driving import driver, said


def disk_full(scene: Scene) -> Line:
    """A file system of 30 MB, filled up while Ray trains; then freed."""
    with file_system(scene.folder / "small", "30m") as place:
        if place is None:
            return Line("disk full (no right to mount here)", 0)
        run, ballast = place / "run", place / "ballast"
        with driver(run, scene.path) as process:
            wait_for_training(run, process)
            fill(ballast)
            assert process.wait(timeout=120) == 2, said(scene.path)
        told = said(scene.path)
        need = (
            r"\.sealed: file: cannot be written: No space left .*\([\d,]+ bytes needed, 0 free\)"
        )
        assert re.search(need, told), told
        kept = len(Store(run).rows())
        ballast.unlink()
        scene.finish(run)
        assert len(Store(run).rows()) > kept
        return scene.held_against(run, "disk of 30 MB full", 1)


def folder_read_only(scene: Scene) -> Line:
    """A file system that becomes read-only between two runs."""
    with file_system(scene.folder / "locked", "30m") as place:
        if place is None:
            return Line("read-only folder (no right to mount here)", 0)
        run = place / "run"
        initmem.run(initmem.load_study(scene.path, ["search.draws=1"]), run, local=True)
        remount(place, "ro")
        try:
            scene.finish(run)
            raise AssertionError("a read-only folder went unnoticed")
        except UserError as error:
            assert re.search(rf"{run}/.*: cannot be written: Read-only", str(error)), error
        remount(place, "rw")
        scene.finish(run)
        return scene.held_against(run, "read-only folder", 1)


def server_away(scene: Scene) -> Line:
    """A run in a bucket, whose server does not answer for ten seconds in mid-run."""
    os.environ |= ENVIRONMENT
    with serving(scene.folder) as bucket:
        run = bucket.address("runs/tiny")
        with driver(run, scene.path) as process:
            deadline = time.monotonic() + 120
            while not Store(run).names():
                assert time.monotonic() < deadline and process.poll() is None, said(scene.path)
                time.sleep(0.2)
            bucket.process.send_signal(signal.SIGSTOP)
            time.sleep(10)
            bucket.process.send_signal(signal.SIGCONT)
            assert process.wait(timeout=400) == 0, said(scene.path)
        return scene.held_against(run, "S3 server away for 10 s", 1)


@contextmanager
def file_system(place: Path, size: str) -> Iterator[Path | None]:
    """A small file system of its own, or None where one may not be mounted."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def remount(place: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(place)], check=True)


def fill(ballast: Path) -> None:
    """Write until nothing more fits."""
    with open(ballast, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
