"""Cells that raise, run out of memory or diverge."""

from __future__ import annotations

import resource
import subprocess
import sys

from initmem.records.store import Store
from tests.chaos.scene import Line, Scene
from tests.tiny import TINY

ARMS = TINY.replace(", width: 16", "").replace("ranges:", "  model.width: [16, BAD]\nranges:")
LIMIT_BYTES = 6_000_000_000
"""Of the address space: torch itself maps three to four of them."""


def out_of_memory(scene: Scene) -> Line:
    """One arm's networks do not fit into the address space that the process may use."""
    path = scene.folder / "large.yaml"
    path.write_text(ARMS.replace("name: mlp", "name: mlp, depth: 3").replace("BAD", "30000"))
    run = scene.folder / "large"
    command = [sys.executable, "-m", "initmem.cli", "run", str(path), "--run", str(run), "--local"]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))

    ended = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and "--retry-failed" in ended.stderr, ended.stderr
    rows = Store(run).rows()
    fit = [row for row in rows if row["model.width"] == 16]
    large = [row for row in rows if row["model.width"] != 16]
    assert len(fit) == len(large) == 12 and not [row for row in fit if row["state"] == "failed"]
    silent = [row for row in large if row["state"] != "failed" or "emory" not in row["error"]]
    return Line("out of memory (RLIMIT_AS)", len(large), bits_different=len(silent))


def raises(scene: Scene) -> Line:
    """An error of the program in one arm's networks."""
    path = scene.folder / "raising.yaml"
    path.write_text(ARMS.replace("BAD", "24"))
    run = scene.folder / "raising"
    code = (
        "import initmem.training.replica as replica\n"
        "build = replica.build\n"
        "def broken(model, *rest):\n"
        "    if model.width == 24: raise RuntimeError('one cell raises\\nwith a second line')\n"
        "    return build(model, *rest)\n"
        "replica.build = broken\n"
        "from initmem.cli import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", code, "run", str(path), "--run", str(run), "--local"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    failed = [row for row in Store(run).rows() if row["state"] == "failed"]
    assert [row["error"] for row in failed] == ["RuntimeError: one cell raises"] * 12
    again = [sys.executable, "-m", "initmem.cli", *command[3:], "--retry-failed"]
    ended = subprocess.run(again, capture_output=True, text=True, check=False)
    assert ended.returncode == 0 and "24 of 24 replicas, 12 trained" in ended.stdout, ended.stdout
    still = [row for row in Store(run).rows() if row["state"] == "failed"]
    return Line("cell raises", len(failed), rows_lost=len(still))


def diverges(scene: Scene) -> Line:
    """A learning rate that no network survives: rows say so, and the run ends well."""
    path = scene.folder / "diverging.yaml"
    path.write_text(TINY.replace("low: 1e-2, high: 1e-1, log: true", "low: 1e18, high: 1e20", 1))
    run = scene.folder / "diverging"
    command = [sys.executable, "-m", "initmem.cli", "run", str(path), "--run", str(run), "--local"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0 and "12 diverged" in ended.stdout, ended.stdout + ended.stderr
    rows = Store(run).rows()
    silent = [row for row in rows if row["state"] != "diverged" or row["diverged_step"] is None]
    return Line("cell diverges", len(rows), rows_lost=12 - len(rows), bits_different=len(silent))
