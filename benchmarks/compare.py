"""How fast does initmem train, against what people use today?

    python -m benchmarks.compare                 kernels and the whole study: about 20 minutes
    python -m benchmarks.compare --skip-study    kernels alone: 8 minutes of one core
    python -m benchmarks.compare --whole-naive   all 64 trials of the study a user would write
    python -m benchmarks.compare --quick         tiny networks, a minute: does it run at all?

Prints and writes docs/performance.md: goals, the digits study from the command line, and for each
workload the time of a network-step by variant, its share of what the machine can do, and memory.
The section of `benchmarks.driver` is kept as it is there.
Before anything is timed, all variants must take the same step (`benchmarks/speed/gates.py`).
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from benchmarks.driver import HEADING
from benchmarks.sections import section, with_section
from benchmarks.speed.goals import DIGITS, Verdict, verdicts
from benchmarks.speed.kernels import Measured, measure, profiled
from benchmarks.speed.page import Run, page
from benchmarks.speed.timing import LEAST_S, ROUNDS
from benchmarks.speed.whole_study import study
from benchmarks.speed.workloads import DIGITS_STEP, NAMED, WORKLOADS
from initmem.tune.process import arithmetic


@click.command()
@click.option("--skip-study", is_flag=True, help="Kernels alone.")
@click.option("--whole-naive", is_flag=True, help="All 64 trials of naive_tune, not 8 and 16.")
@click.option("--only", help="Workloads with this in their name.")
@click.option("--rounds", default=ROUNDS, show_default=True)
@click.option("--quick", is_flag=True, help="Tiny and meaningless; writes nothing.")
@click.option("--output", default="docs/performance.md", show_default=True)
def main(
    skip_study: bool,
    whole_naive: bool,
    only: str | None,
    rounds: int,
    quick: bool,
    output: str,
) -> None:
    """Measure initmem against its peers."""
    chosen = [work for work in WORKLOADS if not only or only in work.name]
    found: list[Measured] = []
    with arithmetic(1, deterministic=False):
        for work in chosen:
            click.echo(work.name, err=True)
            least = 0.01 if quick else LEAST_S
            found.append(measure(work, rounds, least, quick))
    whole = None if skip_study else study(quick, whole_naive)
    kept = verdicts({of.work.name: of for of in found}, whole)
    with arithmetic(1, deterministic=False):
        profiles = _profiles(kept, quick)
    command = " ".join(["python -m benchmarks.compare", *sys.argv[1:]])
    text = page(Run(found, whole, kept, profiles, rounds, command))
    click.echo(text)
    if not quick:
        there = Path(output)
        kept = section(there.read_text(), HEADING) if there.exists() else ""
        there.write_text(with_section(text, HEADING, kept) if kept else text)


def _profiles(of: list[Verdict], quick: bool) -> dict[str, list[str]]:
    """Of what is short, by workload and precision."""
    found = {}
    for verdict in of:
        for precision in verdict.short:
            name = f"{verdict.goal.work}, {precision}"
            work = DIGITS_STEP if verdict.goal.work == DIGITS else NAMED[verdict.goal.work]
            if name not in found:
                found[name] = profiled(work.tiny() if quick else work, precision)
    return found


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.compare")
