"""A head that was started as the cluster files start it lets nobody in without its token: real
processes on the loopback."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

RAY = [sys.executable, "-m", "ray.scripts.scripts", "start"]
SMALL = ["--num-cpus=0", "--num-gpus=0", "--object-store-memory=80000000", "--disable-usage-stats"]
ASK = "import ray; ray.init('{}', log_to_driver=False); print(len(ray.nodes()), 'nodes')"
TOKEN = secrets.token_hex(32)


@dataclass
class Begun:
    process: subprocess.Popen[bytes]
    log: Path

    def end(self) -> tuple[bool, str]:
        """Whether it did what it was to do, and what it said."""
        return self.process.wait(timeout=120) == 0, self.log.read_text()


@dataclass
class Scene:
    folder: Path
    """The home of all its processes, and what they are known by."""
    address: str

    def begin(self, command: list[str], token: str | None) -> Begun:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        mine = {"RAY_NUM_REDIS_GET_RETRIES": "1"}  # 20, a second each, is what a refusal takes
        if token is not None:
            mine |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
        log = self.folder / secrets.token_hex(4)  # a pipe would wait for what stays
        with open(log, "w") as said:
            process = subprocess.Popen(
                command, env={**kept, "HOME": str(self.folder), **mine}, cwd=self.folder,
                stdout=said, stderr=subprocess.STDOUT,
            )  # fmt: skip
        return Begun(process, log)

    def join(self, token: str | None) -> Begun:
        return self.begin([*RAY, f"--address={self.address}", *SMALL], token)

    def ask(self, token: str | None) -> Begun:
        return self.begin([sys.executable, "-c", ASK.format(self.address)], token)

    def end(self) -> None:
        home = f"\0HOME={self.folder}\0".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if home in b"\0" + (process / "environ").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="rt", ignore_cleanup_errors=True) as folder:
        scene = Scene(Path(folder), f"127.0.0.1:{port}")
        here = ["--node-ip-address=127.0.0.1", f"--temp-dir={folder}", "--include-dashboard=false"]
        try:
            head = [*RAY, "--head", f"--port={port}", *here, *SMALL]
            done, said = scene.begin(head, TOKEN).end()
            assert done, said
            yield scene
        finally:
            scene.end()


def test_nobody_comes_in_without_the_token(scene: Scene) -> None:
    """Neither a worker nor a driver, with none or another."""
    for begun in [scene.join(None), scene.join("0" * 64), scene.ask(None)]:
        done, said = begun.end()
        assert not done and "AuthenticationError" in said, said


def test_with_the_token_both_come_in(scene: Scene) -> None:
    done, said = scene.join(TOKEN).end()
    assert done, said
    done, said = scene.ask(TOKEN).end()
    assert done and "2 nodes" in said, said
