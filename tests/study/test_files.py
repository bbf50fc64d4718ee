"""Files as a whole: what is read, what is not, and what reading them costs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from initmem.study.load import load
from initmem.study.spec import StudyError, UserError
from initmem.study.yaml_text import MAX_BYTES
from tests.study.helpers import STUDY, faults

STUDIES = Path(__file__).parents[2] / "studies"


def test_the_name_is_the_files_unless_given(tmp_path: Path) -> None:
    path = tmp_path / "my-study.yaml"
    path.write_text(STUDY)
    assert load(path).name == "my-study"
    assert load(str(path), ["name=other"]).name == "other"
    path = path.rename(tmp_path / "my study.yaml")
    with pytest.raises(StudyError, match=r"my study.yaml:1: name: String must match pattern"):
        load(path)


@pytest.mark.parametrize("path", sorted(STUDIES.rglob("*.yaml")), ids=lambda p: p.stem)
def test_the_studies_of_the_repository_load(path: Path) -> None:
    load(path)


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "- 1\n- 2\n", "5\n", "text\n"])
def test_a_file_that_is_no_mapping(tmp_path: Path, text: str) -> None:
    assert faults(tmp_path, text) == ["s.yaml:1: study: must be a mapping of fields"]


def test_an_empty_mapping(tmp_path: Path) -> None:
    found = [line.rpartition(":")[0] for line in faults(tmp_path, "{}\n")]
    places = ("recipe", "axes", "data", "model", "init", "optim")
    assert [line for line in found if "memory" not in line] == [f"s.yaml:1: {p}" for p in places]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "none.yaml"
    with pytest.raises(UserError) as caught:
        load(missing)
    assert str(caught.value) == f"{missing}: study: cannot be read: No such file or directory"
    with pytest.raises(UserError) as caught:
        load(tmp_path)
    assert str(caught.value) == f"{tmp_path}: study: cannot be read: Is a directory"


def test_a_large_file_is_refused_at_once(tmp_path: Path) -> None:
    start = time.perf_counter()
    found = faults(tmp_path, STUDY + "# more\n" * 300_000)
    assert time.perf_counter() - start < 1
    assert found == [f"s.yaml:1: yaml: larger than a study file may be ({MAX_BYTES} bytes)"]


def test_loading_a_study_imports_no_heavy_library() -> None:
    code = (
        "import sys, initmem.study.load, initmem.study.plan, initmem.study.size\n"
        f"initmem.study.load.load({str(STUDIES / 'digits.yaml')!r})\n"
        "assert not {'torch', 'ray', 'optuna', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
