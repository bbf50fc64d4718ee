"""One driver a run folder. The kernel frees the lock when its process ends, however it ends."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from initmem.study.spec import UserError

FILE = "owner.json"


def owner_of(folder: Path) -> dict[str, Any] | None:
    """Host, pid and start of the driver that runs this folder, or None."""
    try:
        with open(folder / FILE, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                owner: dict[str, Any] = json.loads(file.read() or b"{}")
                return owner
    except FileNotFoundError:
        pass
    return None


@contextmanager
def owning(folder: Path) -> Iterator[None]:
    """Hold the folder. Raises UserError, naming the other, if another driver does."""
    with open(folder / FILE, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = ", ".join(f"{key} {value}" for key, value in (owner_of(folder) or {}).items())
            raise UserError(f"{folder}: run: another driver runs it ({who})") from None
        file.truncate(0)
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        json.dump({"host": socket.gethostname(), "pid": os.getpid(), "since": since}, file)
        file.flush()
        yield
