"""Which engine is the faster one here, for studies that leave it open (`engine: auto`).

Timed before the first block, where blocks are trained, and kept in the run: whoever trains there,
then or after a kill, takes the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from initmem.data.load import load
from initmem.records.store import Store
from initmem.study.plan import Replica, arms, blocks, cell
from initmem.study.spec import Study
from initmem.training.batched import alone
from initmem.training.loop import ENGINES, Engine
from initmem.training.replica import Training
from initmem.tune.block import choice, same_shape
from initmem.tune.place import Place
from initmem.tune.process import arithmetic, products

ROUNDS, ROUND_S = 5, 0.2
GAIN = 1.1
"""Times as fast as loop that another engine must be: noise alone is to choose none."""

Timer = Callable[[Study, dict[str, list[Replica]], Path, Place], dict[str, str]]
"""`timed`, in this process or in one of Ray's."""


def open_choices(study: Study, device: torch.device) -> dict[str, list[Replica]]:
    """By name, the teams for which there is more than one engine."""
    point = {field: r.low for field, r in study.ranges.items()}
    found: dict[str, list[Replica]] = {}
    for arm in arms(study):
        for block in blocks(study, cell(study, arm, 0, point)):
            for team in same_shape(block.replicas):
                if len(_candidates(team, device)) > 1:
                    found.setdefault(choice(team, device), team)
    return found


def _candidates(team: Sequence[Replica], device: torch.device) -> list[str]:
    batched = ["batched"] if team[0].recipe.stacks else []
    graph = ["graph"] if device.type == "cuda" and team[0].recipe.graphed else []
    return ["loop", *batched, *graph]


def settle(study: Study, store: Store, data: Path, place: Place, time_them: Timer) -> None:
    """Keep in the run which engines its blocks take, if the study leaves it open."""
    known = store.engines()
    teams = open_choices(study, place.device) if study.resources.engine == "auto" else {}
    if missing := {name: team for name, team in teams.items() if name not in known}:
        store.keep_engines(known | time_them(study, missing, data, place))


def timed(
    study: Study, teams: dict[str, list[Replica]], data: Path, place: Place
) -> dict[str, str]:
    """By name, the engine with the least time for a step of a replica, of two stages in the longer
    one. Takes about two seconds each."""
    with arithmetic(study.resources.cpus, study.resources.deterministic):
        place.hold()
        return {name: _fastest(team, data, place.device) for name, team in teams.items()}


def _fastest(team: Sequence[Replica], data: Path, device: torch.device) -> str:
    recipes = [max(r.recipe.stages, key=lambda stage: stage.total_steps) for r in team]
    recipe = recipes[0]
    dataset = load(recipe.data, data).to(device)
    engines = {}
    for name in _candidates(team, device):
        large = any(alone(stage, device) for stage in team[0].recipe.stages)
        members = 1 if name == "loop" or (name == "batched" and large) else len(team)
        trainings = [
            Training(of, r.seed, dataset, device, name)
            for of, r in list(zip(recipes, team, strict=True))[:members]
        ]
        engines[name] = ENGINES[name](trainings)
    seconds = dict.fromkeys(engines, float("inf"))
    with products(recipe.precision):
        for _ in range(ROUNDS):
            for name, engine in engines.items():
                seconds[name] = min(seconds[name], seconds_a_step(engine))
    seconds["loop"] /= GAIN
    return min(seconds, key=lambda name: seconds[name])


def seconds_a_step(engine: Engine) -> float:
    """Of one replica, over as many steps as fill a round; the last loss waits for a GPU."""
    first, total = engine.members[0], engine.members[0].recipe.total_steps
    clock, steps = time.perf_counter(), 0
    while time.perf_counter() - clock < ROUND_S:
        for member in engine.members:
            member.step %= total  # what a step costs does not depend on which it is
        engine.update()
        first.losses_T[first.step - 1].item()
        steps += 1
    return (time.perf_counter() - clock) / steps / len(engine.members)
