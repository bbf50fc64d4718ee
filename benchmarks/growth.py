"""How does the cost of a network-step grow, and what does a study pay beside its steps?

    python -m benchmarks.growth              about 6 minutes
    python -m benchmarks.growth --draws 8    the share of the whole digits study

Prints and writes docs/growth.md.

networks   ms a network-step of ours against R, the networks trained at once
width      against the width of a ResNet-9
blocks     of resnet20 and resnet56, and of each of the 18 blocks between them
start      a Ray actor from its request to its first step: import, data, network, one update
share      of the workers' wall time in a study that is no training (the rows' run.seconds against
           the seconds of the run): start of Ray and of workers, records, an idle end
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from benchmarks.speed import page
from benchmarks.speed.ours import ours
from benchmarks.speed.peak import textbook_operations
from benchmarks.speed.timing import clocked, interleaved, steps_a_round
from benchmarks.speed.whole_study import STUDY, WORKERS
from benchmarks.speed.workloads import DIGITS_STEP, NAMED, Workload
from initmem.study.load import load
from initmem.tune.process import arithmetic

ROUNDS, LEAST_S = 3, 0.2
NETWORKS, WIDTHS = (1, 2, 4, 8, 16, 32), (4, 8, 16, 32)
SMALL = NAMED["ResNet-9 w8 16x16 b128"]
STARTS = 3
"""Actors one after the other; the first finds nothing in the file cache."""


def costs(works: dict[str, Workload]) -> Iterator[str]:
    """A line for each: ms a network-step in float32 and bf16, median (least to most)."""
    yield "| | R | float32, ms | bf16, ms | GFLOP/s, float32 | bf16 |"
    yield "|---|---|---|---|---|---|"
    precisions = "float32", "bf16"
    peers = {(name, p): ours(work, p) for name, work in works.items() for p in precisions}
    clocks = {f"{name}/{p}": partial(clocked, of.steps) for (name, p), of in peers.items()}
    counts = {name: steps_a_round(of, LEAST_S) for name, of in clocks.items()}
    seconds = interleaved(clocks, counts, ROUNDS)
    for name, work in works.items():
        times, speeds = [], []
        for p in precisions:
            each = [s / peers[name, p].networks for s in seconds[f"{name}/{p}"]]
            middle, low, high = (1e3 * f(each) for f in (statistics.median, min, max))
            times.append(f"{middle:.3g} ({low:.3g} to {high:.3g})")
            speeds.append(f"{textbook_operations(work) / middle / 1e6:.1f}")
        yield f"| {' | '.join([name, str(work.networks), *times, *speeds])} |"
    middles = {
        (name, p): statistics.median(seconds[f"{name}/{p}"]) / peer.networks
        for (name, p), peer in peers.items()
    }
    if "resnet20" in works:
        each = [1e3 * (middles["resnet56", p] - middles["resnet20", p]) / 18 for p in precisions]
        yield f"| each further block | | {each[0]:.3g} | {each[1]:.3g} | | |"


def of_networks(work: Workload) -> dict[str, Workload]:
    return {f"{work.name}, {R} at once": replace(work, networks=R) for R in NETWORKS}


def of_widths() -> dict[str, Workload]:
    return {f"w{w}": replace(SMALL, model={**SMALL.model, "width": w}) for w in WIDTHS}


def of_blocks() -> dict[str, Workload]:
    models = {name: {"name": name, "width": 8} for name in ("resnet20", "resnet56")}
    return {name: replace(SMALL, model=model) for name, model in models.items()}


def first_step() -> float:
    """In a worker: CPU seconds of its process when the first step is done."""
    with arithmetic(1, deterministic=False):
        ours(DIGITS_STEP, "float32").steps(1)
    return time.process_time()


def starts() -> Iterator[str]:
    """Ray's own start, and that of workers."""
    import ray

    clock = time.perf_counter()
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="CRITICAL")
    ready = time.perf_counter() - clock

    class Worker:
        def first_step(self) -> float:
            from benchmarks import growth  # only now, in the worker: what a trial has to import

            return growth.first_step()

    yield f"- Ray on this machine: {ready:.1f} s"
    for k in range(STARTS):
        clock = time.perf_counter()
        worker = ray.remote(num_cpus=1)(Worker).remote()
        cpu = ray.get(worker.first_step.remote())
        wall = time.perf_counter() - clock
        yield f"- worker {k + 1}, request to first step: {wall:.1f} s, {cpu:.1f} CPU s"
        ray.kill(worker)
    ray.shutdown()


def share(draws: int) -> str:
    """What of the workers' time in the digits study is no training."""
    import initmem

    with tempfile.TemporaryDirectory(prefix="growth") as folder:
        summary = initmem.run(load(STUDY, [f"search.draws={draws}"]), folder, workers=WORKERS)
        training = float(initmem.rows(folder)["run.seconds"].sum())
    idle = 100 * (1 - training / (summary.seconds * WORKERS))
    return (
        f"{idle:.0f}% of {WORKERS} workers x {summary.seconds:.0f} s, {summary.trained} networks "
        f"of {STUDY} ({draws} draws)"
    )


@click.command()
@click.option(
    "--draws", default=2, show_default=True, help="Of the digits study, 8 networks each."
)
@click.option("--output", default="docs/growth.md", show_default=True)
def main(draws: int, output: str) -> None:
    """Measure what a network-step costs as things grow."""
    lines = ["# Growth of the cost of training", ""]
    lines += [
        f"Written by `python -m benchmarks.growth`; {ROUNDS} rounds in turns, one thread.",
        "",
    ]
    with arithmetic(1, deterministic=False):
        for title, works in (
            ("Networks at once, MLP", of_networks(NAMED["MLP 64-32-10 b128"])),
            ("Networks at once, ResNet", of_networks(SMALL)),
            ("Width, ResNet-9 16x16 b128", of_widths()),
            ("Blocks, width 8, 16x16 b128", of_blocks()),
        ):
            click.echo(title, err=True)
            lines += [f"## {title}", "", *costs(works), ""]
    lines += ["## Start", "", *starts(), ""]
    lines += ["## Not training", "", f"{share(draws)}.", "", "## Machine", "", *page.machine(), ""]
    text = "\n".join(lines)
    click.echo(text)
    Path(output).write_text(text)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.growth")
