"""Does initmem hold its promises on a GPU? A line a check, with what was measured.

    python -m benchmarks.gpu_check                  planned for 8 minutes on a GPU, not yet run
    python -m benchmarks.gpu_check --device cpu     the same in 2 to 4 minutes, two cores

resume      a run cut in the middle of an epoch ends with the bits of one that was not
processes   two processes leave the same rows; without `deterministic: true` it is told only
registries  every network and optimizer trains, with deterministic kernels and without
init        initial weights are the CPU's bit for bit, train losses are close to the CPU's
bf16        trains, and is not float32
engines     graph and batched: a replica's bits are its own, its first step the plain module's
speed       ms a network-step by engine and networks at once
fit         what `initmem plan` sets as a block's share of the memory is enough for the block
shares      blocks side by side on one GPU leave the rows of --local; seconds for each share
memory      a block that outgrows its share of a GPU gets a whole one, and its peak is in the row
killed      a driver killed in mid-run goes on to the same rows

Exit status: 1 if a check failed, 2 without a GPU. The data are digits and modular: no files.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import click
import torch

import initmem
from benchmarks.gpu_studies import GRID, LARGE, TOKENS, long_study, study
from benchmarks.speed.timing import clocked, steps_a_round
from benchmarks.speed.workloads import DEVICE, FOR_A_GPU, NAMED, Workload
from initmem.records.store import Store
from initmem.study.recipe import variants
from initmem.training.loop import ENGINES
from initmem.training.replica import Training
from initmem.tune.fit import fitting, measure, share
from initmem.tune.process import arithmetic
from tests import tiny
from tests.training.test_engines import (
    CASES,
    depends_on_no_neighbour,
    takes_the_plain_modules_step,
)
from tests.training.test_gpu import (
    BUILT,
    HEADED,
    WIDE,
    cut_equals_uncut,
    starts_as_on_a_cpu,
    trained,
)
from tests.training.test_loop import CUT
from tests.tune.driving import at_once, differing, driver, said, wait_for_records

WORKS = [NAMED["ResNet-9 w16 32x32 b128"], NAMED["Transformer d128 mod 113 full batch"]]
TEAMS = [("loop", 1), *((engine, R) for engine in ("graph", "batched") for R in (1, 8, 32))]
"""Engines, and networks at once; of the widest the first three, for its activations are large."""
OWN = {"exact", "online_sgd"}
"""Optimizers of one network alone."""
CLOSE = 0.01
"""Largest relative difference of a final train loss between GPU and CPU, after 60 steps."""


def resume(device: str, folder: Path) -> str:
    for of in [*CUT, WIDE, HEADED]:
        cut_equals_uncut(of, device)
    return f"{len(CUT) + 2} recipes, cut at step 14 of 30"


def processes(device: str, folder: Path) -> str:
    found = {}
    for value in (True, False):
        study(device, folder, "two", deterministic=value)
        runs = [folder / f"two-{value}-{i}" for i in range(2)]
        for run in runs:
            with driver(run, folder / "two.yaml", "--local") as process:
                assert process.wait(timeout=120) == 0, said(run)
        found[value] = differing(*runs)
    assert not found[True], f"with deterministic: true these differ: {found[True]}"
    free = f"{len(found[False])} columns differ" if found[False] else "the same too"
    return f"4 rows the same; without deterministic: {free}"


def registries(device: str, folder: Path) -> str:
    images, tokens = (
        ", ".join(sorted(name for name, of in variants("model").items() if of.kind == kind))  # type: ignore[attr-defined]  # each has one
        for kind in ("image", "tokens")
    )
    digits, of_all = "digits, train: 500, validation: 300", set(variants("optim")) - OWN
    optims = ", ".join(sorted(of_all))
    networks = 0
    grids = [
        (axis, GRID.format(data, model, optim, axis=axis, names=names))
        for data, model, optim, axis, names in (
            (digits, "width: 4", "name: sgd,", "model.name", images),
            ("modular, p: 23", "width: 12", "name: sgd,", "model.name", tokens),
            (digits, "name: resnet9, width: 4", "", "optim.name", optims),
            ("modular, p: 23", "name: transformer", "", "optim.name", optims),
        )
    ]
    for i, (axis, text) in enumerate([*grids, ("data.name", TOKENS)]):
        for value in (True, False):
            run = folder / f"{axis}-{i}-{value}"
            initmem.run(study(device, folder, "grid", text, deterministic=value), run, local=True)
            for row in Store(run).rows():
                told = f"{row[axis]}, deterministic: {value}: {row['state']} {row['error']}"
                assert row["steps"] == 20 and row["state"] not in ("failed", "diverged"), told
                assert (row["device"] == "cpu") == (device == "cpu"), row["device"]
                networks += 1
    return f"{networks} networks, 20 steps each, half of them deterministic"


def init(device: str, folder: Path) -> str:
    for of in BUILT:
        starts_as_on_a_cpu(of, device)
    losses: list[torch.Tensor] = []
    for where in (device, "cpu"):
        run = folder / f"near-{len(losses)}"
        initmem.run(study(where, folder, "near"), run, local=True)
        losses.append(torch.tensor([row["final.train_loss"] for row in Store(run).rows()]))
    apart = ((losses[0] - losses[1]).abs() / losses[1]).max().item()
    assert apart <= CLOSE, f"final train losses are {apart:.1e} apart, allowed {CLOSE}"
    return f"{len(BUILT)} networks equal; {len(losses[0])} train losses {apart:.1e} apart"


def bf16(device: str, folder: Path) -> str:
    told = []
    for of in (WIDE, CUT[4]):
        pair = [trained(of.model_copy(update={"precision": p}), device, tiny.Memory()).curve
                for p in ("bf16", "float32")]  # fmt: skip
        first, last, full = (p["train_loss"] for p in (pair[0][0], pair[0][-1], pair[1][-1]))
        assert full != last < first, f"bf16 {first} to {last}, float32 {full}"
        told.append(f"{of.model.name} {last:.4f} (float32 {full:.4f})")
    return f"train loss {', '.join(told)}"


def engines(device: str, folder: Path) -> str:
    where = torch.device(device)
    for engine, of in CASES:
        depends_on_no_neighbour(engine, of, where)
        takes_the_plain_modules_step(engine, of, where)
    return f"{len(CASES)} recipes, beside 0, 1, 2 and 4 others, one of them diverging"


def speed(device: str, folder: Path) -> str:
    """On a CPU the workloads are tiny, and the figures say nothing."""
    told = []
    for work in (FOR_A_GPU, *WORKS):
        of = work.tiny() if device == "cpu" else work
        for precision in ("float32", "bf16"):
            for engine, R in TEAMS[:3] if work is FOR_A_GPU else TEAMS:
                milliseconds = 1e3 * seconds_a_step(of, precision, engine, R)
                told.append(f"{work.name} {precision} {engine} R={R}: {milliseconds:.3g}")
    return "ms a network-step\n  " + "\n  ".join(told)


def seconds_a_step(work: Workload, precision: str, engine: str, R: int) -> float:
    data, recipe = work.dataset().to(DEVICE), work.recipe(precision)
    trainings = [Training(recipe, seed, data, DEVICE, engine) for seed in range(R)]
    of = ENGINES[engine](trainings)

    def steps(n: int) -> None:
        for _ in range(n):
            of.update()

    steps(5)  # the graph is captured in the fourth
    clock = partial(clocked, steps)
    count = steps_a_round(clock)
    return clock(count) / count / R


def fit(device: str, folder: Path) -> str:
    """On a CPU the share is of no memory, and only its study is trained."""
    found = measure(study(device, folder, "fit"), Path("data"))
    k = fitting(found.block, found.total) if found.total else 1
    if device == "cuda":
        torch.cuda.set_per_process_memory_fraction(1 / k)
    try:
        initmem.run(study(device, folder, "fit"), folder / "fit", local=True)
    finally:
        if device == "cuda":
            torch.cuda.set_per_process_memory_fraction(1.0)
    errors = [row["error"] for row in Store(folder / "fit").rows() if row["error"]]
    assert not errors, f"with gpus: {share(k)}: {errors[0]}"
    return found.told


def shares(device: str, folder: Path) -> str:
    initmem.run(long_study(device, folder, 1), folder / "local", local=True)
    seconds: dict[int, float] = {}
    for blocks, workers in {"cuda": [(1, 4), (2, 4), (4, 4)], "cpu": [(1, 1), (2, 2)]}[device]:
        run = folder / f"share-{blocks}"
        of = long_study(device, folder, 1 / blocks)
        seconds[blocks] = initmem.run(of, run, workers=workers).seconds
        wrong = differing(folder / "local", run)
        assert not wrong, f"{blocks} at once: these differ from --local: {wrong}"
        assert at_once(run) == blocks, f"{at_once(run)} blocks at once, not {blocks}"
    told = [f"{n} at once {s:.1f} s ({seconds[1] / s:.2f}x)" for n, s in seconds.items()]
    return f"rows of --local; with the start of Ray: {', '.join(told)}"


def memory(device: str, folder: Path) -> str:
    if device == "cpu":
        return "a CPU has no shares"
    of = study(device, folder, "large", LARGE, gpus=0.02, on_oom="grow", deterministic=False)
    initmem.run(of, folder / "large", workers=1)
    rows = Store(folder / "large").rows()
    assert {row["run.gpus"] for row in rows} == {1.0} and "failed" not in {
        r["state"] for r in rows
    }
    (first, *_) = (folder / "large" / "records").glob("*.failed")
    why = json.loads(first.read_bytes().partition(b"\n")[2])["error"]
    return f"{why}; with a whole one {max(r['run.gpu_peak'] for r in rows) / 1e9:.1f} GB"


def killed(device: str, folder: Path) -> str:
    initmem.run(long_study(device, folder, 0.5), folder / "local", local=True)
    path, run = folder / "long.yaml", folder / "killed"
    with driver(run, path) as process:
        wait_for_records(run, 3, process)
        os.killpg(process.pid, signal.SIGKILL)
    left = len(Store(run).names())
    with driver(run, path) as process:
        assert process.wait(timeout=240) == 0, said(path)
    wrong, rows = differing(folder / "local", run), Store(run).rows()
    assert not wrong, f"these differ: {wrong}"
    twice = sum(row["run.repeated_steps"] for row in rows)
    return f"at {left} of {len(rows)} rows; then the same rows, {twice} steps trained twice"


CHECKS = (resume, processes, registries, init, bf16, engines, speed, fit, shares, memory, killed)


@click.command()
@click.option("--device", type=click.Choice(["cuda", "cpu"]), default="cuda", show_default=True)
def main(device: str) -> None:
    """Check what initmem promises on this machine's GPU."""
    if device == "cuda" and not torch.cuda.is_available():
        click.echo("gpu_check: no GPU that torch can use; --device cpu runs it without one")
        sys.exit(2)
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    print(f"{name}, torch {torch.__version__}, CUDA {torch.version.cuda}", flush=True)
    failed = False
    with tempfile.TemporaryDirectory(prefix="gpu") as folder, open(f"{folder}/said", "w") as log:
        for check in CHECKS:
            clock = time.monotonic()
            try:
                with contextlib.redirect_stdout(log), arithmetic(1, deterministic=True):
                    told, state = check(device, Path(folder)), "ok"
            except Exception as error:
                told, state, failed = f"{type(error).__name__}: {error}", "FAILED", True
            seconds = time.monotonic() - clock
            print(f"{check.__name__:<11}{state:<7}{seconds:4.0f} s  {told}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.gpu_check")
