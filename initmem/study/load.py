"""A study file -> a checked `Study`, or all its faults at once with file, line and field."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from initmem.study import recipe as recipes
from initmem.study import yaml_text
from initmem.study.messages import recipe_problem, show, study_problem, unknown_field
from initmem.study.plan import combine, resolve
from initmem.study.spec import Problem, Study, StudyError, UserError

MAX_COMBINATIONS = 100_000


def load(path: str | Path, overrides: Sequence[str] = ()) -> Study:
    """Read a study file; `overrides` are texts `field=value` that replace what the file says.

    Raises StudyError with one line a fault, UserError if the file cannot be read.
    """
    path = Path(path)
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: study: cannot be read: {error.strerror}") from None
    value, lines = yaml_text.parse(text, str(path))
    where = {at: f"{path}:{line}" for at, line in lines.items()}
    if not isinstance(value, dict):
        raise StudyError([Problem(f"{path}:1", "study", "must be a mapping of fields")])
    value.setdefault("name", path.stem)
    where.setdefault(("name",), f"{path}:1")
    faults = _flatten_recipe(value, where)
    for override in overrides:
        faults += _override(value, where, override)
    return _check(value, where, faults)


def _flatten_recipe(study: dict[str, Any], where: dict[Any, str]) -> list[Problem]:
    """Bring nested and dotted names under `recipe:` to dotted ones."""
    flat: dict[str, Any] = {}
    faults: list[Problem] = []
    recipe = study.get("recipe", {})
    if not isinstance(recipe, dict):
        return faults
    for key, value in recipe.items():
        nested = value if isinstance(value, dict) and recipes.is_branch(key) else {None: value}
        for name, leaf in nested.items():
            dotted = f"{key}.{name}" if name else key
            at = where["recipe", key, name] if name else where["recipe", key]
            if dotted in flat:
                first = where["recipe", dotted].rpartition(":")[2]
                faults.append(Problem(at, dotted, f"given twice (first on line {first})"))
                continue
            flat[dotted] = leaf
            where["recipe", dotted] = at
    study["recipe"] = flat
    return faults


def _override(study: dict[str, Any], where: dict[Any, str], text: str) -> list[Problem]:
    field, equals, value_text = text.partition("=")
    field = field.strip()
    if not equals or not field:
        return [Problem("--set", field or "field", f"must be field=value, got {text!r}")]
    try:
        value, _ = yaml_text.parse(value_text.encode(), "--set")
    except StudyError as error:
        return [Problem("--set", field, problem.text) for problem in error.problems]
    head, _, rest = field.partition(".")
    if head in Study.model_fields:
        path: tuple[str, ...] = (head, rest) if rest else (head,)
        if head == "ranges" and rest.rpartition(".")[2] in ("low", "high", "log", "points"):
            path = (head, *rest.rsplit(".", 1))
    else:
        path = ("recipe", field)
        for group in ("axes", "ranges"):
            if field in (study.get(group) or {}):
                hint = f"varies in the study; set {group}.{field} instead"
                return [Problem("--set", field, hint)]
    target = study
    for part in path[:-1]:
        target = target.setdefault(part, {})
        if not isinstance(target, dict):
            return [Problem("--set", field, f"{part} is not a mapping in the study file")]
    target[path[-1]] = value
    where.update({at: "--set" for at in where if at[: len(path)] == path})
    where[path] = "--set"
    return []


def _check(study: dict[str, Any], where: dict[Any, str], faults: list[Problem]) -> Study:
    checked = None
    try:
        checked = Study.model_validate(study)
    except ValidationError as error:
        faults += [study_problem(e, e["loc"], where) for e in error.errors(include_url=False)]
    faults += _check_fields(study, where)
    unique = list({str(fault): fault for fault in faults}.values())
    if unique:
        raise StudyError(unique)
    assert checked is not None
    _check_combinations(checked, where)
    return checked


def _check_fields(study: dict[str, Any], where: dict[Any, str]) -> list[Problem]:
    """Each fixed value, axis value and range end, one at a time in an otherwise plain recipe."""
    fixed, axes, ranges = (_mapping(study, group) for group in ("recipe", "axes", "ranges"))
    options: dict[str, list[tuple[Any, tuple[Any, ...]]]] = {}
    faults: list[Problem] = []
    for group, fields in (("recipe", fixed), ("axes", axes), ("ranges", ranges)):
        for field, value in fields.items():
            at = (group, field)
            if field not in recipes.field_types():
                faults.append(Problem(where[at], field, unknown_field(field)))
            elif field in options:
                other = options[field][0][1]
                text = f"already given under {other[0]} ({where[other[:2]]})"
                faults.append(Problem(where[at], field, text))
            elif group == "recipe":
                options[field] = [(value, at)]
            elif group == "axes" and isinstance(value, list) and value:
                options[field] = [(v, (*at, i)) for i, v in enumerate(value)]
                faults += _repeated(field, value, at, where)
            elif group == "ranges" and isinstance(value, dict):
                if recipes.base_type(recipes.field_types()[field]) is not float:
                    text = "is searched as a real number; list its values under axes instead"
                    faults.append(Problem(where[at], field, text))
                ends = [(value[k], (*at, k)) for k in ("low", "high") if k in value]
                options[field] = ends or [(None, at)]
    base = {field: values[0] for field, values in options.items()}
    variations = [base] + [
        {**base, field: value} for field, values in options.items() for value in values[1:]
    ]
    for variation in variations:
        faults += _check_recipe(variation, options, where)
    memory_axis = study.get("memory_axis", "init.scale")
    if isinstance(memory_axis, str) and len(axes.get(memory_axis) or []) < 2:
        at = where.get(("axes", memory_axis)) or where.get(("memory_axis",)) or where[()]
        text = f"memory is measured over it: list at least two values of {memory_axis} under axes"
        faults.append(Problem(at, "memory_axis", text))
    return faults


def _check_recipe(
    variation: dict[str, tuple[Any, tuple[Any, ...]]],
    options: dict[str, list[tuple[Any, tuple[Any, ...]]]],
    where: dict[Any, str],
) -> list[Problem]:
    names = {field: [value for value, _ in values] for field, values in options.items()}
    values = combine({field: value for field, (value, _) in variation.items()}, names)
    places = {field: at for field, (_, at) in variation.items()}
    try:
        recipes.Recipe.model_validate(values)
    except ValidationError as error:
        return [recipe_problem(e, places, where) for e in error.errors(include_url=False)]
    return []


def _check_combinations(study: Study, where: dict[Any, str]) -> None:
    """Rules between fields, over every arm and value of the memory axis."""
    count = 1
    for values in study.axes.values():
        count *= len(values)
    if count > MAX_COMBINATIONS:
        text = f"{count} combinations, at most {MAX_COMBINATIONS} are allowed"
        raise StudyError([Problem(where["axes",], "axes", text)])
    faults: dict[str, Problem] = {}
    ends = {field: (r.low, r.high) for field, r in study.ranges.items()}
    varied = {**study.axes, **ends}
    places: dict[str, tuple[Any, ...]] = {field: ("axes", field) for field in study.axes}
    places |= {field: ("ranges", field) for field in ends}
    for values in itertools.product(*varied.values()):
        chosen = dict(zip(varied, values, strict=True))
        try:
            resolve(study, chosen)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                fault = recipe_problem(detail, places, where)
                at = ", ".join(f"{field} {show(value)}" for field, value in chosen.items())
                text = f"{fault.text} (at {at})"
                faults.setdefault(fault.text, Problem(fault.where, fault.field, text))
    if faults:
        raise StudyError(list(faults.values()))


def _mapping(study: dict[str, Any], group: str) -> dict[str, Any]:
    value = study.get(group)
    return value if isinstance(value, dict) else {}


def _repeated(
    field: str, values: list[Any], at: tuple[Any, ...], where: dict[Any, str]
) -> list[Problem]:
    return [
        Problem(where[(*at, i)], field, f"lists {show(value)} twice")
        for i, value in enumerate(values)
        if value in values[:i]
    ]
