"""One training after the other: the loop trains each stage, this hands on what a stage ended with.

The second stage's checkpoints lie behind those of the first: its steps are numbered from the
budget of the first on, and one at its step 0 spares the first stage from being trained again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from initmem.data.load import load, of_seed
from initmem.study.recipe import Recipe
from initmem.training.loop import Checkpoints, Meter, train
from initmem.training.online import Online
from initmem.training.replica import Training
from initmem.training.resume import follow, owned, packed

Stages = list[list[Training]]
"""The trainings of each stage; those at one place are of one replica."""


def training_of(recipe: Recipe) -> type[Training]:
    return Online if recipe.streams else Training


def begin(
    replicas: Sequence[tuple[Recipe, int]], folder: Path, device: torch.device, engine: str
) -> Stages:
    """Recipes and seeds of one shape -> their stages, one or two.

    folder: of the data sets. Inputs of all stages are standardized as those of the first.
    """
    recipe, seed = replicas[0]
    datasets = [load(of_seed(of.data, seed), folder).to(device) for of in recipe.stages]
    mean, sd = datasets[0].mean, datasets[0].sd
    stages: Stages = [[] for _ in datasets]
    for recipe, seed in replicas:
        for stage, of, data in zip(stages, recipe.stages, datasets, strict=True):
            same = replace(data, mean=mean, sd=sd)
            stage.append(training_of(of)(of, seed, same, device, engine))
    return stages


def train_stages(
    stages: Stages, checkpoints: Sequence[Checkpoints], checkpoint_every: int
) -> Iterator[Training]:
    """Train to the end of the last stage, each replica from its latest checkpoint, of whichever
    stage. Yields as `train` does. A replica that diverges in the first stage ends there, and the
    training of its last stage says so."""
    if len(stages) == 1:
        yield from train(stages[0], checkpoints, checkpoint_every)
        return
    pairs = list(zip(*stages, strict=True))
    shelves = [_Shelf(kept, pair) for kept, pair in zip(checkpoints, pairs, strict=True)]
    todo = [shelf for shelf in shelves if not shelf.second.found]
    yield from train(
        [shelf.training[0] for shelf in todo], [shelf.first for shelf in todo], checkpoint_every
    )
    for shelf in shelves:
        first, second = shelf.training
        follow(second, first)
        if shelf in todo and second.finite:
            shelf.second.save(0, packed(second))
    left = [shelf for shelf in shelves if shelf.training[1].finite]
    yield from train(
        [shelf.training[1] for shelf in left], [shelf.second for shelf in left], checkpoint_every
    )


class _Shelf:
    """The checkpoints of one replica, by stage."""

    def __init__(self, kept: Checkpoints, training: tuple[Training, ...]) -> None:
        self.training = first, second = training
        found = kept.latest(lambda content: any(owned(one, content) for one in training))
        owner = next((one for one in training if found and owned(one, found)), None)
        budget = first.recipe.total_steps
        self.first = _Behind(kept, 0, found if owner is first else None, True)
        self.second = _Behind(kept, budget, found if owner is second else None, owner is second)


class _Behind:
    """Checkpoints of a stage, numbered behind `before` steps."""

    def __init__(self, kept: Checkpoints, before: int, found: bytes | None, starts: bool) -> None:
        """starts: whether the replica's training starts, or goes on, in this stage."""
        self.kept, self.before, self.found, self.starts = kept, before, found, starts

    def save(self, step: int, content: bytes) -> None:
        self.kept.save(self.before + step, content)

    def latest(self, takes: Callable[[bytes], bool]) -> bytes | None:
        return self.found if self.found is not None and takes(self.found) else None

    def meter(self) -> Meter:
        return _MeterBehind(self.kept.meter(), self.before, self.starts)


class _MeterBehind:
    def __init__(self, meter: Meter, before: int, starts: bool) -> None:
        self.meter, self.before, self.starts = meter, before, starts

    def starts_at(self, step: int) -> None:
        tell = self.meter.starts_at if self.starts else self.meter.reached
        tell(self.before + step)

    def reached(self, step: int) -> None:
        self.meter.reached(self.before + step)
