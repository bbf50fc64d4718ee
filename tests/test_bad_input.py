"""Bad folders, files, names and addresses, through the command line: one line that names the
thing, status 2 where nothing can be done, nothing changed by who only reads, never a traceback."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from analysis.__main__ import main as analysis
from initmem.cli import main
from initmem.records.files import LocalFiles, seal, unseal
from initmem.tune.owner import owning
from tests.analysis import make
from tests.chaos.storage import file_system, remount
from tests.tiny import TINY, study

READERS = ("status", "export", "analysis", "rerun")
LOCAL = ("--local", "--set", "search.draws=1")


def call(verb: object, *words: object) -> Result:
    """A verb of `initmem`, or `python -m analysis`."""
    command = (analysis, []) if verb == "analysis" else (main, [str(verb)])
    result = CliRunner().invoke(command[0], [*command[1], *map(str, words)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def refused(said: str, verb: object, *words: object) -> None:
    result = call(verb, *words)
    assert result.exit_code == 2 and not result.stdout, result.output
    assert len(result.stderr.splitlines()) == 1 and re.search(said, result.stderr), result.stderr


def content(folder: Path) -> dict[Path, Any]:
    return {p: p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    study(folder)
    assert call("run", folder / "tiny.yaml", "--run", folder / "run", *LOCAL).exit_code == 0
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A run of four replicas, of the study in tiny.yaml beside it."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return tmp_path / "run"


@pytest.fixture
def on(run: Path) -> Iterator[Callable[..., Result]]:
    """A verb on the run; it must leave everything as it is."""
    replica = record(run).stem

    def reading(verb: str) -> Result:
        before = content(run)
        result = call(verb, run, *([replica] if verb == "rerun" else []))
        assert content(run) == before or (verb in ("export", "analysis") and not result.exit_code)
        return result

    yield reading


def record(run: Path) -> Path:
    return min((run / "records").glob("*.sealed"))


def again(run: Path) -> Result:
    return call("run", run.parent / "tiny.yaml", "--run", run, *LOCAL)


def told(record: Path) -> dict[str, Any]:
    """What a record says of its replica, but not of the run."""
    row = json.loads(unseal(record.read_bytes()) or b"")
    return {name: value for name, value in row.items() if not name.startswith("run.")}


def change(path: Path, **fields: Any) -> None:
    """Fields of a sealed file, which gets the right checksum."""
    old = json.loads(unseal(path.read_bytes()) or b"")
    path.write_bytes(seal(json.dumps({**old, **fields}).encode()))


@pytest.mark.parametrize(
    ("field", "value"),
    [("recipe", {}), ("recipe", {"optim.nope": 1}), ("memory_axis", "x"), ("seeds", 10**30),
     ("axes", {"init.scale": [1, "x"]}), ("axes", {}), ("storage", "s3://k:s@b"), ("more", 1)],
)  # fmt: skip
def test_a_study_of_another_version(run: Path, on: Any, field: str, value: Any) -> None:
    change(run / "study.sealed", **{field: value})
    for result in (*map(on, READERS), again(run)):
        assert result.exit_code == 2 and len(result.stderr.splitlines()) == 1
        assert re.search(r"study\.sealed: run: of another version: \S+: .*; use", result.stderr)


@pytest.mark.parametrize(
    ("column", "value"),
    [("optim.lr", "0.1"), ("optim.lr", -1.0), ("optim.lr", None), ("model.name", "vgg"),
     ("final.test_loss", [1]), ("final.test_loss", True), ("final.test_loss", float("nan")),
     ("steps", 1.5), ("steps", 10**30), ("draw", "0"), ("seed", [0]), ("arm", 1), ("state", "x"),
     ("curve", [{"step": "x"}]), ("audit", [1]), ("untouched", [None]), ("error", "\ud800"),
     ("threads", 10**6), ("selected.test_predictions", 7), ("memory_axis", "x"),
     ("replica", "0" * 12)],
)  # fmt: skip
def test_a_record_of_another_version(run: Path, on: Any, column: str, value: Any) -> None:
    change(record(run), **{column: value})
    said = rf"record: not of this replica, or of another version: {column}: .*; `initmem run`"
    result = on("status")
    assert result.exit_code == 0 and "3 of 4 replicas" in result.stdout
    assert len(result.stderr.splitlines()) == 1 and re.search(said, result.stderr)


def test_a_strange_record_is_left_out_and_trained_again(run: Path, on: Any) -> None:
    strange, whole = record(run), told(record(run))
    change(strange, **{"optim.lr": "0.1"})
    assert [on(verb).exit_code for verb in ("export", "rerun")] == [0, 2]
    assert "1 trained" in again(run).stdout and told(strange) == whole


def test_records_of_two_studies(run: Path, on: Any, tmp_path: Path) -> None:
    other = make.run(tmp_path / "other", make.study(tmp_path), rows=8)
    shutil.copytree(other / "records", run / "records", dirs_exist_ok=True)
    said = on("status").stdout
    assert "4 of 4 replicas" in said and "8 more rows in the folder, of no replica of this" in said
    assert "all 4 replicas are trained" in again(run).stdout


def test_the_study_of_another_run(run: Path, on: Any, tmp_path: Path) -> None:
    make.run(tmp_path / "other", make.study(tmp_path), rows=0)
    shutil.copy(tmp_path / "other/study.sealed", run)
    refused("has no rows yet, its 4 rows are of another study", "analysis", run)
    assert "holds rows of another study:" in again(run).stderr
    (run / "study.sealed").unlink()
    text = TINY.replace("scale: [1, 2]", "scale: [1, 2]\n  optim.batch: [20, 10]")
    study(tmp_path, text=text.replace(", batch: 20", "") + "memory_axis: optim.batch")
    assert "memory_axis: init.scale -> optim.batch" in again(run).stderr


FOLDERS = {  # in the place of a file: what a verb then says
    "study.sealed": ("status", "study.sealed: run: damaged; `initmem run STUDY"),
    "RECORD": ("rerun", "sealed: record: damaged; `initmem run` trains"),
    "owner.json": ("run", "owner.json: file: cannot be written: Is a directory; m"),
    "checkpoints/REPLICA/meter": ("run", "meter: file: cannot be written: Is a directory; m"),
    "rows.parquet": ("export", "rows.parquet: file: cannot be written: Is a directory; m"),
    "report/cells.parquet": ("analysis", "cells.parquet: file: cannot be written: Is a directory"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_in_the_place_of_a_file(run: Path, on: Any, name: str) -> None:
    replica = record(run).stem
    path = run / name.replace("REPLICA", replica).replace("RECORD", f"records/{replica}.sealed")
    path.unlink(missing_ok=True)
    (path / "something").mkdir(parents=True)
    verb, said = FOLDERS[name]
    if verb == "run":
        (run / f"records/{replica}.sealed").unlink()
    result = again(run) if verb == "run" else on(verb)
    assert result.exit_code == 2 and len(result.stderr.splitlines()) == 1
    assert said in result.stderr and (path / "something").is_dir()
    if "damaged" in said:
        assert again(run).exit_code == 0 and "4 of 4" in on("status").stdout
        assert path.with_suffix(".damaged").is_dir()


@pytest.mark.parametrize("name", ["records", "checkpoints"])
@pytest.mark.parametrize("what", ["file", "loop"])
def test_a_file_in_the_place_of_a_folder(run: Path, name: str, what: str) -> None:
    shutil.rmtree(run / name, ignore_errors=True)
    (run / name).write_text("") if what == "file" else (run / name).symlink_to(name)
    shutil.rmtree(run / "records") if name == "checkpoints" else None
    assert re.search(f"{name}.*: file: cannot be listed: .*; m", again(run).stderr)


class Bomb:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def test_nothing_of_a_run_is_unpickled(run: Path, on: Any, tmp_path: Path) -> None:
    bomb, replica = pickle.dumps(Bomb(tmp_path / "mark"), protocol=2), record(run).stem
    whole = told(record(run))
    for name in ("owner.json", "rows.parquet", "report/cells.parquet"):
        LocalFiles(run).write(name, bomb)
    LocalFiles(run).write(f"checkpoints/{replica}/0000000007.sealed", seal(bomb))
    record(run).write_bytes(seal(bomb))
    for verb in READERS:
        on(verb)
    result = again(run)
    assert "0000000007.sealed: checkpoint: of another replica, version or" in result.stderr
    assert result.exit_code == 0 and not (tmp_path / "mark").exists()
    assert told(record(run)) == whole


def test_a_read_only_run(run: Path, tmp_path: Path) -> None:
    with file_system(tmp_path / "mounted", "30m") as place:
        if place is None:
            pytest.skip("no right to mount here")
        shutil.copytree(run, place / "run")
        remount(place, "ro")
        assert call("status", place / "run").exit_code == 0
        for verb in ("export", "analysis"):
            refused("cannot be written: Read-only", verb, place / "run")
        again = ("run", tmp_path / "tiny.yaml", "--run", place / "new", *LOCAL)
        refused("owner.json: file: cannot be written: Read-only file system; mend", *again)


def test_a_run_that_is_running(run: Path, on: Any) -> None:
    max((run / "records").iterdir()).unlink()
    with owning(LocalFiles(run)):
        assert f"running: host {os.uname().nodename}, pid {os.getpid()}" in on("status").stdout
        assert on("export").exit_code == on("rerun").exit_code == 0
        assert "run: another driver runs it" in again(run).stderr
