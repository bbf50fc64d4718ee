"""A block of replicas, trained one after the other in this process: what a Tune trial does, and
what `--local` does without Ray."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import socket
import time
from collections.abc import Generator, Iterator
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
from initmem.study.recipe import flatten
from initmem.study.spec import Study, UserError, one_line
from initmem.training.loop import Checkpoints, Training, conditions, train

Progress = dict[str, dict[str, float]]
"""The label of a replica -> the newest point of its curve."""


def train_block(study: Study, block: Block, store: Store, data: Path) -> Iterator[Progress]:
    """Train the replicas that have no record yet, and leave one for each.

    data: the folder of the data sets. Yields after every evaluation. An error of the program in
    one replica becomes that replica's row, with state failed. Raises torch.AcceleratorError if
    this process has lost its GPU: every replica after this one would fail as well.
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
    """Fix what the bits of a result depend on, beside recipe and seed: threads; on a GPU, kernels
    whose bits are the same every time, or the fastest; float32 without TF32, which keeps 10 bits
    of 23 and is torch's default for convolutions. The process gets its own settings back."""
    keep_memory()
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


@functools.cache
def keep_memory() -> None:
    """Let the C library keep what is freed for what is asked for next: given back to the system
    and taken again in every step, activations cost page faults. For good, for glibc cannot be
    told to go back; other C libraries are left as they are. No bit depends on it."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(-4, 0)  # M_MMAP_MAX: no block is a mapping of its own, which free would undo
        mallopt(-1, -1)  # M_TRIM_THRESHOLD: the end of the heap is never given back
        mallopt(-2, 64 * 2**20)  # M_TOP_PAD: it grows in steps of 64 MiB


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
    row = head(study, replica) | conditions(device)
    try:
        dataset = load(replica.recipe.data, data).to(device)
        training = Training(replica.recipe, replica.seed, dataset, device)
        for point in train(training, checkpoints, study.resources.checkpoint_every):
            yield {label(study, replica): point}
        outcome = training.outcome()
    except (UserError, torch.AcceleratorError):
        raise
    except Exception as error:
        first = one_line(first_line(error))
        row |= {"state": "failed", "error": f"{type(error).__name__}: {first}"}
        row["run.seconds"] = time.perf_counter() - clock
    else:
        row |= outcome.row()
        row |= {
            "parameters": sum(p.numel() for p in training.network.parameters()),
            "data_hash": dataset.hash,
            "run.seconds": training.seconds,
        }
    return complete(row)


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
