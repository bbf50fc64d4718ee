"""One driver a run: the second is refused, a dead one is taken over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from initmem.records.files import LocalFiles
from initmem.study.spec import UserError
from initmem.tune.owner import FILE, owner_of, owning


def test_a_second_driver_is_refused_with_host_pid_and_start(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    assert owner_of(files) is None
    with owning(files):
        assert set(owner_of(files) or {}) == {"host", "pid", "since"}
        said = rf"another driver runs it \(host .*, pid {os.getpid()}, since 20.* UTC\)"
        with pytest.raises(UserError, match=said), owning(files):
            pass
    assert owner_of(files) is None


def test_a_driver_that_died_is_taken_over_and_said_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = (
        "import os; from initmem.records.files import LocalFiles; "
        "from initmem.tune.owner import owning; "
        f"held = owning(LocalFiles(__import__('pathlib').Path({str(tmp_path)!r}))); "
        "held.__enter__(); "
        "os.kill(os.getpid(), 9)"
    )
    dead = subprocess.run([sys.executable, "-c", code], check=False)
    assert dead.returncode == -9
    assert owner_of(LocalFiles(tmp_path)) is None
    with owning(LocalFiles(tmp_path)):
        assert "taken over from a driver that died (host " in capsys.readouterr().err
    with owning(LocalFiles(tmp_path)):
        assert capsys.readouterr().err == "", "the last one ended in order"


@pytest.mark.parametrize("torn", [b"", b'{"host": "a", "pi', b"[1]", b"\xff"])
def test_a_torn_signature_stops_nobody(tmp_path: Path, torn: bytes) -> None:
    (tmp_path / FILE).write_bytes(torn)
    with owning(LocalFiles(tmp_path)):
        assert json.loads((tmp_path / FILE).read_bytes())["pid"] == os.getpid()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"owner\.json: file: cannot be written"):
        with owning(LocalFiles(tmp_path / "file" / "run")):
            pass
