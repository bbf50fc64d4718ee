"""A study file -> a checked `Study`, or all its faults at once with file, line and field."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from initmem.study import recipe as recipes
from initmem.study import yaml_text
from initmem.study.address import is_path
from initmem.study.fields import Where, flatten, mapping, override
from initmem.study.messages import recipe_problem, show, study_problems, unknown_field
from initmem.study.plan import combine, draws, resolve
from initmem.study.spec import Problem, Study, StudyError, UserError

MAX_COMBINATIONS = 20_000
"""Of axis values: each is checked as a recipe, which takes seconds."""
MAX_NETWORKS = 1_000_000

Option = tuple[Any, tuple[Any, ...]]
"""A value that a field may take, and its path in the study."""


def load(path: str | Path, overrides: Sequence[str] = ()) -> Study:
    """Read a study file; `overrides` are texts `field=value` that replace what the file says.

    Raises StudyError with one line a fault, UserError if the file cannot be read.
    """
    path = Path(path)
    if not is_path(str(path)):
        raise UserError("study: is read from a file of this machine, not from an address")
    try:
        with open(path, "rb") as file:
            text = file.read(yaml_text.MAX_BYTES + 1)  # more is refused by `parse`
    except OSError as error:
        raise UserError(f"{path}: study: cannot be read: {error.strerror}") from None
    except ValueError:
        raise UserError(f"{path}: study: a path cannot hold a NUL character") from None
    value, lines = yaml_text.parse(text, str(path))
    where: Where = {at: f"{path}:{line}" for at, line in lines.items()}
    if not isinstance(value, dict):
        raise StudyError([Problem(f"{path}:1", "study", "must be a mapping of fields")])
    value.setdefault("name", path.stem)
    where.setdefault(("name",), f"{path}:1")
    faults = flatten(value, where)
    for each in overrides:
        faults += override(value, where, each)
    return _check(value, where, faults)


def check(content: bytes, source: str) -> Study:
    """A study that was kept as JSON, checked as one that is written.

    Raises StudyError, whose problems have `source` for a place.
    """
    try:
        value = from_json(content)
    except ValueError as error:
        raise StudyError([Problem(source, "study", str(error))]) from None
    if not isinstance(value, dict):
        raise StudyError([Problem(source, "study", "must be a mapping of fields")])
    return _check(value, dict.fromkeys(_paths(value), source), [])


def _paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    listed = enumerate(value) if isinstance(value, list) else ()
    items = value.items() if isinstance(value, dict) else listed
    for key, inner in items:
        yield from _paths(inner, (*at, key))


def _check(study: dict[str, Any], where: Where, faults: list[Problem]) -> Study:
    checked = None
    try:
        checked = Study.model_validate(study)
    except ValidationError as error:
        faults += study_problems(error, where)
    faults += _check_fields(study, where)
    _raise(faults)
    assert checked is not None
    _raise(_check_combinations(checked, where))
    return checked


def _raise(faults: list[Problem]) -> None:
    unique = list({str(fault): fault for fault in faults}.values())
    if unique:
        raise StudyError(sorted(unique, key=_line))


def _line(fault: Problem) -> int:
    line = fault.where.rpartition(":")[2]
    return int(line) if line.isdecimal() else 0  # --set


def _check_fields(study: dict[str, Any], where: Where) -> list[Problem]:
    """Each fixed value, axis value and range end, one at a time in an otherwise plain recipe."""
    axes = mapping(study, "axes")
    lists = {field: values for field, values in axes.items() if isinstance(values, list)}
    count = math.prod(len(values) or 1 for values in lists.values())
    if count > MAX_COMBINATIONS:
        text = f"{count} combinations, at most {MAX_COMBINATIONS} are allowed"
        return [Problem(where["axes",], "axes", text)]
    options, faults = _options(study, where)
    for field, values in lists.items():
        faults += _repeated(field, values, where)
    base = {field: values[0] for field, values in options.items() if values}
    faults += _check_recipe(base, options, where)
    for field, values in options.items():
        for value in values[1:]:
            faults += _check_recipe({**base, field: value}, options, where)
    memory_axis = study.get("memory_axis", "init.scale")
    if isinstance(memory_axis, str) and len(lists.get(memory_axis, [])) < 2:
        at = where.get(("axes", memory_axis)) or where.get(("memory_axis",)) or where[()]
        text = f"memory is measured over it: list at least two values of {memory_axis} under axes"
        faults.append(Problem(at, "memory_axis", text))
    return faults


def _options(study: dict[str, Any], where: Where) -> tuple[dict[str, list[Option]], list[Problem]]:
    """The values that each field takes in the study, as far as the field is known."""
    options: dict[str, list[Option]] = {}
    given: dict[str, tuple[str, str]] = {}
    faults: list[Problem] = []
    types = recipes.field_types()
    for group in ("recipe", "axes", "ranges"):
        for field, value in mapping(study, group).items():
            at = (group, field)
            if field not in types:
                faults.append(Problem(where[at], field, unknown_field(field)))
                continue
            if field in given:
                text = f"already given under {given[field][0]} ({where[given[field]]})"
                faults.append(Problem(where[at], field, text))
                continue
            given[field] = at
            options[field] = [(value, at)]
            if group == "axes" and isinstance(value, list):
                options[field] = [(v, (*at, i)) for i, v in enumerate(value)]
            if group == "ranges":
                if recipes.base_type(types[field]) is not float:
                    text = "is searched as a real number; list its values under axes instead"
                    faults.append(Problem(where[at], field, text))
                options[field] = list(_ends(value, at))
    return options, faults


def _ends(range_: Any, at: tuple[str, str]) -> Iterator[Option]:
    """Low and high. For one that is no number, which `Range` says, what any real field takes."""
    for key in ("low", "high"):
        value: Any = range_.get(key) if isinstance(range_, dict) else None
        real = isinstance(value, int | float) and not isinstance(value, bool)
        if real and math.isfinite(value):
            yield value, (*at, key)
        else:
            yield 0.5, at


def _check_recipe(
    variation: dict[str, Option], options: dict[str, list[Option]], where: Where
) -> list[Problem]:
    names = {field: [value for value, _ in values] for field, values in options.items()}
    values = combine({field: value for field, (value, _) in variation.items()}, names)
    places = {field: at for field, (_, at) in variation.items()}
    try:
        recipes.Recipe.model_validate(values)
    except ValidationError as error:
        return [recipe_problem(e, places, where) for e in error.errors(include_url=False)]
    return []


def _check_combinations(study: Study, where: Where) -> list[Problem]:
    """Rules between fields, over every arm and value of the memory axis."""
    combinations = math.prod(len(values) for values in study.axes.values())
    networks = combinations * draws(study) * study.seeds
    if networks > MAX_NETWORKS:
        text = f"asks for {networks} networks, at most {MAX_NETWORKS} are allowed"
        return [Problem(where[()], "study", text)]
    if None in study.axes[study.memory_axis]:
        text = "null has no place on the memory axis: write the value it stands for"
        return [Problem(where["axes", study.memory_axis], study.memory_axis, text)]
    faults: dict[str, Problem] = {}
    places: dict[str, tuple[Any, ...]] = {field: ("axes", field) for field in study.axes}
    places |= {field: ("ranges", field) for field in study.ranges}
    # What a rule between real fields asks rises or falls in each of them: the corners see it.
    ends = [(r.low, r.high) for r in study.ranges.values()]
    corners = [dict(zip(study.ranges, corner, strict=True)) for corner in itertools.product(*ends)]
    for corner, *values in itertools.product(corners, *study.axes.values()):
        chosen = {**dict(zip(study.axes, values, strict=True)), **corner}
        try:
            recipe = resolve(study, chosen)
            checks = (_check_memory_axis, _check_measure, _check_engine)
            found = [check(study, recipe, where) for check in checks]
        except ValidationError as error:
            details = error.errors(include_url=False)
            found = [recipe_problem(detail, places, where) for detail in details]
        for fault in filter(None, found):
            at = ", ".join(f"{field} {show(value)}" for field, value in chosen.items())
            text = f"{fault.text} (at {at})"
            faults.setdefault(fault.text, Problem(fault.where, fault.field, text))
    return list(faults.values())


def _check_memory_axis(study: Study, recipe: recipes.Recipe, where: Where) -> Problem | None:
    """In an arm whose variant lacks the field all values would be one and the same network."""
    section, _, name = study.memory_axis.partition(".")
    if not name or name in type(getattr(recipe, section)).model_fields:
        return None
    at = where["axes", study.memory_axis]
    return Problem(at, "memory_axis", f"{study.memory_axis} does not apply in every arm")


def _check_measure(study: Study, recipe: recipes.Recipe, where: Where) -> Problem | None:
    text = ""
    if study.measure == "ood_accuracy" and not recipe.data.ood():
        text = f"data.name {recipe.data.name} has no set out of distribution"
        text += ", but with data.square" if recipe.data.name == "addition" else ""
    end, goal = recipe.optim.stop_validation or 1.0, recipe.steps_to.validation
    if study.measure == "steps_to_validation" and end < goal:
        text = f"optim.stop_validation {end:g} ends training before steps_to.validation {goal:g}"
    return Problem(where["measure",], "measure", text) if text else None


def _check_engine(study: Study, recipe: recipes.Recipe, where: Where) -> Problem | None:
    engine = study.resources.engine
    fits = {"batched": recipe.stacks, "graph": recipe.graphed}
    if fits.get(engine, True):
        return None
    at = where["resources", "engine"]
    text = f"{engine} trains no {recipe.unstacked}; write loop, or auto, which takes loop"
    return Problem(at, "resources.engine", text)


def _repeated(field: str, values: list[Any], where: Where) -> list[Problem]:
    seen: set[Any] = set()
    faults = []
    for i, value in enumerate(values):
        if isinstance(value, dict | list):  # no field takes one
            continue
        key = (isinstance(value, bool), value)  # true is not 1
        if key in seen:
            faults.append(Problem(where["axes", field, i], field, f"lists {show(value)} twice"))
        seen.add(key)
    return faults
