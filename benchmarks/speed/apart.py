"""A variant alone in a process of its own, told from outside when to train.

Each has the process that its user would have: initmem's with what initmem sets for a process that
trains, a peer's with one thread, and denormals flushed in its favour. The most memory that it ever
held comes with it.

    echo 2 | python -m benchmarks.speed.apart --work 'MLP 64-32-10 b128' --variant vmap
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import torch

from benchmarks.speed import peak
from benchmarks.speed.timing import Steps, clocked
from benchmarks.speed.variants import variants
from benchmarks.speed.workloads import DEVICE, NAMED
from initmem.tune.process import arithmetic


class Apart:
    """Raises RuntimeError, with its first line, where the variant does not run."""

    def __init__(self, work: str, variant: str, precision: str, tiny: bool = False) -> None:
        options = ["--work", work, "--variant", variant, "--precision", precision]
        command = [sys.executable, "-m", __name__, *options, *(["--tiny"] if tiny else [])]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.megabytes = 0.0
        self.networks = int(self._answer()["networks"])

    def __call__(self, n: int) -> float:
        """Seconds of n steps of all its networks."""
        assert self.process.stdin is not None
        print(n, file=self.process.stdin, flush=True)
        found = self._answer()
        self.megabytes = found["megabytes"]
        return float(found["seconds"])

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline() or '{"error": "died"}')
        if "error" in found:
            self.close()
            raise RuntimeError(found["error"])
        return found


def largest() -> float:
    """MB of this process so far. Not ru_maxrss: that starts from the parent's."""
    if DEVICE.type == "cuda":
        return torch.cuda.max_memory_allocated() / 1e6
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def _made(work: str, variant: str, precision: str, tiny: bool) -> tuple[int, Steps]:
    """Networks and steps of a variant, or of a kernel of `peak.py`."""
    if variant in peak.OPERATIONS:
        return 1, peak.kernels(precision)[variant]
    of = NAMED[work].tiny() if tiny else NAMED[work]
    peer = variants(of)[variant](of, precision)
    return peer.networks, peer.steps


def _say(**of: Any) -> None:
    print(json.dumps(of), flush=True)


@click.command()
@click.option("--work", required=True)
@click.option("--variant", required=True)
@click.option("--precision", default="float32")
@click.option("--tiny", is_flag=True)
def main(work: str, variant: str, precision: str, tiny: bool) -> None:
    """Train as many steps as each line of the input says, and answer with the seconds."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    peer = variant != "ours" and variant not in peak.OPERATIONS
    with nullcontext() if peer else arithmetic(1, deterministic=False):
        networks, steps = _made(work, variant, precision, tiny)
        _say(networks=networks)
        for line in sys.stdin:
            try:
                seconds = clocked(steps, int(line))
            except RuntimeError as error:
                _say(error=str(error).splitlines()[0])
                return
            _say(seconds=seconds, megabytes=largest())


if __name__ == "__main__":
    main()
