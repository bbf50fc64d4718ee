"""docs/performance.md: what was measured, where and with what."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch

from benchmarks.speed import goals, kernels
from benchmarks.speed.kernels import Measured
from benchmarks.speed.whole_study import WORKERS, Study
from benchmarks.speed.workloads import DEVICE


@dataclass(frozen=True)
class Run:
    """What a page is made of."""

    kernels: list[Measured]
    study: Study | None
    verdicts: list[goals.Verdict]
    profiles: dict[str, list[str]]
    rounds: int
    command: str


def page(of: Run) -> str:
    return "\n".join([*_head(of), *_goals(of), *_study(of), *_kernels(of), *_profiles(of), ""])


def machine() -> list[str]:
    """Lines of Markdown: where, with what, at which commit."""
    one, five, fifteen = os.getloadavg()
    gpu = torch.cuda.get_device_name() if DEVICE.type == "cuda" else "none"
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "ray", "numpy"))
    return [
        f"- CPU: {_cpu()}, {os.cpu_count()} cores, {torch.backends.cpu.get_cpu_capability()}; "
        f"GPU: {gpu}",
        f"- load average at the end: {one:.1f}, {five:.1f}, {fifteen:.1f} (1, 5, 15 minutes)",
        f"- commit {_commit()}; Python {platform.python_version()}, {versions}",
    ]


def _cpu() -> str:
    found = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.processor()


def _commit() -> str:
    git = ["git", "describe", "--always", "--abbrev=7", "--exclude=*", "--dirty"]
    done = subprocess.run(git, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def _head(of: Run) -> Iterator[str]:
    yield "# Speed of training"
    yield ""
    yield f"Written by `{of.command}`."
    yield ""
    yield from machine()
    yield f"- one thread, denormals flushed, {of.rounds} rounds in turns"
    yield ""
    yield (
        "A number is the median over the rounds, with least and most in brackets; ratios are "
        "taken within a round. Seconds are CPU seconds of the process (on a GPU: between events). "
        "GFLOP/s count the operations of the textbook module, forward and backward, so what an "
        "engine leaves out by algebra counts as done; the peak is the better of a product of "
        "1024 x 1024 matrices and a 3x3 convolution of 64 channels, measured in the same rounds."
    )
    yield ""


def _goals(of: Run) -> Iterator[str]:
    yield "## Goals"
    yield ""
    yield (
        "`peak` is the share of it by operations really done; all others are times as fast as "
        "that variant in float32. The study is in wall time."
    )
    yield ""
    yield from goals.table(of.verdicts)
    yield ""


def _study(of: Run) -> Iterator[str]:
    yield "## A whole study"
    yield ""
    if of.study is None:
        yield "Not measured in this run (`--skip-study`)."
        yield ""
        return
    s = of.study
    run = "all of them run" if s.measured >= s.networks else "on the line through 8 and 16 of them"
    wall, cpu = s.naive.wall_s / s.ours.wall_s, s.naive.cpu_s / s.ours.cpu_s
    yield (
        f"studies/digits.yaml, {s.networks} networks, start-up included, {WORKERS} at once. "
        f"naive_tune: a function trainable on Tune's defaults, a network a trial and a process, "
        f"torchvision's transforms, a DataLoader; {run}."
    )
    yield ""
    yield "| | wall s | CPU s |"
    yield "|---|---|---|"
    yield f"| naive_tune | {s.naive.wall_s:.0f} | {s.naive.cpu_s:.0f} |"
    yield f"| initmem run | {s.ours.wall_s:.0f} | {s.ours.cpu_s:.0f} |"
    yield f"| times as fast | {wall:.1f} | {cpu:.1f} |"
    yield ""
    yield (
        f"Of the {WORKERS} x {s.ours.wall_s:.0f} s of ours, {s.not_training():.0f}% are not "
        f"training or evaluating. A trial of naive_tune spends {s.trial_s:.1f} s in its training "
        f"function; the rest is the start of its process."
    )
    yield ""


def _kernels(of: Run) -> Iterator[str]:
    yield "## Steps"
    yield ""
    yield (
        "naive_loop: textbook module, DataLoader (Transformer: tensors, for its batch is the "
        "whole training set), torch.optim. preloaded: tensors, channels last. vmap: torch.func, R "
        "networks stacked, BatchNorm without running statistics. hfta_like: R networks as one "
        "with grouped convolutions. All in `benchmarks/speed/`."
    )
    yield ""
    yield (
        "MB: the most that a process with this variant alone holds, imports included; of R "
        "networks where they train at once."
    )
    yield ""
    for measured in of.kernels:
        yield f"### {measured.work.name}, R={measured.work.networks}"
        yield ""
        yield from kernels.table(measured)
        yield ""
        for note in kernels.notes(measured):
            yield f"- {note}"
        yield ""


def _profiles(of: Run) -> Iterator[str]:
    if not of.profiles:
        return
    yield "## Where the time goes, for goals that are short"
    for name, lines in of.profiles.items():
        yield ""
        yield f"{name}, self CPU time:"
        yield ""
        yield from (f"    {line}" for line in lines)
