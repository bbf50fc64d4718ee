"""A block of replicas, trained one after the other in this process: what a Tune trial does, and
what `--local` does without Ray."""

from __future__ import annotations

import os
import platform
import socket
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import torch

import initmem
from initmem.data.load import load
from initmem.records.rows import Row, complete
from initmem.records.store import Store
from initmem.study.plan import Block, Replica
from initmem.study.recipe import flatten
from initmem.study.spec import Study, UserError, one_line
from initmem.training.loop import Checkpoints, Training, train

Progress = dict[str, dict[str, float]]
"""The label of a replica -> the newest point of its curve."""


def train_block(study: Study, block: Block, store: Store, data: Path) -> Iterator[Progress]:
    """Train the replicas that have no record yet, and leave one for each.

    data: the folder of the data sets. Yields after every evaluation. An error of the program in
    one replica becomes that replica's row, with state failed.
    """
    with arithmetic(study.resources.cpus, study.resources.deterministic):
        for replica in block.replicas:
            checkpoints = store.checkpoints_of(replica.id)
            if store.done(replica) is None:
                row = yield from train_replica(study, replica, data, checkpoints)
                meter = checkpoints.meter()
                row |= {"run.resumed": meter.resumed, "run.repeated_steps": meter.repeated}
                store.put(row)
            if not study.resources.keep_checkpoints:
                checkpoints.remove()


@contextmanager
def arithmetic(threads: int, deterministic: bool) -> Iterator[None]:
    """Fix what the bits of a result depend on, beside recipe and seed; on a GPU, take kernels
    whose bits are the same every time, or the fastest. The process gets its own settings back."""
    if deterministic:  # CUDA reads it once, at its first use
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = (
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.benchmark,
    )
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)  # arithmetic on denormals is up to 30 times slower
    torch.use_deterministic_algorithms(deterministic)
    torch.backends.cudnn.benchmark = not deterministic
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.set_flush_denormal(False)
        torch.use_deterministic_algorithms(before[1])
        torch.backends.cudnn.benchmark = before[2]


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


def train_replica(
    study: Study, replica: Replica, data: Path, checkpoints: Checkpoints
) -> Generator[Progress, None, Row]:
    """Train one network. The generator's value is its row."""
    clock = time.perf_counter()
    device = device_of(study)
    row = _head(study, replica)
    row |= {
        "device": device.type if device.type == "cpu" else torch.cuda.get_device_name(device),
        "deterministic": device.type == "cpu" or torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
    }
    try:
        dataset = load(replica.recipe.data, data).to(device)
        training = Training(replica.recipe, replica.seed, dataset, device)
        for point in train(training, checkpoints, study.resources.checkpoint_every):
            yield {label(study, replica): point}
        outcome = training.outcome()
    except UserError:
        raise
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        row |= {"state": "failed", "error": f"{type(error).__name__}: {one_line(first)}"}
        row["run.seconds"] = time.perf_counter() - clock
    else:
        row |= outcome.row()
        row |= {
            "parameters": sum(p.numel() for p in training.network.parameters()),
            "data_hash": dataset.hash,
            "run.seconds": training.seconds,
        }
    return complete(row)


def lost(study: Study, replica: Replica, why: str) -> Row:
    """The row of a replica that took its worker with it time after time."""
    return complete({**_head(study, replica), "state": "failed", "error": why})


def _head(study: Study, replica: Replica) -> Row:
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
        "version.torch": torch.__version__,
        "version.python": platform.python_version(),
        "run.host": socket.gethostname(),
        "run.started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def label(study: Study, replica: Replica) -> str:
    """Short name of a replica inside its block, for curves."""
    value = flatten(replica.recipe)[study.memory_axis]
    return f"{study.memory_axis.rpartition('.')[2]}_{value}_seed_{replica.seed}"
