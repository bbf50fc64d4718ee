"""A block of replicas, trained in this process: what a Tune trial does, and what `--local` does
without Ray."""

from __future__ import annotations

import platform
import socket
import time
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import torch

import initmem
from initmem.records.rows import Row, complete
from initmem.records.store import Store
from initmem.study.plan import Block, Replica
from initmem.study.recipe import digest, flatten
from initmem.study.spec import Study, UserError, one_line
from initmem.training.batched import alone
from initmem.training.loop import Checkpoints
from initmem.training.replica import Training, conditions
from initmem.training.stack import shape
from initmem.training.stages import begin, train_stages
from initmem.tune.place import OUT_OF_MEMORY, Place
from initmem.tune.process import arithmetic, products

Progress = dict[str, dict[str, float]]
"""The label of a replica -> the newest point of its curve."""


def train_block(
    study: Study, block: Block, store: Store, data: Path, place: Place
) -> Iterator[Progress]:
    """Train the replicas that have no record yet, and leave one for each.

    data: the folder of the data sets. Yields after every evaluation. An error of the program in
    one replica becomes that replica's row, with state failed. Raises torch.AcceleratorError if
    this process has lost its GPU: every replica after this one would fail as well.
    """
    choices = store.engines() if study.resources.engine == "auto" else {}
    with arithmetic(study.resources.cpus, study.resources.deterministic):
        for engine, team in teams(study, block, choices, place.device):
            left = [replica for replica in team if store.done(replica) is None]
            kept = {replica.id: store.checkpoints_of(replica.id) for replica in team}
            if left:
                checkpoints = [kept[replica.id] for replica in left]
                rows = yield from train_team(study, left, data, checkpoints, engine, place)
                for row in rows:
                    meter = kept[row["replica"]].meter()
                    row |= {"run.resumed": meter.resumed, "run.repeated_steps": meter.repeated}
                    store.put(row)
            if not study.resources.keep_checkpoints:
                for each in kept.values():
                    each.remove()


def teams(
    study: Study, block: Block, choices: Mapping[str, str], device: torch.device
) -> Iterator[tuple[str, list[Replica]]]:
    """Engine and replicas that it trains at once. choices: see `engines.timed`."""
    for team in same_shape(block.replicas):
        engine: str = study.resources.engine
        if engine == "auto":
            engine = choices.get(choice(team, device), "loop")
        large = any(alone(stage, device) for stage in team[0].recipe.stages)
        if engine == "loop" or (engine == "batched" and large):
            yield from ((engine, [replica]) for replica in team)
        else:
            yield engine, team


def same_shape(replicas: Sequence[Replica]) -> list[list[Replica]]:
    found: dict[Hashable, list[Replica]] = {}
    for replica in replicas:
        found.setdefault(shape(replica.recipe), []).append(replica)
    return list(found.values())


def choice(team: Sequence[Replica], device: torch.device) -> str:
    """What the faster engine depends on, as a name."""
    return digest([repr(shape(team[0].recipe)), len(team), device.type])


def train_team(
    study: Study,
    replicas: Sequence[Replica],
    data: Path,
    checkpoints: Sequence[Checkpoints],
    engine: str,
    place: Place,
) -> Generator[Progress, None, list[Row]]:
    """Train networks that the engine trains at once. The generator's value is their rows."""
    clock = time.perf_counter()
    place.hold()
    try:
        return (yield from _trained(study, replicas, data, checkpoints, engine, place))
    except (UserError, torch.AcceleratorError):
        raise
    except Exception as error:
        failure = described(error, place)
    # Behind the except, where the error holds no tensors any more.
    if place.device.type == "cuda":
        torch.cuda.empty_cache()
    if len(replicas) > 1:  # one by one, with the same bits: an error is its own replica's
        apart = []
        for replica, kept in zip(replicas, checkpoints, strict=True):
            apart += yield from train_team(study, [replica], data, [kept], engine, place)
        return apart
    row = head(study, replicas[0]) | conditions(place.device, engine) | place.peaks()
    row |= {"state": "failed", "error": failure, "run.seconds": time.perf_counter() - clock}
    return [complete(row)]


def _trained(
    study: Study,
    replicas: Sequence[Replica],
    data: Path,
    checkpoints: Sequence[Checkpoints],
    engine: str,
    place: Place,
) -> Generator[Progress, None, list[Row]]:
    """`train_team`, where nothing goes wrong."""
    device, rows = place.device, []
    heads = [head(study, replica) for replica in replicas]
    stages = begin([(r.recipe, r.seed) for r in replicas], data, device, engine)
    labels: dict[Training, str] = {}
    for stage in stages:
        first = "" if stage is stages[-1] else "first_"
        labels |= {t: first + label(study, r) for t, r in zip(stage, replicas, strict=True)}
    with products(replicas[0].recipe.precision):
        for training in train_stages(stages, checkpoints, study.resources.checkpoint_every):
            yield {labels[training]: training.curve[-1]}
        outcomes = [training.outcome() for training in stages[-1]]
    for row, training, outcome in zip(heads, stages[-1], outcomes, strict=True):
        row |= conditions(device, engine) | outcome.row() | place.peaks()
        row["parameters"] = sum(p.numel() for p in training.network.parameters())
        row |= {"data_hash": training.data.hash, "run.seconds": training.seconds}
        row["run.probing"] = training.probing
        rows.append(complete(row))
    return rows


def described(error: Exception, place: Place) -> str:
    """For a row's `error`, in a line; out of memory with what the block had and held."""
    text = f"{type(error).__name__}: {one_line(first_line(error))}"
    if not isinstance(error, torch.OutOfMemoryError) or place.gpus is None:
        return text
    held, limit = place.peaks()["run.gpu_peak"] / 1e9, place.limit
    bound = "" if limit is None else f" of {limit / 1e9:.1f}"
    asked = text.partition(": ")[2].partition(" GPU ")[0]
    return f"{OUT_OF_MEMORY}: {held:.1f}{bound} GB held ({place.gpus:g} of a GPU): {asked}"


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


def lost(study: Study, replica: Replica, why: str) -> Row:
    """The row of a replica that took its worker with it time after time."""
    return complete({**head(study, replica), "state": "failed", "error": why})


def head(study: Study, replica: Replica) -> Row:
    """What is known of a row before training."""
    return {
        "study": study.name,
        "arm": replica.arm,
        "cell": replica.cell,
        "draw": replica.draw,
        "replica": replica.id,
        "seed": replica.seed,
        "memory_axis": study.memory_axis,
        **flatten(replica.recipe),
        "version.initmem": initmem.__version__,
        "version.torch": str(torch.__version__),
        "version.python": platform.python_version(),
        "run.host": socket.gethostname(),
        "run.started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def label(study: Study, replica: Replica) -> str:
    """Short name of a replica inside its block, for curves."""
    value = flatten(replica.recipe)[study.memory_axis]
    return f"{study.memory_axis.rpartition('.')[2]}_{value}_seed_{replica.seed}"
