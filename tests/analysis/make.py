"""Runs made up for the tests: a study file, rows whose memory falls with lr x L2, a run folder."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from initmem.records.rows import Row, complete
from initmem.records.store import Store
from initmem.study import plan
from initmem.study.load import load
from initmem.study.recipe import flatten
from initmem.study.seeds import fold
from initmem.study.spec import Study
from initmem.study.unit import from_unit
from initmem.tune.block import head

STUDY = """
name: made-up
question: Which learning rates and L2 penalties erase the memory?
recipe:
  data: {name: digits, train: 500, validation: 300}
  model: {name: resnet9, width: 8}
  init: {rule: kaiming}
  optim: {name: sgd, batch: 50, epochs: 100}
axes:
  init.scale: [0.25, 1, 2, 3]
ranges:
  optim.lr: {low: 1e-2, high: 6e-2, log: true}
  optim.l2: {low: 1e-4, high: 1e-1, log: true}
seeds: 2
search: {draws: 6}
"""

Change = Callable[[plan.Replica], dict[str, Any]]


def study(folder: Path, text: str = STUDY, *overrides: str) -> Study:
    path = folder / "study.yaml"
    path.write_text(text)
    return load(path, overrides)


def cells(study: Study) -> list[plan.Cell]:
    """The grid, or points that fill the ranges evenly (the multiples of an irrational)."""
    steps = (0.618, 0.325, 0.437)[: len(study.ranges)]
    points = plan.grid(study.ranges) or [
        from_unit([k * step % 1 for step in steps], study.ranges) for k in range(plan.draws(study))
    ]
    found = []
    for arm in plan.arms(study):
        found += [plan.cell(study, arm, draw, point) for draw, point in enumerate(points)]
    return found


def row(study: Study, replica: plan.Replica) -> Row:
    """An interpolated replica whose accuracy falls with the scale, the less so the more L2."""
    recipe = flatten(replica.recipe)
    value = recipe[study.memory_axis]
    decay = recipe["optim.lr"] * recipe["optim.l2"]
    rng = np.random.default_rng(fold(replica.id))
    left = math.log1p(value) if isinstance(value, int | float) else len(value)
    accuracy = 97.5 - 12 * left / (1 + 1500 * decay) + 0.4 * rng.standard_normal()
    return complete(
        {
            **head(study, replica),
            "state": "interpolated",
            "steps": replica.recipe.total_steps,
            "total_steps": replica.recipe.total_steps,
            "selected.test_accuracy": float(accuracy),
            "selected.validation_accuracy": float(accuracy + 0.5),
            "final.test_accuracy": float(accuracy - 0.25),
            "audit": [
                {
                    "tensor": name,
                    "group": "body",
                    "count": count,
                    "asked_std": 0.1 * recipe["init.scale"],
                    "measured_std": 0.1
                    * recipe["init.scale"]
                    * (1 + float(rng.standard_normal()) / math.sqrt(2 * count)),
                }
                for name, count in (("stem.weight", 72), ("block1.conv1.weight", 1152))
            ],
            "untouched": ["norm.weight", "norm.bias"],
            "data_hash": "0123456789abcdef",
            "device": "cpu",
            "threads": 1,
            "version.initmem": "0.1.0",
            "version.torch": "2.14.1",
            "version.python": "3.11.9",
            "run.started": "2026-01-01T00:00:00",
            "run.seconds": 4.5,
        }
    )


def run(folder: Path, made: Study, change: Change = lambda replica: {}, rows: int = 10**9) -> Path:
    """A run folder with the first `rows` rows of the study, each with what `change` gives."""
    store = Store(folder)
    store.create(made)
    replicas = [replica for cell in cells(made) for replica in cell.replicas]
    for replica in replicas[:rows]:
        store.put(complete({**row(made, replica), **change(replica)}))
    return folder


def lost(state: str) -> dict[str, Any]:
    """What differs in a row of a replica that is left out of the memory."""
    if state == "undertrained":
        return {"state": state, "selected.test_accuracy": 61.0, "final.test_accuracy": 60.0}
    measures = ("selected.test_accuracy", "selected.validation_accuracy", "final.test_accuracy")
    error = "RuntimeError: <memory>" if state == "failed" else None
    return {"state": state, **dict.fromkeys(measures), "error": error}


def some_lost(replica: plan.Replica) -> dict[str, Any]:
    """A few of each state, so that one cell has two of them and one has no memory."""
    at = (replica.draw, replica.recipe.init.scale)
    if (replica.draw == 3 and at[1] != 1) or at == (5, 3):
        return lost("undertrained")
    if at in {(1, 3), (5, 0.25)}:
        return lost("diverged")
    if at == (2, 2) and replica.seed == 1:
        return lost("failed")
    return {}
