"""One driver a run. Here the kernel frees the lock when its process ends, however it ends; in a
bucket the owner signs again every half minute."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from initmem.records.files import Files, LocalFiles, warn
from initmem.study.spec import UserError, cut, one_line

FILE = "owner.json"
SIGN_EVERY_S = 30.0
DEAD_AFTER_S = 120.0
"""An owner in a bucket that did not sign for so long is dead."""

Owner = dict[str, Any]

_FITS: dict[str, Callable[[Any], bool]] = {
    "host": lambda host: isinstance(host, str),
    "pid": lambda pid: isinstance(pid, int) and 0 < pid < 2**31,
    "since": lambda since: isinstance(since, str),
    "signed": lambda signed: isinstance(signed, float),
}


def owner_of(files: Files) -> Owner | None:
    """Host, pid and start of the driver that runs this folder, or None."""
    if isinstance(files, LocalFiles):
        return _locked(files)
    owner = _read(files)
    return None if owner is None or _is_dead(owner) else owner


def signature(files: Files) -> Owner:
    """Host, pid and start of who last signed this run, as one sees it from here."""
    return {key: value for key, value in (_read(files) or {}).items() if key != "signed"}


@contextmanager
def owning(files: Files) -> Iterator[None]:
    """Hold the run. Raises UserError, naming the other, if another driver does."""
    hold = _hold_folder if isinstance(files, LocalFiles) else _hold_bucket
    with hold(files):
        yield


@contextmanager
def _hold_folder(files: Files) -> Iterator[None]:
    assert isinstance(files, LocalFiles)
    try:
        files.folder.mkdir(parents=True, exist_ok=True)
        file = open(files.folder / FILE, "a+b", buffering=0)
    except OSError as error:
        raise files.said(error, FILE, "cannot be written") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(_refusal(files, _locked(files) or {})) from None
        _take_over(_read(files))
        file.truncate(0)
        with suppress(OSError):  # a full disk: the lock holds unsigned, the next write says why
            file.write(json.dumps(_signature()).encode())
            os.fsync(file.fileno())  # nodes that share the folder look for it, see nodes.py
        try:
            yield
        finally:
            file.truncate(0)  # an owner that ended in order, well or not, leaves an empty file


@contextmanager
def _hold_bucket(files: Files) -> Iterator[None]:
    owner = _read(files)
    if owner is not None and not _is_dead(owner):
        raise UserError(_refusal(files, owner))
    _take_over(owner)
    ended = threading.Event()
    mine = _signature()

    def sign() -> None:
        files.write(FILE, json.dumps({**mine, "signed": time.time()}).encode())

    def keep_signing() -> None:
        while not ended.wait(SIGN_EVERY_S):
            sign()

    sign()
    thread = threading.Thread(target=keep_signing, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        files.remove_file(FILE)


def _locked(files: LocalFiles) -> Owner | None:
    try:
        with open(files.folder / FILE, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return _read(files) or {}
    except OSError:
        pass
    return None


def _read(files: Files) -> Owner | None:
    try:
        owner = json.loads(files.read(FILE) or b"null")
    except (ValueError, RecursionError):  # torn: its writer died in the middle
        return None
    if not isinstance(owner, dict):
        return None
    return {key: owner[key] for key, fits in _FITS.items() if fits(owner.get(key))}


def _is_dead(owner: Owner) -> bool:
    here = owner.get("host") == socket.gethostname()
    if here and "pid" in owner and owner["pid"] != os.getpid():
        try:
            os.kill(owner["pid"], 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
    return time.time() - owner.get("signed", 0.0) > DEAD_AFTER_S


def _signature() -> Owner:
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return {"host": socket.gethostname(), "pid": os.getpid(), "since": since}


def _refusal(files: Files, owner: Owner) -> str:
    return f"{files.address}: run: another driver runs it ({described(owner)})"


def _take_over(owner: Owner | None) -> None:
    if owner is not None:
        warn(f"taken over from a driver that died ({described(owner)})")


def described(owner: Owner) -> str:
    said = [f"{key} {owner[key]}" for key in ("host", "pid", "since") if key in owner]
    return one_line(cut(", ".join(said), 200))
