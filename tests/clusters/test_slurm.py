"""clusters/slurm.sh with a Slurm of two machines that notes what would start on them: real starts
would end with `ray stop`, which stops all Ray here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ray.scripts.scripts import start
from ray.scripts.symmetric_run import curate_and_validate_ray_start_args, symmetric_run

from tests.clusters.files import ROOT

SCRIPT = ROOT / "clusters/slurm.sh"
SRUN = """#!/usr/bin/env bash
while [[ $1 == -* ]]; do shift; done
for gpus in 4 2; do SLURM_CPUS_ON_NODE=16 SLURM_GPUS_ON_NODE=$gpus "$@"; done
"""
RAY = """#!/usr/bin/env bash
printf '%s\\n' "$RAY_AUTH_MODE" "$@" END >> "$NOTED"
"""


@pytest.fixture
def noted(tmp_path: Path) -> list[list[str]]:
    """What `ray` was called with, each time."""
    for name, text in (("srun", SRUN), ("ray", RAY)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "NOTED": str(tmp_path / "noted"),
        "SLURM_JOB_NUM_NODES": "2",
    }
    command = [SCRIPT, "studies/digits.yaml", "--run", "/shared/a b"]
    subprocess.run(command, env=environment, check=True)
    calls = (tmp_path / "noted").read_text().removesuffix("END\n").split("END\n")
    return [call.splitlines() for call in calls]


def test_each_machine_starts_a_ray_of_what_it_was_given(noted: list[list[str]]) -> None:
    assert noted[0] == ["token", "get-auth-token", "--generate"]
    assert [call[:2] for call in noted[1:]] == [["token", "symmetric-run"]] * 2
    for call, gpus in zip(noted[1:], (4, 2), strict=True):
        options, _, study = (" ".join(call[2:])).partition(" -- ")
        ours = symmetric_run.make_context("_", options.split(), resilient_parsing=True).params
        host, _, port = ours["address"].rpartition(":")
        assert ours["min_nodes"] == 2 and port == "6379" and host.count(".") == 3
        rest = curate_and_validate_ray_start_args(options.split())
        given = start.make_context("start", rest).params
        assert (given["num_cpus"], given["num_gpus"]) == (16, gpus)
        assert given["dashboard_host"] == "127.0.0.1"
        assert (
            study
            == f"initmem run --address {ours['address']} studies/digits.yaml --run /shared/a b"
        )


def test_words_stay_whole(noted: list[list[str]]) -> None:
    assert noted[1][-2:] == ["--run", "/shared/a b"]


def test_machines_are_taken_whole() -> None:
    """At its end symmetric-run stops all Ray of the user on a machine."""
    text = SCRIPT.read_text()
    for option in ("--exclusive", "--ntasks-per-node=1", "--no-kill", "--requeue"):
        assert f"\n#SBATCH {option}\n" in text
    assert os.access(SCRIPT, os.X_OK)
