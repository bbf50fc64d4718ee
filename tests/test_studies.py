"""What the heads of the study files say is what the files ask for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.study_cost import cost
from initmem.study.load import load

PAPER = sorted((Path(__file__).parents[1] / "studies").glob("**/paper/**/*.yaml"))


@pytest.mark.parametrize("path", PAPER, ids=lambda path: f"{path.parents[1].name}-{path.stem}")
def test_the_cost_in_the_head_of_a_paper_study(path: Path) -> None:
    said = re.search(
        r"# Cost: (\S+) operations, (\S+) hours of a GPU at 100 TFLOP/s", path.read_text()
    )
    assert said
    operations = cost(load(path), None).operations
    assert said.groups() == (f"{operations:.1e}", f"{operations / 3.6e17:.1f}")


@pytest.mark.parametrize("path", PAPER, ids=lambda path: f"{path.parents[1].name}-{path.stem}")
def test_a_paper_study_says_what_is_the_papers_and_what_is_ours(path: Path) -> None:
    assert {"# Paper", "# Ours:", "# Cost:"} <= {
        line[:7] for line in path.read_text().splitlines()
    }
