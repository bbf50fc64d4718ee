"""Files appear whole or not at all, and what goes wrong is said with its path."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from initmem.records.files import LocalFiles, files_at
from initmem.study.spec import UserError


@pytest.mark.parametrize("kill_at", range(4))
def test_a_kill_between_any_two_steps_leaves_the_old_file_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill_at: int
) -> None:
    files = LocalFiles(tmp_path)
    files.write("a/file", b"old")
    calls = 0

    def counting(act: object) -> object:
        def wrapped(*args: object, **more: object) -> object:
            nonlocal calls
            if calls == kill_at:
                raise KeyboardInterrupt  # as a kill: nothing after it is done
            calls += 1
            return act(*args, **more)  # type: ignore[operator]  # any of os

        return wrapped

    for name in ("fsync", "replace", "open"):
        monkeypatch.setattr(os, name, counting(getattr(os, name)))
    with pytest.raises(KeyboardInterrupt):
        files.write("a/file", b"new")
    monkeypatch.undo()
    assert files.read("a/file") == (b"old" if kill_at < 2 else b"new")
    assert files.names("a") == ["file"], "what is left of a write is hidden"


def test_names_and_removal(tmp_path: Path) -> None:
    files = files_at(tmp_path)
    assert files.read("x") is None and files.names("nowhere") == []
    files.write("r/b", b"2")
    files.write("r/a", b"1")
    assert files.names("r") == ["a", "b"]
    files.rename("r/a", "r/c")
    files.remove_file("r/b")
    assert files.names("r") == ["c"] and files.read("r/c") == b"1"
    files.remove("r")
    files.remove("r")
    assert files.names("r") == []


def test_a_full_disk_is_said_with_path_and_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LocalFiles(tmp_path)
    files.write("file", b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        UserError, match=r"file: file: cannot be written: No space .*3 bytes needed"
    ):
        files.write("file", b"new")
    monkeypatch.undo()
    assert files.read("file") == b"old" and list(tmp_path.iterdir()) == [tmp_path / "file"]


@pytest.mark.parametrize(
    "address",
    [
        "s3://key:secret@lab/runs",
        "s3://key@lab/runs",
        "s3://lab/runs?secret_key=hush",
        "s3://lab/runs?access_key=hush&region=x",
    ],
)
def test_credentials_in_an_address_are_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(UserError, match="carries credentials") as caught:
        files_at(address)
    assert "secret@" not in str(caught.value) and "hush" not in str(caught.value)


def test_an_address_that_is_none() -> None:
    with pytest.raises(UserError, match=r"ftp://\.\.\.: storage: no address of a bucket"):
        files_at("ftp://x/y")
