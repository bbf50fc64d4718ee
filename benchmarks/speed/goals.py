"""What the engine is to reach, against what was measured; and for a goal that is short, what share
of the machine's peak would have reached it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.speed.kernels import PRECISIONS, Measured
from benchmarks.speed.whole_study import Study
from benchmarks.speed.workloads import DEVICE, FOR_A_GPU

PEAK, STUDY = "peak", "naive_tune"


@dataclass(frozen=True)
class Goal:
    work: str
    against: str
    """A variant in float32: how many times as fast ours is. PEAK: percent of it, by operations
    that ours really does. STUDY: the whole digits study, in wall time."""
    float32: float | None = None
    bf16: float | None = None


DIGITS = "whole digits study"
GOALS = [
    Goal(DIGITS, STUDY, 5),
    Goal("ResNet-9 w16 32x32 b128", "naive_loop", 1.45, 2.5),
    Goal("ResNet-9 w8 16x16 b128", "naive_loop", 2.2, 3),
    Goal("MLP 784-256-10 b128", "naive_loop", 1.4, 3),
    Goal("MLP 64-32-10 b128", "naive_loop", 12),
    Goal("Transformer d128 mod 113 full batch", "naive_loop", 4.6, 16),
    Goal("ResNet-9 w16 32x32 b128", "vmap", 3),
    Goal("ResNet-9 w8 16x16 b128", "vmap", 3),
    Goal("ResNet-9 w16 32x32 b128", "hfta_like", 1.4),
    Goal("ResNet-9 w8 16x16 b128", "hfta_like", 1.4),
    Goal("ResNet-9 w16 32x32 b128", PEAK, 55, 50),
    Goal("Transformer d128 mod 113 full batch", PEAK, 50, 58),
    Goal(FOR_A_GPU.name, "preloaded", 1.3),
    Goal(FOR_A_GPU.name, PEAK, bf16=35),
]

Triple = tuple[float, float, float]
"""Median, least and most over the rounds."""


@dataclass(frozen=True)
class Verdict:
    goal: Goal
    found: dict[str, Triple]
    """By precision."""
    reason: str = ""

    @property
    def short(self) -> list[str]:
        """Precisions whose median misses the goal."""
        return [p for p, (middle, _, _) in self.found.items() if middle < getattr(self.goal, p)]


def verdicts(kernels: dict[str, Measured], study: Study | None) -> list[Verdict]:
    """Of all goals that something was measured for."""
    found = []
    for goal in GOALS:
        if goal.against == STUDY and study is not None:
            ratio = study.naive.wall_s / study.ours.wall_s
            reason = f"{study.not_training():.0f}% of the workers' time is not training"
            found.append(Verdict(goal, {"float32": (ratio, ratio, ratio)}, reason))
        elif goal.work in kernels:
            of = kernels[goal.work]
            asked = [p for p in PRECISIONS if getattr(goal, p) is not None]
            measured = {p: _measured(goal, of, p) for p in asked}
            found.append(Verdict(goal, measured, _reason(goal, of, measured)))
        elif goal.work == FOR_A_GPU.name and DEVICE.type == "cpu":
            found.append(Verdict(goal, {}))
    return found


def _reason(goal: Goal, of: Measured, measured: dict[str, Triple]) -> str:
    """What share of the peak the goal would take, by operations really done."""
    said = []
    for precision, (middle, _, _) in measured.items():
        wanted, share = getattr(goal, precision), _share(of, precision)[0]
        if middle < wanted and goal.against != PEAK:
            needed = share * wanted / middle
            said.append(f"{precision}: takes {needed:.0f}% of the peak, ours is at {share:.0f}%")
    return "; ".join(said)


def _share(of: Measured, precision: str) -> Triple:
    return of.share(("ours", precision), of.done[precision])


def _measured(goal: Goal, of: Measured, precision: str) -> Triple:
    if goal.against == PEAK:
        return _share(of, precision)
    return of.faster((goal.against, "float32"), precision)


def table(of: list[Verdict]) -> Iterator[str]:
    """Lines of Markdown."""
    yield "| what | against | float32: goal | measured | bf16: goal | measured | | reason |"
    yield "|---|---|---|---|---|---|---|---|"
    for verdict in of:
        goal = verdict.goal
        cells = [goal.work, goal.against]
        for precision in PRECISIONS:
            wanted = getattr(goal, precision)
            cells += [_amount(goal, wanted), _range(goal, verdict.found.get(precision))]
        short = verdict.short
        state = f"short in {' and '.join(short)}" if short else "met"
        cells += [state if verdict.found else "no GPU here: not measured"]
        cells += [verdict.reason if short else ""]
        yield f"| {' | '.join(cells)} |"


def _amount(goal: Goal, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}%" if goal.against == PEAK else f"{value:.3g}x"


def _range(goal: Goal, of: Triple | None) -> str:
    if of is None:
        return ""
    middle, low, high = (_amount(goal, value) for value in of)
    return middle if low == high else f"{middle} ({low} to {high})"
