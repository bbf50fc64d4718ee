"""What a study file and `--set` say, brought to dotted fields and the place each was given."""

from __future__ import annotations

from typing import Any

from initmem.study import recipe as recipes
from initmem.study import yaml_text
from initmem.study.messages import did_you_mean, show
from initmem.study.spec import Problem, Range, Study, StudyError

Where = dict[tuple[Any, ...], str]
"""Path in the study -> `file:line`, or `--set`."""


def mapping(study: dict[str, Any], group: str) -> dict[str, Any]:
    """The group, or nothing where a faulty file has something else there."""
    value = study.get(group)
    return value if isinstance(value, dict) else {}


def flatten(study: dict[str, Any], where: Where) -> list[Problem]:
    """Bring nested and dotted names under `recipe:` to dotted ones, in place."""
    if not isinstance(study.get("recipe"), dict):
        return []
    flat: dict[str, Any] = {}
    places: Where = {}
    faults: list[Problem] = []
    for key, value in study["recipe"].items():
        nested = value if isinstance(value, dict) and recipes.is_branch(key) else {None: value}
        for name, leaf in nested.items():
            dotted = key if name is None else f"{key}.{name}"
            at = where["recipe", key] if name is None else where["recipe", key, name]
            if dotted in flat:
                first = places["recipe", dotted].rpartition(":")[2]
                faults.append(Problem(at, dotted, f"given twice (first on line {first})"))
                continue
            flat[dotted] = leaf
            places["recipe", dotted] = at
    study["recipe"] = flat
    where.update(places)
    return faults


def override(study: dict[str, Any], where: Where, text: str) -> list[Problem]:
    """Replace what the study says by `field=value`, in place."""
    field, equals, value_text = text.partition("=")
    field = field.strip()
    if not equals or not field:
        return [Problem("--set", field or "field", f"must be field=value, got {show(text)}")]
    path = _path(field)
    if path is None:
        known = [*Study.model_fields, *recipes.Recipe.model_fields]
        hint = did_you_mean(field, [*known, *recipes.field_types()])
        return [Problem("--set", field, f"unknown field, allowed: {', '.join(known)}{hint}")]
    for group in ("axes", "ranges"):
        if path[0] == "recipe" and path[-1] in mapping(study, group):
            return [
                Problem("--set", field, f"varies in the study; set {group}.{path[-1]} instead")
            ]
    try:
        value, lines = yaml_text.parse(value_text.encode(errors="surrogateescape"), "--set")
    except StudyError as error:
        return [Problem("--set", field, problem.text) for problem in error.problems]
    target = study
    for depth, part in enumerate(path[:-1], start=1):
        target = target.setdefault(part, {})
        where.setdefault(path[:depth], "--set")
        if not isinstance(target, dict):
            return [Problem("--set", field, f"{part} is not a mapping in the study file")]
    target[path[-1]] = value
    for at in [at for at in where if at[: len(path)] == path]:
        del where[at]
    where.update({(*path, *at): "--set" for at in lines})
    if path[0] == "recipe":
        if isinstance(value, dict):  # a whole section: nothing of the file's section is left
            for other in [f for f in target if f.startswith(f"{path[-1]}.")]:
                del target[other]
        return flatten(study, where)
    return []


def _path(field: str) -> tuple[str, ...] | None:
    head, _, rest = field.partition(".")
    if head in recipes.Recipe.model_fields:
        return ("recipe", field)
    if head not in Study.model_fields:
        return None
    if head == "ranges" and rest.rpartition(".")[2] in Range.model_fields:
        return (head, *rest.rsplit(".", 1))
    if head == "tracking":
        return tuple(field.split("."))
    return (head, rest) if rest else (head,)
