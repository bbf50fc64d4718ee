"""What a process that trains is set to, apart from the arithmetic."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import initmem
from initmem.training.replica import Training
from tests.tiny import TINY, study

STEPS = """
import resource
from pathlib import Path
import torch
from initmem.data.load import load
from initmem.training.replica import Training
from initmem.tune.process import arithmetic
from tests.tiny import recipe

def faults(training, steps=12):
    for _ in range(3):  # until the heap has grown
        training.update()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(steps):
        training.update()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // steps

of = recipe(data={"train": 600}, model={"name": "resnet9", "width": 16},
            optim={"batch": 600, "steps": 50})
torch.set_num_threads(1)
training = Training(of, 0, load(of.data, Path("data")), torch.device("cpu"))
default = faults(training)
with arithmetic(1, deterministic=False):
    print(default, faults(training))
print(default, faults(training))
"""


def said(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """By a process of its own, without what the tests are set to."""
    clean = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        check=True,
    )


def test_medium_holds_while_its_network_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    matmuls = torch.backends.mkldnn.matmul, torch.backends.cuda.matmul
    before = [m.fp32_precision for m in matmuls]
    seen: dict[str, set[tuple[str, ...]]] = {}
    real = Training.update

    def update(self: Training) -> None:
        now = tuple(m.fp32_precision for m in matmuls)
        seen.setdefault(self.recipe.precision, set()).add(now)
        real(self)

    monkeypatch.setattr(Training, "update", update)
    text = TINY.replace("init.scale: [1, 2]", "init.scale: [1, 2]\n  precision: [float32, medium]")
    initmem.run(study(tmp_path, text=text), tmp_path / "run", local=True)
    assert seen == {"float32": {(before[0], "ieee")}, "medium": {("bf16", "tf32")}}
    assert [m.fp32_precision for m in matmuls] == before
    assert set(initmem.rows(tmp_path / "run")["precision"]) == {"float32", "medium"}


@pytest.mark.skipif(sys.platform != "linux", reason="page faults as Linux counts them")
def test_steps_cause_no_page_faults() -> None:
    """Activations are 2.4 MB and more; a page is 4 KiB. It stays so when the block has ended."""
    inside, after = (map(int, line.split()) for line in said(STEPS).stdout.splitlines())
    for default, kept in (inside, after):
        assert default > 500 and kept < default / 5


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp tells what it was set to")
@pytest.mark.parametrize(
    ("first", "own", "spins"),
    [
        ("initmem", {}, "0"),
        ("initmem.tune.trainable", {}, "0"),
        ("tests.tiny", {}, "0"),
        ("benchmarks.study_cost", {}, "0"),
        ("initmem", {"OMP_WAIT_POLICY": "ACTIVE"}, "30000000000"),
    ],
)
def test_threads_that_wait_do_not_spin(first: str, own: dict[str, str], spins: str) -> None:
    done = said(f"import {first}; import torch", OMP_DISPLAY_ENV="VERBOSE", **own)
    told = [line.split()[-1] for line in done.stderr.splitlines() if "GOMP_SPINCOUNT" in line]
    assert told and set(told) == {f"'{spins}'"}
