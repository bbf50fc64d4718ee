"""Where a run lies: a folder of this machine, or a bucket. Files appear whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

from pyarrow import fs

from initmem.study.address import below, is_path, refusal
from initmem.study.spec import UserError, one_line

SEALED = ".sealed"
"""The end of the names of files that hold their own checksum, see `seal`."""

PATIENCE_S = 120.0
"""How long a bucket that does not answer is asked again."""

_FINAL = re.compile(
    "NO_SUCH_BUCKET|ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|EXPIRED_TOKEN"
)
"""Answers of a bucket that stay the same however often it is asked."""

T = TypeVar("T")


class Files(Protocol):
    """The files of a run, by names such as records/917b7fc76a20.json."""

    address: str

    def read(self, name: str) -> bytes | None:
        """The content, or None if there is no such file; a folder in its place reads as empty."""

    def write(self, name: str, content: bytes) -> None:
        """Write so that a kill at any moment leaves the old file or the new one, whole."""

    def names(self, folder: str) -> list[str]:
        """The names of what is in a folder, without it, sorted; hidden ones left out."""

    def rename(self, name: str, new: str) -> None: ...

    def remove(self, folder: str) -> None:
        """Remove a folder with its files, if it is there."""

    def remove_file(self, name: str) -> None: ...


def files_at(address: str | Path) -> Files:
    """The files below a path, or an address s3://bucket/path[?region=...&endpoint_override=...].

    Raises UserError for an address that cannot be used, or that carries a password.
    """
    text = str(address)
    if wrong := refusal(text):
        place = text if is_path(text) else text.partition(":")[0] + "://..."
        raise UserError(f"{place}: storage: {wrong}")
    if is_path(text):
        return LocalFiles(Path(text).absolute())
    try:
        system, root = fs.FileSystem.from_uri(text)
    except (ValueError, OSError) as error:
        first = str(error).splitlines()[0]
        raise UserError(f"{text}: storage: cannot be used: {first}") from None
    return BucketFiles(text, system, root)


class LocalFiles:
    def __init__(self, folder: Path) -> None:
        self.folder, self.address = folder, str(folder)

    def read(self, name: str) -> bytes | None:
        try:
            return (self.folder / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except IsADirectoryError:
            return b""
        except OSError as error:
            raise self.said(error, name, "cannot be read") from None

    def write(self, name: str, content: bytes) -> None:
        path = self.folder / name
        aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(aside, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, path)
            folder = os.open(path.parent, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
        except OSError as error:
            with suppress(OSError):
                aside.unlink()
            raise self.said(error, name, "cannot be written", len(content)) from None

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(n for n in os.listdir(self.folder / folder) if n[0] != ".")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self.said(error, folder, "cannot be listed") from None

    def rename(self, name: str, new: str) -> None:
        try:
            os.replace(self.folder / name, self.folder / new)
        except OSError as error:
            raise self.said(error, name, "cannot be renamed") from None

    def remove(self, folder: str) -> None:
        shutil.rmtree(self.folder / folder, ignore_errors=True)

    def remove_file(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    def said(self, error: OSError, name: str, what: str, need: int = 0) -> UserError:
        """What the system answered, with the file and the way out."""
        way = "; mend it or move it away, or name another folder"
        if error.errno == errno.ENOSPC:
            free = shutil.disk_usage(self.folder).free
            way = f" ({need:,} bytes needed, {free:,} free); free some, the same command goes on"
        return UserError(f"{self.folder / name}: file: {what}: {error.strerror}{way}")


class BucketFiles:
    """An object is there when its upload ended, so that a write needs no renaming. A server that
    does not answer is asked again."""

    def __init__(self, address: str, system: fs.FileSystem, root: str) -> None:
        self.address, self.system, self.root = address, system, root

    def read(self, name: str) -> bytes | None:
        def get() -> bytes | None:
            try:
                with self.system.open_input_stream(f"{self.root}/{name}") as stream:
                    return bytes(stream.read())
            except FileNotFoundError:
                return None

        return self._patiently(get, name)

    def write(self, name: str, content: bytes) -> None:
        def put() -> None:
            with self.system.open_output_stream(f"{self.root}/{name}") as stream:
                stream.write(content)

        self._patiently(put, name)

    def names(self, folder: str) -> list[str]:
        selector = fs.FileSelector(f"{self.root}/{folder}", allow_not_found=True)
        found = self._patiently(lambda: self.system.get_file_info(selector), folder)
        return sorted(f.base_name for f in found if f.is_file and f.base_name[0] != ".")

    def rename(self, name: str, new: str) -> None:
        move = self.system.move
        self._patiently(lambda: move(f"{self.root}/{name}", f"{self.root}/{new}"), name)

    def remove(self, folder: str) -> None:
        def delete() -> None:
            try:
                self.system.delete_dir(f"{self.root}/{folder}")
            except FileNotFoundError:
                pass

        self._patiently(delete, folder)

    def remove_file(self, name: str) -> None:
        self._patiently(lambda: self.system.delete_file(f"{self.root}/{name}"), name)

    def _patiently(self, act: Callable[[], T], name: str) -> T:
        deadline = time.monotonic() + PATIENCE_S
        said = False
        while True:
            try:
                return act()
            except OSError as error:
                first = str(error).splitlines()[0]
                place = below(self.address, name)
                if _FINAL.search(first):
                    raise UserError(f"{place}: storage: refuses: {first}") from None
                if time.monotonic() > deadline:
                    raise UserError(f"{place}: storage: does not answer: {first}") from None
                if not said:
                    warn(f"{name}: storage: asking again: {first}")
                    said = True
                time.sleep(1)


def warn(text: str) -> None:
    """A line on stderr."""
    print(one_line(text), file=sys.stderr, flush=True)


def seal(content: bytes) -> bytes:
    """The content behind a line with its SHA-256."""
    return hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def unseal(sealed: bytes) -> bytes | None:
    """The content, or None if a bit of it is not as written."""
    checksum, _, content = sealed.partition(b"\n")
    return content if hashlib.sha256(content).hexdigest().encode() == checksum else None
