"""What the README shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import initmem
from initmem.cli import main
from initmem.study.load import load
from initmem.study.recipe import variants
from initmem.study.spec import StudyError

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def block(language: str) -> str:
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)[0]


def test_the_study_of_the_readme_loads(tmp_path: Path) -> None:
    path = tmp_path / "readme.yaml"
    path.write_text(block("yaml"))
    assert len(load(path).axes["init.scale"]) == 4


def test_the_fault_of_the_readme_is_what_is_said(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(block("yaml").replace("width", "widht"))
    with pytest.raises(StudyError) as caught:
        load(path)
    command, said = block("console").strip().split("\n", 1)
    assert command == "$ initmem validate bad.yaml"
    assert str(caught.value).replace(f"{tmp_path}/", "") == said


def test_every_verb_is_listed_and_no_other() -> None:
    listed = set(re.findall(r"^    initmem (\w+)", README, re.M))
    assert listed == set(main.commands)


def test_every_name_of_every_registry_stands_there() -> None:
    for section in ("data", "model", "init", "optim", "penalty"):
        for name in variants(section):
            assert f"`{name}`" in README, name


def test_the_notebook_uses_public_names() -> None:
    used = set(re.findall(r"initmem\.(\w+)\(", block("python")))
    assert used == set(initmem.__all__)


def test_files_and_targets_exist() -> None:
    for path in re.findall(
        r"`((?:initmem|tests|studies|analysis)/[\w/.]+|cluster\.yaml)`", README
    ):
        assert (ROOT / path).exists(), path
    for link in re.findall(r"\]\((docs/[^)]+)\)", README):
        path, _, anchor = link.partition("#")
        heads = re.findall(r"^#+ (.+)$", (ROOT / path).read_text(), re.M) if anchor else []
        assert (ROOT / path).exists(), path
        assert not anchor or anchor in [head.lower().replace(" ", "-") for head in heads], link
    targets = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^    make (\w+)", README, re.M):
        assert f"\n{target}:" in targets


def test_every_study_of_the_repository_validates() -> None:
    paths = sorted(str(p) for p in (ROOT / "studies").rglob("*.yaml"))
    assert paths
    result = CliRunner().invoke(main, ["validate", *paths])
    assert result.exit_code == 0, result.output
