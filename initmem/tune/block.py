"""A block of replicas, trained in this process: what a Tune trial does, and what `--local` does
without Ray."""

from __future__ import annotations

import os
import platform
import socket
import time
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import initmem
from initmem.data.load import load
from initmem.records.rows import Row, complete
from initmem.records.store import Store
from initmem.study.plan import Block, Replica
from initmem.study.recipe import digest, flatten
from initmem.study.spec import Study, UserError, one_line
from initmem.training.batched import alone
from initmem.training.loop import Checkpoints, train
from initmem.training.replica import Training, conditions
from initmem.training.stack import shape

Progress = dict[str, dict[str, float]]
"""The label of a replica -> the newest point of its curve."""


def train_block(study: Study, block: Block, store: Store, data: Path) -> Iterator[Progress]:
    """Train the replicas that have no record yet, and leave one for each.

    data: the folder of the data sets. Yields after every evaluation. An error of the program in
    one replica becomes that replica's row, with state failed. Raises torch.AcceleratorError if
    this process has lost its GPU: every replica after this one would fail as well.
    """
    choices = store.engines() if study.resources.engine == "auto" else {}
    with arithmetic(study.resources.cpus, study.resources.deterministic):
        for engine, team in teams(study, block, choices):
            left = [replica for replica in team if store.done(replica) is None]
            kept = {replica.id: store.checkpoints_of(replica.id) for replica in team}
            if left:
                places = [kept[replica.id] for replica in left]
                rows = yield from train_team(study, left, data, places, engine)
                for row in rows:
                    meter = kept[row["replica"]].meter()
                    row |= {"run.resumed": meter.resumed, "run.repeated_steps": meter.repeated}
                    store.put(row)
            if not study.resources.keep_checkpoints:
                for checkpoints in kept.values():
                    checkpoints.remove()


def teams(
    study: Study, block: Block, choices: Mapping[str, str]
) -> Iterator[tuple[str, list[Replica]]]:
    """Engine and replicas that it trains at once. choices: see `engines.timed`."""
    device = device_of(study)
    for team in same_shape(block.replicas):
        engine: str = study.resources.engine
        if engine == "auto":
            engine = choices.get(choice(team, device), "loop")
        if engine == "loop" or (engine == "batched" and alone(team[0].recipe, device)):
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


@contextmanager
def arithmetic(threads: int, deterministic: bool) -> Iterator[None]:
    """Fix what the bits of a result depend on, beside recipe and seed: threads; on a GPU, kernels
    whose bits are the same every time, or the fastest; float32 without TF32, which keeps 10 bits
    of 23 and is torch's default for convolutions. The process gets its own settings back."""
    # Read once, at the first product on a GPU, and then asked of every deterministic study: it
    # must be there even if the first study of this process is not deterministic.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    conv: Any = cudnn.conv  # type: ignore[attr-defined]  # torch's stubs lack it
    before = (
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        cudnn.benchmark,
        conv.fp32_precision,
        matmul.fp32_precision,
    )
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)  # arithmetic on denormals is up to 30 times slower
    torch.use_deterministic_algorithms(deterministic)
    cudnn.benchmark = not deterministic
    conv.fp32_precision = matmul.fp32_precision = "ieee"
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.set_flush_denormal(False)
        torch.use_deterministic_algorithms(before[1])
        cudnn.benchmark, conv.fp32_precision, matmul.fp32_precision = before[2:]


@contextmanager
def products(precision: str) -> Iterator[None]:
    """Products of float32 matrices: exact, or as precision `medium` allows."""
    cpu: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]  # torch's stubs lack it
    gpu = torch.backends.cuda.matmul
    before = cpu.fp32_precision, gpu.fp32_precision
    if precision == "medium":
        cpu.fp32_precision, gpu.fp32_precision = "bf16", "tf32"
    try:
        yield
    finally:
        cpu.fp32_precision, gpu.fp32_precision = before


def device_of(study: Study) -> torch.device:
    """cpu or cuda. Raises UserError where GPUs are asked for and there are none."""
    asked = study.resources.device or ("cuda" if study.resources.gpus else "cpu")
    there = torch.cuda.device_count()
    if asked == "cuda" and not there:
        field = "device: cuda" if study.resources.device else f"gpus: {study.resources.gpus:g}"
        raise UserError(
            f"{study.name}: resources: asks for {field}, but this machine has no GPU that torch "
            f"can use; remove it or write device: auto, which takes what there is"
        )
    return torch.device("cuda" if asked != "cpu" and there else "cpu")


def train_team(
    study: Study,
    replicas: Sequence[Replica],
    data: Path,
    checkpoints: Sequence[Checkpoints],
    engine: str,
) -> Generator[Progress, None, list[Row]]:
    """Train networks that the engine trains at once. The generator's value is their rows."""
    clock = time.perf_counter()
    device = device_of(study)
    rows = [head(study, replica) | conditions(device, engine) for replica in replicas]
    try:
        dataset = load(replicas[0].recipe.data, data).to(device)
        trainings = [Training(r.recipe, r.seed, dataset, device, engine) for r in replicas]
        labels = {t: label(study, r) for t, r in zip(trainings, replicas, strict=True)}
        with products(replicas[0].recipe.precision):
            for training in train(trainings, checkpoints, study.resources.checkpoint_every):
                yield {labels[training]: training.curve[-1]}
            outcomes = [training.outcome() for training in trainings]
        for row, training, outcome in zip(rows, trainings, outcomes, strict=True):
            row |= outcome.row()
            row["parameters"] = sum(p.numel() for p in training.network.parameters())
            row |= {"data_hash": dataset.hash, "run.seconds": training.seconds}
    except (UserError, torch.AcceleratorError):
        raise
    except Exception as error:
        if len(replicas) > 1:  # one by one, with the same bits: an error is its own replica's
            apart = []
            for replica, place in zip(replicas, checkpoints, strict=True):
                apart += yield from train_team(study, [replica], data, [place], engine)
            return apart
        first = one_line(first_line(error))
        rows[0] |= {"state": "failed", "error": f"{type(error).__name__}: {first}"}
        rows[0]["run.seconds"] = time.perf_counter() - clock
    return [complete(row) for row in rows]


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
