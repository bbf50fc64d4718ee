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
from pathlib import Path
from typing import Protocol, TypeVar

from pyarrow import fs

from initmem.study.spec import UserError

PATIENCE_S = 120.0
"""How long a bucket that does not answer is asked again."""

T = TypeVar("T")


class Files(Protocol):
    """The files of a run, by names such as records/917b7fc76a20.json."""

    address: str

    def read(self, name: str) -> bytes | None:
        """The content, or None if there is no such file."""

    def write(self, name: str, content: bytes) -> None:
        """Write so that a kill at any moment leaves the old file or the new one, whole."""

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, without it, sorted; hidden ones left out."""

    def rename(self, name: str, new: str) -> None: ...

    def remove(self, folder: str) -> None:
        """Remove a folder with its files, if it is there."""

    def remove_file(self, name: str) -> None: ...


def files_at(address: str | Path) -> Files:
    """The files below a path, or an address s3://bucket/path[?region=...&endpoint_override=...].

    Raises UserError for an address that cannot be used, or that carries a password.
    """
    text = str(address)
    if "://" not in text:
        return LocalFiles(Path(text).absolute())
    if re.search(r"//[^/?]*@|(secret|access|token)_?key=", text):
        shown = re.sub(r"//[^/?]*@", "//...@", text.partition("?")[0])
        raise UserError(
            f"{shown}: storage: carries credentials; they come from the environment "
            f"(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or an instance profile)"
        )
    try:
        system, root = fs.FileSystem.from_uri(text)
    except (ValueError, OSError) as error:
        first = str(error).splitlines()[0]
        raise UserError(f"{text}: storage: no address of a bucket: {first}") from None
    return BucketFiles(text, system, root)


class LocalFiles:
    def __init__(self, folder: Path) -> None:
        self.folder, self.address = folder, str(folder)

    def read(self, name: str) -> bytes | None:
        try:
            return (self.folder / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._said(error, name, "cannot be read") from None

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
            aside.unlink(missing_ok=True) if aside.parent.is_dir() else None
            raise self._said(error, name, "cannot be written", len(content)) from None

    def names(self, folder: str) -> list[str]:
        path = self.folder / folder
        if not path.is_dir():
            return []
        return sorted(e.name for e in os.scandir(path) if e.is_file() and e.name[0] != ".")

    def rename(self, name: str, new: str) -> None:
        try:
            os.replace(self.folder / name, self.folder / new)
        except OSError as error:
            raise self._said(error, name, "cannot be renamed") from None

    def remove(self, folder: str) -> None:
        shutil.rmtree(self.folder / folder, ignore_errors=True)

    def remove_file(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    def _said(self, error: OSError, name: str, what: str, need: int = 0) -> UserError:
        room = ""
        if error.errno == errno.ENOSPC:
            free = shutil.disk_usage(self.folder).free
            room = f" ({need:,} bytes needed, {free:,} free); free some, the same command goes on"
        return UserError(f"{self.folder / name}: file: {what}: {error.strerror}{room}")


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
                if time.monotonic() > deadline:
                    place = f"{self.address.partition('?')[0]}/{name}"
                    raise UserError(f"{place}: storage: does not answer: {first}") from None
                if not said:
                    print(f"{name}: storage: asking again: {first}", file=sys.stderr, flush=True)
                    said = True
                time.sleep(1)


def seal(content: bytes) -> bytes:
    """The content behind a line with its SHA-256."""
    return hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def unseal(sealed: bytes) -> bytes | None:
    """The content, or None if a bit of it is not as written."""
    checksum, _, content = sealed.partition(b"\n")
    return content if hashlib.sha256(content).hexdigest().encode() == checksum else None
