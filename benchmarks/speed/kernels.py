"""All variants of a workload in turns: seconds a network-step, share of the peak, memory."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field

from torch.profiler import ProfilerActivity, profile

from benchmarks.speed import peak
from benchmarks.speed.apart import Apart
from benchmarks.speed.gates import Gap, gaps
from benchmarks.speed.ours import ours
from benchmarks.speed.timing import clocked, interleaved, ratios, steps_a_round, told
from benchmarks.speed.variants import variants
from benchmarks.speed.workloads import Workload

PRECISIONS, PROFILED_S = ("float32", "bf16"), 1.0
Key = tuple[str, str]
"""Variant and precision."""


@dataclass
class Measured:
    work: Workload
    gates: dict[str, Gap]
    operations: float
    """Of a network-step of the textbook module."""
    done: dict[str, float]
    """By precision: of a network-step of ours, as it is computed."""
    seconds: dict[Key, list[float]] = field(default_factory=dict)
    """Of a network-step, by round."""
    peak: dict[str, list[float]] = field(default_factory=dict)
    """Operations a second by precision and round."""
    failed: dict[Key, str] = field(default_factory=dict)
    megabytes: dict[Key, float] = field(default_factory=dict)

    def faster(self, than: Key, precision: str) -> tuple[float, float, float]:
        """How many times as fast ours is."""
        return ratios(self.seconds[than], self.seconds["ours", precision])

    def share(self, key: Key, operations: float | None = None) -> tuple[float, float, float]:
        """Percent of the peak: median, least, most over the rounds."""
        operations = operations or self.operations
        pairs = zip(self.seconds[key], self.peak[key[1]], strict=True)
        each = [100 * operations / s / top for s, top in pairs]
        return statistics.median(each), min(each), max(each)


def measure(work: Workload, rounds: int, least: float, tiny: bool = False) -> Measured:
    """tiny: the same in small. Raises AssertionError where a variant computes something else."""
    small = work.tiny() if tiny else work
    found = Measured(work, gaps(small), peak.textbook_operations(small), {})
    peers: dict[Key, Apart] = {}
    counts: dict[str, int] = {}
    try:
        for precision in PRECISIONS:
            one = ours(small, precision)
            found.done[precision] = peak.operations_done(one.steps) / one.networks
            for name in (*peak.OPERATIONS, *variants(work)):
                try:
                    peer = Apart(work.name, name, precision, tiny)
                    counts[f"{name} {precision}"] = steps_a_round(peer, least)
                    peers[name, precision] = peer
                except RuntimeError as error:
                    assert name != "ours", f"{work.name}: ours {precision}: {error}"
                    found.failed[name, precision] = str(error)
        clocks = {f"{name} {precision}": peer for (name, precision), peer in peers.items()}
        times = interleaved(clocks, counts, rounds)
    finally:
        for peer in peers.values():
            peer.close()
    for (name, precision), peer in peers.items():
        if name not in peak.OPERATIONS:
            each = [s / peer.networks for s in times[f"{name} {precision}"]]
            found.seconds[name, precision] = each
            found.megabytes[name, precision] = peer.megabytes
    for precision in PRECISIONS:
        tops = {name: times[f"{name} {precision}"] for name in peak.OPERATIONS}
        found.peak[precision] = peak.best(tops)
    return found


def table(of: Measured) -> Iterator[str]:
    """Lines of Markdown."""
    yield (
        "| variant | ms a network-step | slower than ours float32, times | than ours bf16 "
        "| GFLOP/s | of peak | MB |"
    )
    yield "|---|---|---|---|---|---|---|"
    for (name, precision), seconds in of.seconds.items():
        middle = statistics.median(seconds)
        cells = [
            f"{name} {precision}",
            f"{1e3 * middle:.3g}",
            *(told(of.faster((name, precision), p)) for p in PRECISIONS),
            f"{of.operations / middle / 1e9:.1f}",
            f"{of.share((name, precision))[0]:.0f}%",
            f"{of.megabytes[name, precision]:.0f}",
        ]
        yield f"| {' | '.join(cells)} |"


def notes(of: Measured) -> Iterator[str]:
    """Sentences under the table."""
    tops = ", ".join(f"{statistics.median(of.peak[p]) / 1e9:.0f} in {p}" for p in PRECISIONS)
    yield f"Peak, GFLOP/s: {tops}. Operations of a network-step: {of.operations:.3g}."
    if any(abs(done / of.operations - 1) > 0.01 for done in of.done.values()):
        done = ", ".join(
            f"{of.done[p]:.3g} in {p}, {of.share(('ours', p), of.done[p])[0]:.0f}% of peak"
            for p in PRECISIONS
        )
        yield f"Operations that ours really does: {done}."
    far = max((gap.step, name) for name, gap in of.gates.items() if name.endswith("float32"))
    heavy = max(gap.weights for name, gap in of.gates.items() if name.endswith("float32"))
    yield (
        f"Gates, float32, largest gap to naive_loop after a step: {heavy:.0e} of the weights, "
        f"{far[0]:.0e} of the step ({far[1]})."
    )
    for (name, precision), why in of.failed.items():
        yield f"{name} does not run in {precision}: {why}."


def profiled(work: Workload, precision: str) -> list[str]:
    """The six operations that ours spends most time in, in percent of self CPU time."""
    peer = ours(work, precision)
    peer.steps(2)
    steps = min(500, math.ceil(PROFILED_S / clocked(peer.steps, 1)))
    with profile(activities=[ProfilerActivity.CPU]) as found:
        peer.steps(steps)
    events = sorted(found.key_averages(), key=lambda e: -e.self_cpu_time_total)
    total = sum(e.self_cpu_time_total for e in events)
    return [
        f"{100 * e.self_cpu_time_total / total:5.1f}%  {e.count // steps:>5} calls a step  {e.key}"
        for e in events[:6]
    ]
