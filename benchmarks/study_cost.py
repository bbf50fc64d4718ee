"""What would a study cost? Floating-point operations, and hours at the speed of this
machine.

    python -m benchmarks.study_cost studies/paper/*.yaml             operations alone, at once
    python -m benchmarks.study_cost studies/digits/long.yaml --device cpu
    python -m benchmarks.study_cost studies/paper/*.yaml --device cuda

Operations are counted on the network's forward and backward pass; evaluations and the optimizer
are left out. Hours come from a few steps on random data, one network after the other, with the
threads of `resources.cpus`. Blocks that share a GPU take less.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import click
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from initmem.data.dataset import Dataset, Split, assemble, assemble_tokens
from initmem.data.preferences import gaussian_pairs
from initmem.data.regression import sparse_regression
from initmem.models import build
from initmem.study.data_section import IMAGES
from initmem.study.load import load
from initmem.study.plan import Arm, arms, draws, resolve
from initmem.study.preference_data import GaussianPairs
from initmem.study.recipe import Recipe
from initmem.study.regression_data import SparseRegression
from initmem.study.size import operations
from initmem.study.spec import Study
from initmem.study.token_data import Tokens
from initmem.training.replica import Training
from initmem.training.stages import training_of
from initmem.tune.process import arithmetic

WARM_UP, TIMED = 2, 5
"""Steps before the clock starts, and under it."""


@dataclass(frozen=True)
class Cost:
    steps: int
    """Of all networks."""
    operations: float
    """A multiplication and an addition are two."""
    hours: float | None


def operations_a_step(recipe: Recipe) -> float:
    if isinstance(recipe.data, SparseRegression | GaussianPairs):
        return operations(recipe)
    noise = _noise(recipe, recipe.batch)
    with torch.device("meta"):
        network = build(recipe.model, noise.shape, noise.classes, noise.vocabulary, noise.answers)
    with FlopCounterMode(display=False) as counter:
        network(noise.prepare(noise.train.inputs).to("meta")).sum().backward()
    return float(counter.get_total_flops())


def seconds_a_step(recipe: Recipe, threads: int, device: torch.device) -> float:
    """Median of a few steps; of an exact minimizer, its only one."""
    with arithmetic(threads, deterministic=False):
        if recipe.optim.name == "exact":
            training = Training(recipe, 0, _noise(recipe, 0).to(device), device)
            start = time.perf_counter()
            training.update()
            return time.perf_counter() - start
        data = _noise(recipe, recipe.batch * (WARM_UP + TIMED)).to(device)
        training = training_of(recipe)(recipe, 0, data, device)
        times = []
        for _ in range(WARM_UP + TIMED):
            start = time.perf_counter()
            training.update()
            training.losses_T[training.step - 1].item()  # waits for a GPU
            times.append(time.perf_counter() - start)
    return statistics.median(times[WARM_UP:])


def _noise(recipe: Recipe, count: int) -> Dataset:
    """As many random examples for each split, in the form of the recipe's data."""
    generator = torch.Generator().manual_seed(0)

    def drawn(high: int, *shape: int) -> Tensor:
        return torch.randint(high, shape, generator=generator)

    if isinstance(recipe.data, Tokens):
        length, vocabulary, classes = recipe.data.shape()
        answers = recipe.data.answers()
        targets = drawn(classes, *((count, answers) if answers > 1 else (count,)))
        tokens = Split(drawn(vocabulary, count, length), targets)
        return assemble_tokens(recipe.data, [tokens] * 3)
    if isinstance(recipe.data, SparseRegression):
        return sparse_regression(recipe.data)
    if isinstance(recipe.data, GaussianPairs):
        return gaussian_pairs(recipe.data)
    shape, classes = IMAGES[recipe.data.name], len(recipe.data.labels())
    images = Split(drawn(256, count, *shape).to(torch.uint8), drawn(classes, count))
    return assemble("image", classes, 0, images, images, images)


def cost(study: Study, device: torch.device | None) -> Cost:
    """Of all networks of a study; hours if there is a device to time them on."""
    networks = draws(study) * len(study.axes[study.memory_axis]) * study.seeds
    steps, operations, seconds = 0, 0.0, 0.0
    timed: dict[str, float] = {}
    for recipe in (stage for arm in arms(study) for stage in _recipe(study, arm).stages):
        in_arm = recipe.total_steps * networks
        steps += in_arm
        operations += in_arm * operations_a_step(recipe)
        # What sets the time of a step: arms that differ in a rate or a schedule are timed once.
        kind = f"{recipe.model} {recipe.data} {recipe.batch} {recipe.optim.name}"
        if device and kind not in timed:
            timed[kind] = seconds_a_step(recipe, study.resources.cpus, device)
        seconds += in_arm * timed.get(kind, 0.0)
    return Cost(steps, operations, seconds / 3600 if device else None)


def _recipe(study: Study, arm: Arm) -> Recipe:
    point = {field: r.low for field, r in study.ranges.items()}
    axis = study.memory_axis
    return resolve(study, {**arm.values, **point, axis: study.axes[axis][0]})


@click.command()
@click.argument("studies", nargs=-1, required=True)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="Time a few steps there.")
def main(studies: tuple[str, ...], device: str | None) -> None:
    """Say what each study would cost."""
    for path in studies:
        found = cost(load(path), torch.device(device) if device else None)
        said = f"{path}: {found.steps:,} steps, {found.operations:.1e} operations"
        if found.hours is not None:
            speed = found.operations / found.hours / 3600 / 1e12
            said += f"; {found.hours:,.1f} hours on one {device}, at {speed:.2g} TFLOP/s"
        click.echo(said)


if __name__ == "__main__":
    main()
