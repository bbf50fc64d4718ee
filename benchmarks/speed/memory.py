"""The most memory that a variant takes, alone in a process of its own.

    python -m benchmarks.speed.memory --work 'MLP 64-32-10 b128' --variant vmap

Resident MB (on a GPU: allocated there) after two steps, the torch library and the data included.
vmap and hfta_like hold R networks, a loop one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import torch

from benchmarks.speed.variants import variants
from benchmarks.speed.workloads import DEVICE, NAMED, Workload
from initmem.tune.block import arithmetic


def megabytes(work: Workload, variant: str, precision: str) -> float:
    """Of a fresh process. An empty variant is the process with its imports and no more."""
    options = ["--work", work.name, "--variant", variant, "--precision", precision]
    command = [sys.executable, "-m", __name__, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def largest() -> float:
    """MB of this process so far. Not ru_maxrss: that starts from the parent's."""
    if DEVICE.type == "cuda":
        return torch.cuda.max_memory_allocated() / 1e6
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024 / 1e6


@click.command()
@click.option("--work", required=True)
@click.option("--variant", default="")
@click.option("--precision", default="float32")
def main(work: str, variant: str, precision: str) -> None:
    if variant:
        with arithmetic(1, deterministic=False):
            variants(NAMED[work])[variant](NAMED[work], precision).steps(2)
    print(largest())


if __name__ == "__main__":
    main()
