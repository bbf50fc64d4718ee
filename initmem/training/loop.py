"""The only training loop, whatever the engine.

`loop` trains replicas one after the other, each the plain module; `batched` and `graph` train all
at once that have one shape. A row depends on its recipe, seed, engine, threads and kind of device,
never on how many replicas were trained beside it, nor on which.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

from initmem.data.dataset import Split
from initmem.training.batched import Batched
from initmem.training.graph import Graph
from initmem.training.replica import Measured, Training
from initmem.training.resume import packed, restore


class Checkpoints(Protocol):
    """Where the state of one replica is kept."""

    def save(self, step: int, content: bytes) -> None: ...

    def latest(self, takes: Callable[[bytes], bool]) -> bytes | None:
        """The newest that `takes` accepts."""

    def meter(self) -> Meter: ...


class Meter(Protocol):
    """Counts steps, also those that a kill makes in vain."""

    def starts_at(self, step: int) -> None: ...

    def reached(self, step: int) -> None: ...


class Engine(Protocol):
    """Trains its members, which are all at the same step."""

    members: list[Training]

    def update(self) -> None:
        """One step of each."""

    def measure(self, split: Split) -> list[Measured]: ...

    def part(self, gone: list[Training]) -> None:
        """Train these no further."""


class Loop:
    """One network, by the plain module."""

    def __init__(self, members: list[Training]) -> None:
        assert len(members) == 1
        self.members = members

    def update(self) -> None:
        self.members[0].update()

    def measure(self, split: Split) -> list[Measured]:
        return [self.members[0].measure(split)]

    def part(self, gone: list[Training]) -> None:
        self.members = []


ENGINES: dict[str, Callable[[list[Training]], Engine]] = {
    "loop": Loop,
    "batched": Batched,
    "graph": Graph,
}


def train(
    trainings: Sequence[Training], checkpoints: Sequence[Checkpoints], checkpoint_every: int
) -> Iterator[Training]:
    """Train to the end, each from its latest checkpoint if there is one to go on from.

    trainings: of one engine, one for `loop`, of one shape for `batched`. Yields each whose curve
    has a new point. Then `training.outcome()` tells.
    """
    kept = dict(zip(trainings, checkpoints, strict=True))
    meters = {}
    for training, place in kept.items():
        place.latest(partial(restore, training))
        meters[training] = place.meter()
        meters[training].starts_at(training.step)
    # A kill between two checkpoints of one step leaves replicas at different steps. Who trains
    # beside whom is no matter, so those at one step go on together.
    for step in sorted({training.step for training in trainings}):
        members = [training for training in trainings if training.step == step]
        engine = ENGINES[members[0].conditions["engine"]](members)
        yield from _train(engine, kept, meters, checkpoint_every)


def _train(
    engine: Engine,
    kept: dict[Training, Checkpoints],
    meters: dict[Training, Meter],
    checkpoint_every: int,
) -> Iterator[Training]:
    recipe = engine.members[0].recipe
    step = engine.members[0].step
    clock = time.perf_counter()
    clock += _probe(engine)
    while engine.members and step < recipe.total_steps:
        engine.update()
        step += 1
        for training in engine.members:
            meters[training].reached(step)
        last = step == recipe.total_steps
        evaluating = step % recipe.evaluation_interval == 0 or last
        if evaluating:
            evaluate(engine)
        clock += _probe(engine)
        saving = step % checkpoint_every == 0 and not last
        if evaluating or saving:
            clock = _timed(engine.members, clock)
        if evaluating:
            members = list(engine.members)
            for training in members:
                if training.finite:
                    yield training
            clock = time.perf_counter()
            if gone := [training for training in members if training.ended]:
                engine.part(gone)
        if saving:
            for training in engine.members:
                kept[training].save(step, packed(training))


def _timed(members: list[Training], since: float) -> float:
    """Share the seconds that went by out among them. Returns the time."""
    clock = time.perf_counter()
    for training in members:
        training.seconds += (clock - since) / len(members)
    return clock


def evaluate(engine: Engine) -> None:
    """What its members can do at this step, on all sets."""
    members, data = list(engine.members), engine.members[0].data
    trains, validations = engine.measure(data.train), engine.measure(data.validation)
    oods = engine.measure(data.ood) if data.ood else [None] * len(members)
    for training, at_train, at_validation, ood in zip(
        members, trains, validations, oods, strict=True
    ):
        training.evaluated(at_train, at_validation, ood)


def _probe(engine: Engine) -> float:
    """Seconds taken, which are already counted with those whose probes took them."""
    return sum(training.probe() for training in engine.members if training.probes_now)
