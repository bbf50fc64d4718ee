"""docs/cluster.md: its commands are ones that there are, its files and names, too."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator

import pytest

from initmem.cli import main
from initmem.study.load import load
from tests.clusters.files import LAUNCHED, OTHERS, ROOT, text_of

TEXT = (ROOT / "docs/cluster.md").read_text()
SCRIPTS = re.findall(r"```sh\n(.*?)```", TEXT, re.S)


def commands() -> Iterator[str]:
    """Each call of initmem, alone, in quotes for `ray exec`, or after `--` of `ray job submit`."""
    for script in SCRIPTS:
        for line in script.replace("\\\n", "").splitlines():
            for found in re.findall(r"(?:^|[\s'\"])(initmem [a-z]+ .*)", line):
                yield found if found.count('"') % 2 == 0 else found.rstrip('"')
    yield from (f"initmem run {words}" for words in re.findall(r"slurm\.sh \\\n(.*)", TEXT))


@pytest.mark.parametrize("command", [c.rstrip("'") for c in commands()])
def test_every_initmem_command_parses(command: str) -> None:
    _, verb, *words = shlex.split(command)
    given = main.commands[verb].make_context(verb, words).params
    if "study" in given:
        load(ROOT / given["study"], given["overrides"])


def test_there_are_commands_of_every_step() -> None:
    verbs = {command.split()[1] for command in commands()}
    assert verbs >= {"plan", "run", "fetch", "status"} and len(list(commands())) >= 12


def test_a_shell_takes_every_script() -> None:
    for script in SCRIPTS:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_every_file_is_there_and_told() -> None:
    for path in re.findall(r"\b((?:clusters|studies|tests|docs)/[\w/.]+\w)", TEXT):
        assert (ROOT / path).exists(), path
    for name in (*LAUNCHED, *OTHERS):
        assert name in TEXT
    for module in re.findall(r"python -m\s+([\w.]+)", TEXT):
        assert module in {"analysis", "venv"} or (ROOT / f"{module.replace('.', '/')}.py").exists()
    headings = {re.sub(r"\W", "-", h.lower()) for h in re.findall(r"^## (.*)", TEXT, re.M)}
    assert set(re.findall(r"\]\(#([\w-]+)\)", TEXT)) <= headings


@pytest.mark.parametrize("name", [*LAUNCHED, "clusters/kuberay.yaml"])
def test_every_name_to_fill_in_is_filled_in(name: str) -> None:
    named = set(
        re.findall(r"INITMEM-[A-Z0-9-]*[A-Z0-9]", re.sub(r"^ *#.*", "", text_of(name), flags=re.M))
    )
    assert named <= set(re.findall(r"s[/|](INITMEM-[A-Z0-9-]+)[/|]", TEXT)), named
