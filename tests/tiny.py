"""Tiny studies for the tests: seconds to train."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from initmem.records.meter import Meter
from initmem.study.load import load
from initmem.study.plan import Cell, arms, cell
from initmem.study.recipe import Recipe
from initmem.study.spec import Study

TINY = """
recipe:
  data: {name: digits, train: 60, validation: 40}
  model: {name: mlp, width: 16}
  init: {rule: kaiming}
  optim: {name: sgd, batch: 20, steps: 30}
  eval_every: 10
axes:
  init.scale: [1, 2]
ranges:
  optim.lr: {low: 1e-2, high: 1e-1, log: true}
  optim.l2: {low: 1e-4, high: 1e-1, log: true}
seeds: 2
search: {draws: 3, lag: 1}
resources: {checkpoint_every: 7}
"""

RECIPE = {
    "data": {"name": "digits", "train": 60, "validation": 40},
    "model": {"name": "mlp", "width": 16},
    "init": {"rule": "kaiming"},
    "optim": {"name": "sgd", "lr": 0.1, "batch": 20, "steps": 30},
    "eval_every": 10,
}


def study(folder: Path, *overrides: str, text: str = TINY, name: str = "tiny") -> Study:
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return load(path, overrides)


def recipe(**sections: dict[str, object] | object) -> Recipe:
    """RECIPE with fields replaced; a section with another name starts from nothing."""
    nested: dict[str, object] = dict(RECIPE)
    for section, fields in sections.items():
        old = nested.get(section)
        same = isinstance(fields, dict) and isinstance(old, dict)
        keep = same and fields.get("name", old.get("name")) == old.get("name")
        nested[section] = {**old, **fields} if keep else fields  # type: ignore[dict-item]  # see keep
    return Recipe.model_validate(nested)


def first_cell(of: Study) -> Cell:
    return cell(of, arms(of)[0], 0, {field: r.low for field, r in of.ranges.items()})


class Memory:
    """Checkpoints in memory; `at` is the step to go on from, None the newest."""

    def __init__(self) -> None:
        self.saved: dict[int, bytes] = {}

    def save(self, step: int, content: bytes) -> None:
        self.saved[step] = content

    def latest(self, takes: Callable[[bytes], bool]) -> bytes | None:
        content = self.saved[max(self.saved)] if self.saved else None
        return content if content is not None and takes(content) else None

    def meter(self) -> Meter:
        return Meter(None)


def exhaust(steps: Iterator[object]) -> None:
    for _ in steps:
        pass
