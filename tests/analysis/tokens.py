"""Runs of token data made up for the tests: rows with curves, times, readings and answers out of
distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from analysis import tables
from analysis.tables import Run
from initmem.study import plan
from tests.analysis import make

STUDY = """
name: radial
recipe:
  data: {name: modular, p: 13, equals: false}
  model: {name: token_mlp}
  init: {rule: kaiming}
  optim: {name: adamw, lr: 0.01, l2: 0, steps: 1000, batch: 32}
  penalty: {name: radial}
  eval_every: 100
memory_axis: penalty.strength
axes:
  penalty.strength: [0, 0.5]
seeds: 5
"""
DECAYS = STUDY.replace(
    "  penalty.strength:", "  optim.weight_decay: [0.01, 0.1]\n  penalty.strength:"
)

Times = Callable[[plan.Replica], int | None]


def strength(replica: plan.Replica) -> float:
    return float(replica.recipe.penalty.strength)  # type: ignore[union-attr]  # radial


def generalized(step: int | None, **more: Any) -> dict[str, Any]:
    """A row that fits after 100 steps and generalizes at this step of 1000, wholly, or never."""
    points = [
        {
            "step": at,
            "train_accuracy": 100.0,
            "train_loss": 0.1,
            "validation_accuracy": 100.0 if step is not None and at >= step else 10.0,
            "validation_loss": 1.0,
        }
        for at in range(100, 1001, 100)
    ]
    return {"steps_to_train": 100, "steps_to_validation": step, "curve": points, **more}


def listed(steps: dict[float, Sequence[int | None]]) -> make.Change:
    """Value of the penalty's strength -> the times of its seeds."""
    return lambda replica: generalized(steps[strength(replica)][replica.seed])


def run(folder: Path, change: make.Change, text: str = STUDY, *overrides: str) -> Run:
    return tables.read(make.run(folder / "run", make.study(folder, text, *overrides), change))
