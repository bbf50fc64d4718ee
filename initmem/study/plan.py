"""What a study trains: arms, cells, replicas and blocks, with their stable names."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from initmem.study.recipe import (
    Recipe,
    digest,
    discriminator,
    flatten,
    recipe_id,
    variants,
)
from initmem.study.spec import Range, Study, word

Point = dict[str, float]
"""A draw's value for each range."""
NONE_ENDED: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class Arm:
    """One combination of the axes other than the memory axis."""

    index: int
    values: dict[str, Any]
    id: str
    """Hash of the recipe without memory axis and ranges: it seeds the arm's search, so an arm
    draws the same points alone and inside a larger study."""

    @property
    def named(self) -> list[str]:
        """`field value` for each axis, as in a study file."""
        return [f"{field} {word(v)}" for field, v in self.values.items()]


@dataclass(frozen=True)
class Replica:
    """One network to train."""

    recipe: Recipe
    seed: int
    arm: str
    cell: str
    draw: int

    @cached_property
    def id(self) -> str:
        return recipe_id(self.recipe, seed=self.seed)


@dataclass(frozen=True)
class Cell:
    """An arm and a draw: the unit that memory is a property of."""

    arm: Arm
    draw: int
    point: Point
    id: str
    replicas: tuple[Replica, ...]


@dataclass(frozen=True)
class Block:
    """The replicas that one Tune trial trains."""

    cell: Cell
    index: int
    replicas: tuple[Replica, ...]
    whole_gpu: bool = False
    """Whether it is trained once more, for a share of a GPU was too small for these replicas."""

    @property
    def name(self) -> str:
        return f"{self.cell.id}-{self.index}"


def combine(fields: dict[str, Any], options: dict[str, list[Any]]) -> dict[str, Any]:
    """Dotted fields -> the nested dict of one recipe.

    A field that another listed variant uses is dropped: with optim.name over sgd and momentum,
    optim.momentum holds for the latter alone.
    """
    nested: dict[str, Any] = {}
    for field, value in fields.items():
        section, _, name = field.partition(".")
        if not name:
            nested[section] = value
            continue
        key = discriminator(section)
        others = [_fields(section, v) for v in options.get(f"{section}.{key}", [])]
        own = _fields(section, fields.get(f"{section}.{key}"))
        if name == key or name in own or not any(name in other for other in others):
            nested.setdefault(section, {})[name] = value
    return nested


def _fields(section: str, variant: Any) -> frozenset[str]:
    known = variants(section).get(variant) if isinstance(variant, str) else None
    return frozenset(known.model_fields) if known else frozenset()


def arms(study: Study) -> list[Arm]:
    """In the order of the file, the last axis fastest; axes that a variant does not have leave
    one arm, not several equal ones."""
    axes = {field: v for field, v in study.axes.items() if field != study.memory_axis}
    found: dict[str, Arm] = {}
    somewhere: dict[str, Any] = {field: r.low for field, r in study.ranges.items()}
    somewhere[study.memory_axis] = study.axes[study.memory_axis][0]
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        recipe = resolve(study, {**chosen, **somewhere})
        fields = flatten(recipe, exclude_defaults=True)
        name = digest({field: v for field, v in fields.items() if field not in somewhere})
        chosen = {field: v for field, v in chosen.items() if field in flatten(recipe)}
        found.setdefault(name, Arm(len(found), chosen, name))
    return list(found.values())


def grid(ranges: dict[str, Range]) -> list[Point] | None:
    """The points of ranges with `points`, or the one empty point of a study without ranges; None
    where a search must draw."""
    if any(r.points is None for r in ranges.values()):
        return None
    steps = [_even(r) for r in ranges.values()]
    return [dict(zip(ranges, point, strict=True)) for point in itertools.product(*steps)]


def draws(study: Study) -> int:
    """Draws of one arm."""
    return study.search.draws or math.prod(r.points or 1 for r in study.ranges.values())


def count(study: Study, ended: Mapping[str, int] = NONE_ENDED) -> int:
    """Replicas of a study. ended: draws of the arms whose search ended early, by id."""
    cells = sum(ended.get(arm.id, draws(study)) for arm in arms(study))
    return cells * len(study.axes[study.memory_axis]) * study.seeds


def asked_by(
    study: Study, ended: Mapping[str, int] = NONE_ENDED
) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a row is of a replica that the study asks for. ended: see `count`; looked at anew
    for each row."""
    known, axis = {arm.id for arm in arms(study)}, study.memory_axis
    last, values = draws(study), study.axes[axis]
    return lambda row: (
        row["arm"] in known
        and row["draw"] < ended.get(row["arm"], last)
        and row["seed"] < study.seeds
        and row["memory_axis"] == axis
        and row[axis] in values
    )


def cell(study: Study, arm: Arm, draw: int, point: Point) -> Cell:
    """The networks of an arm at one point, by memory-axis value, then seed."""
    name = digest([arm.id, point])
    recipes = [
        resolve(study, {**arm.values, **point, study.memory_axis: value})
        for value in study.axes[study.memory_axis]
    ]
    replicas = tuple(
        Replica(recipe, seed, arm.id, name, draw)
        for recipe in recipes
        for seed in range(study.seeds)
    )
    return Cell(arm, draw, point, name, replicas)


def blocks(study: Study, cell: Cell) -> list[Block]:
    """A cell cut into what one trial trains."""
    size = study.resources.replicas
    count = len(cell.replicas) if size == "all" else size
    cuts = range(0, len(cell.replicas), count)
    return [Block(cell, i, cell.replicas[at : at + count]) for i, at in enumerate(cuts)]


def resolve(study: Study, varied: dict[str, Any]) -> Recipe:
    """The study's fixed fields and the `varied` ones as a recipe.

    Raises pydantic.ValidationError.
    """
    fixed = {field: [value] for field, value in study.recipe.items()}
    return Recipe.model_validate(combine({**study.recipe, **varied}, {**fixed, **study.axes}))


def _even(r: Range) -> list[float]:
    assert r.points is not None
    shares = [i / (r.points - 1) for i in range(r.points)]
    if r.log:
        return [float(r.low ** (1 - t) * r.high**t) for t in shares]
    return [(1 - t) * r.low + t * r.high for t in shares]
