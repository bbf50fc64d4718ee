"""How many blocks a GPU holds, and how fast one is: measured on the first block of a study."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from initmem.data.load import check, load
from initmem.study.plan import Block, Replica, arms, blocks, cell
from initmem.study.spec import Study, UserError
from initmem.training.loop import ENGINES, evaluate
from initmem.training.resume import packed
from initmem.training.stages import training_of
from initmem.tune.block import choice, same_shape, teams
from initmem.tune.engines import ROUNDS, open_choices, seconds_a_step, timed
from initmem.tune.place import CONTEXT_BYTES, Place, here
from initmem.tune.process import arithmetic, products

MARGIN = 0.1
"""Of a GPU's memory that is left free: no two blocks are quite the same."""
MOST = 99
"""Blocks on a GPU: the smallest share that `resources.gpus` takes."""


@dataclass(frozen=True)
class Fit:
    """A block on a GPU. Memory is in bytes, and 0 on a CPU."""

    gpu: str
    total: int
    """Memory of the GPU."""
    held: int
    """The most that torch held of it."""
    besides: int
    """What CUDA takes for a process, and whoever else is on the GPU."""
    networks: int
    seconds: float
    """A step of one of its networks, evaluations shared out."""

    @property
    def block(self) -> int:
        """What it needs of a GPU, as `Place.limit` counts it."""
        return self.held + max(self.besides, CONTEXT_BYTES)

    @property
    def told(self) -> str:
        """In a line, with what to set."""
        speed = f"{1e3 * self.seconds:.3g} ms a network-step"
        if not self.total:
            return f"no GPU that torch can use; {speed} on a CPU"
        held, besides, total = (f"{n / 1e9:.1f}" for n in (self.held, self.besides, self.total))
        k = fitting(self.block, self.total)
        way = f"{k} fit: --set resources.gpus={share(k)}" if k else "none fits: lower optim.batch"
        return (
            f"{self.gpu}: a block of {self.networks} networks needs {self.block / 1e9:.1f} of "
            f"{total} GB ({held} for torch, {besides} for CUDA and all else on this GPU); with "
            f"{100 * MARGIN:g}% left free {way}; {speed}"
        )


def fitting(block: int, total: int) -> int:
    """Blocks that fit in a GPU at once, each of so many bytes."""
    return min(int(total * (1 - MARGIN) // block), MOST)


def share(k: int) -> str:
    """1/k as a study has it, never more than that: k of them are to fit."""
    digits = 10 ** (3 + math.ceil(math.log10(k)))
    return f"{math.floor(digits / k) / digits:g}"


def measure(study: Study, data: Path) -> Fit:
    """Train the first block of a study for a few seconds, by its engine, on the device that the
    study asks for.

    data: folder of the data sets. Raises UserError if they are not there, or a block does not fit
    on the GPU alone.
    """
    place = here(study)
    device = place.device
    low = {field: r.low for field, r in study.ranges.items()}
    block = blocks(study, cell(study, arms(study)[0], 0, low))[0]
    check(block.replicas[0].recipe.data, data)
    try:
        with arithmetic(study.resources.cpus, study.resources.deterministic):
            choices = _choices(study, block, data, place)
            if device.type == "cuda":
                torch.cuda.empty_cache()
            place.hold()
            seconds = _seconds(study, block, choices, data, device)
    except torch.OutOfMemoryError:
        many = f"a block of {len(block.replicas)} networks"
        text = f"{many} does not fit on this GPU; lower resources.replicas or optim.batch"
        raise UserError(f"{study.name}: resources: {text}") from None
    gpu, total, held, besides = _memory(device)
    return Fit(gpu, total, held, besides, len(block.replicas), seconds)


def _choices(study: Study, block: Block, data: Path, place: Place) -> dict[str, str]:
    """The engines of the block's teams, where the study leaves them open."""
    opened = open_choices(study, place.device) if study.resources.engine == "auto" else {}
    names = {choice(team, place.device) for team in same_shape(block.replicas)}
    return timed(study, {name: opened[name] for name in names & opened.keys()}, data, place)


def _seconds(
    study: Study, block: Block, choices: dict[str, str], data: Path, device: torch.device
) -> float:
    """A step of one network, over the block's teams; those that are alike are trained once."""
    of_team: dict[tuple[str, str], float] = {}
    seconds = 0.0
    for engine, team in teams(study, block, choices, device):
        like = engine, choice(team, device)
        if like not in of_team:
            of_team[like] = _of_team(engine, team, data, device)
        seconds += of_team[like] * len(team)
    return seconds / len(block.replicas)


def _of_team(engine: str, team: list[Replica], data: Path, device: torch.device) -> float:
    recipe = team[0].recipe
    dataset = load(recipe.data, data).to(device)
    begun = training_of(recipe)
    training = ENGINES[engine]([begun(r.recipe, r.seed, dataset, device, engine) for r in team])
    with products(recipe.precision):
        step = min(seconds_a_step(training) for _ in range(ROUNDS))
        evaluate(training)  # the first finds its kernels
        clock = time.perf_counter()
        evaluate(training)
        evaluation = (time.perf_counter() - clock) / len(team)
        if recipe.read:
            for member in training.members:
                member.probe()
        packed(training.members[0])
    return step + evaluation / recipe.evaluation_interval


def _memory(device: torch.device) -> tuple[str, int, int, int]:
    """The GPU's name and its memory: all, the most that torch held, what else is taken."""
    if device.type == "cpu":
        return "cpu", 0, 0, 0
    free, total = torch.cuda.mem_get_info(device)
    besides = total - free - torch.cuda.memory_reserved(device)
    return (
        torch.cuda.get_device_name(device), total, torch.cuda.max_memory_reserved(device), besides
    )  # fmt: skip
