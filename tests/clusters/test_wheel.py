"""`make wheel` makes what every cluster installs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.clusters.files import ROOT


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is made of a copy of this checkout, with the environment of these tests."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("Makefile", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy)
    for name in ("initmem", "analysis"):
        shutil.copytree(ROOT / name, copy / name)
    command = ["make", "--silent", "-o", ".venv/installed", "wheel", f"BIN={sys.prefix}/bin"]
    subprocess.run(command, cwd=copy, check=True, capture_output=True)
    return copy / "dist"


def test_the_wheel_holds_what_runs_and_reports(dist: Path) -> None:
    (wheel,) = dist.glob("initmem-*-py3-none-any.whl")
    there = set(zipfile.ZipFile(wheel).namelist())
    for top in ("initmem", "analysis"):
        for path in (ROOT / top).rglob("*"):
            if path.suffix in {".py", ".html", ".txt", ".typed"}:
                assert str(path.relative_to(ROOT)) in there
    assert (
        not {name.split("/")[0] for name in there}
        - {"initmem", "analysis"}
        - {name.split("/")[0] for name in there if ".dist-info/" in name}
    )


def test_versions_are_those_that_are_tested_here(dist: Path) -> None:
    lines = (dist / "versions.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines)
    assert pinned["ray"] == version("ray") and "initmem" not in pinned
    assert pinned["torch"] == version("torch").partition("+")[0], "CPU and CUDA wheels alike"
    assert all(re.fullmatch(r"[\w.-]+==[\w.!-]+", line) for line in lines)
