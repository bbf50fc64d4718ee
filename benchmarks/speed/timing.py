"""CPU seconds of alternatives that take turns, so that all see the same machine.

Process time, not wall time: on a shared machine it leaves out the waiting, not the slower memory.
On a GPU the seconds are those between two events.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping

import torch

from benchmarks.speed.workloads import DEVICE

ROUNDS, LEAST_S = 5, 0.2
"""Rounds, and the least seconds of one variant in a round."""

Steps = Callable[[int], None]
Clock = Callable[[int], float]
"""Does n steps, and says how many seconds they took."""


def clocked(steps: Steps, n: int) -> float:
    """Seconds that n steps take."""
    if DEVICE.type == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        steps(n)
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) / 1e3
    began = time.process_time()
    steps(n)
    return time.process_time() - began


def steps_a_round(clock: Clock, least: float = LEAST_S) -> int:
    """Warms up, and says how many steps take `least` seconds."""
    seconds = clock(1)
    if seconds < least:
        seconds = clock(2) / 2
    return max(1, math.ceil(least / seconds))


def interleaved(
    variants: Mapping[str, Clock], counts: Mapping[str, int], rounds: int = ROUNDS
) -> dict[str, list[float]]:
    """Seconds a step by variant and round. counts: steps in a round. Every round begins with
    another variant."""
    found: dict[str, list[float]] = {name: [] for name in variants}
    names = list(variants)
    for k in range(rounds):
        first = k % len(names)
        for name in names[first:] + names[:first]:
            found[name].append(variants[name](counts[name]) / counts[name])
    return found


def ratios(slow: list[float], fast: list[float]) -> tuple[float, float, float]:
    """How many times as fast: median, least and most over the rounds."""
    each = [a / b for a, b in zip(slow, fast, strict=True)]
    return statistics.median(each), min(each), max(each)


def told(of: tuple[float, float, float]) -> str:
    """1.52 (1.48 to 1.60)"""
    return "{:.2f} ({:.2f} to {:.2f})".format(*of)
