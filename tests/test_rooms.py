"""Imports run downhill: what each room may import, held for every file, late imports included."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STUDY, DATA, MODELS = "initmem.study", "initmem.data", "initmem.models"
TRAINING, MEMORY, SEARCH = "initmem.training", "initmem.memory", "initmem.search"
RECORDS, TUNE, THEORY = "initmem.records", "initmem.tune", "initmem.theory"

MAY = {
    "initmem/study": {STUDY, "pydantic", "pydantic_core", "yaml"},
    "initmem/data": {STUDY, DATA, THEORY, "torch", "torchvision", "numpy", "sklearn"},
    "initmem/models": {STUDY, MODELS, "torch"},
    # scipy, in one thread, for the eigenvalues of a matrix that is known by its products alone
    "initmem/training": {
        STUDY, DATA, MODELS, THEORY, TRAINING, "torch", "numpy", "scipy", "threadpoolctl",
    },
    "initmem/theory": {THEORY, "numpy", "scipy"},
    "initmem/memory": {"numpy", "scipy", "sklearn", "threadpoolctl", "pandas", MEMORY},
    "initmem/search": {"initmem", STUDY, MEMORY, SEARCH, "numpy", "optuna", "scipy"},
    "initmem/records": {STUDY, MEMORY, RECORDS, "pyarrow", "pandas", "pydantic"},
    "initmem/tune": {
        "initmem", STUDY, DATA, TRAINING, MEMORY, SEARCH, RECORDS, TUNE, "ray", "torch",
        "tensorboardX",
    },
    "initmem/forecast.py": {STUDY, MEMORY},
    "initmem/price.py": {STUDY, RECORDS, TUNE, "initmem.forecast", "numpy"},
    "initmem/look.py": {STUDY, MEMORY, RECORDS, SEARCH, TUNE, "initmem.forecast", "pandas"},
    "initmem/cli.py": {
        STUDY, DATA, RECORDS, TUNE, "initmem.forecast", "initmem.look", "initmem.price", "click",
    },
    "initmem/__init__.py": set(),
    "analysis": {
        STUDY, MEMORY, RECORDS, THEORY, "analysis", "click", "jinja2", "matplotlib", "numpy",
        "pandas", "pyarrow", "scipy", "sklearn",
    },
}  # fmt: skip


def files() -> Iterator[tuple[str, Path]]:
    for top in ("initmem", "analysis"):
        for path in sorted((ROOT / top).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path


def room_of(name: str) -> str:
    return max((room for room in MAY if name.startswith(room)), key=len, default="")


def imported(path: Path) -> Iterator[str]:
    """Names of modules, those of ours with their room: initmem.study, not initmem.study.plan."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            names = [node.module or ""]
        else:
            continue
        for name in names:
            parts = name.split(".")
            yield ".".join(parts[:2]) if parts[0] == "initmem" else parts[0]


@pytest.mark.parametrize(
    ("name", "path"), list(files()), ids=lambda v: v if isinstance(v, str) else ""
)
def test_imports(name: str, path: Path) -> None:
    room = room_of(name)
    assert room, f"{name} lies in no room of the table"
    foreign = set(imported(path)) - MAY[room] - set(sys.stdlib_module_names)
    assert not foreign, f"{name} imports {sorted(foreign)}"


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import initmem.study.load", {"torch", "ray", "optuna", "pandas"}),
        ("import initmem.cli", {"torch", "ray", "optuna", "pandas"}),
        ("import initmem.tune.launch", {"ray", "matplotlib"}),
        ("import analysis.report", {"torch", "ray", "optuna"}),
    ],
)
def test_what_an_import_loads(statement: str, absent: set[str]) -> None:
    code = f"import sys; {statement}; print(sorted({absent} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
