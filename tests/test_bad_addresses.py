"""Paths, names and addresses that are none, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.analysis import make
from tests.test_bad_input import LOCAL, READERS, call, refused
from tests.tiny import study

PLACES = {"absent": "no", "file": "file", "below a file": "file/x", "symlink loop": "loop/x",
          "NUL": "a\0b", "long": "x" * 5000, "newline": "a\nb", "no UTF-8": "\udcff",
          "terminal codes": "\x1b[31m"}  # fmt: skip


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_places_that_hold_nothing(tmp_path: Path, place: str) -> None:
    study(tmp_path)
    (tmp_path / "file").write_text("no study")
    (tmp_path / "loop").symlink_to("loop")
    for verb in (*READERS, "validate", "plan", "run"):
        said = r"holds no study|cannot be (read|listed)|a path cannot|must be a mapping"
        refused(said, verb, f"{tmp_path}/{place}", *(["x"] if verb == "rerun" else []))
    if place in ("file", "file/x", "loop/x", "a\0b", "x" * 5000):
        refused("", "run", tmp_path / "tiny.yaml", "--run", f"{tmp_path}/{place}", *LOCAL)
        refused("--data: ", "fetch", "svhn", "--data", f"{tmp_path}/{place}")
    assert {p.name for p in tmp_path.iterdir()} == {"tiny.yaml", "file", "loop"}


@pytest.mark.parametrize("replica", ["", "../study", "/etc/passwd", "a\0b", "a\nb", "x" * 5000])
def test_replicas_that_are_none(tmp_path: Path, replica: str) -> None:
    run = make.run(tmp_path / "run", make.study(tmp_path), rows=1)
    refused("no such replica among its records", "rerun", run, replica)


HUSH = "HuShHuSh"
ADDRESSES = [
    f"s3://key:{HUSH}@lab/x", f"s3://key:a/{HUSH}@lab/x", f"s3://key%3A{HUSH}%40lab/x",
    f"s3://key:{HUSH}%40lab/x", f"s3:/key:{HUSH}@lab/x", f"S3://key:{HUSH}@lab/x",
    f"gs://key:{HUSH}@lab/x", f"s3:///key:{HUSH}@lab/x", f"s3://lab/x?Secret_Key={HUSH}",
    f"s3://lab/x?region=x&session_token={HUSH}", f"s3://lab/x?s%65cret%5Fkey={HUSH}",
    f"s3://lab/x?endpoint_override=http://k:{HUSH}@h", f"s3://lab/x?region={HUSH}@",
    f"s3://lab/x?endpoint_override=http%3A%2F%2Fk%3A{HUSH}%40h", f"s3://lab#k:{HUSH}@/x",
]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_credentials_in_an_address_are_said_by_nobody(tmp_path: Path, address: str) -> None:
    study(tmp_path)
    quoted, tiny = json.dumps(address), tmp_path / "tiny.yaml"
    calls = [call(verb, address, *(["x"] if verb == "rerun" else [])) for verb in READERS]
    calls += [call("run", tiny, "--run", address, *LOCAL), call("plan", address)]
    calls += [
        call("run", tiny, *LOCAL, "--set", f"storage={value}")
        for value in (quoted, f"[{quoted}]", json.dumps(address + "x" * 500))
    ]
    for result in calls:
        assert result.exit_code == 2 and len(result.stderr.splitlines()) == 1
        assert HUSH not in result.output
    assert [p.name for p in tmp_path.iterdir()] == ["tiny.yaml"]
