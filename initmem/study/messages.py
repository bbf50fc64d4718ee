"""pydantic's errors in our words: where, which field, what is wrong, what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from initmem.study import recipe as recipes
from initmem.study import yaml_text
from initmem.study.spec import Problem, Range, Study, cut


def recipe_problem(
    error: ErrorDetails, places: dict[str, tuple[Any, ...]], where: dict[Any, str]
) -> Problem:
    loc = [str(part) for part in error["loc"]]
    if len(loc) > 1 and recipes.variants(loc[0]):  # its name stands between section and field
        loc = [loc[0], *loc[2:]]
    if error["type"].startswith("union_tag"):
        loc.append(recipes.discriminator(loc[0]))
    field = error.get("ctx", {}).get("field") or ".".join(loc)
    at: tuple[Any, ...] = places.get(field, ("recipe", field))
    if at not in where:  # a field that is missing, or one that its section's rule is about
        near = [a for f, a in places.items() if f.startswith(field.partition(".")[0] + ".")]
        at = next((a for a in (*near, ("recipe",)) if a in where), ())
    return Problem(where[at], field, _words(error, field))


def study_problems(error: ValidationError, where: dict[Any, str]) -> list[Problem]:
    """What is wrong with the study's own fields; a value that fits no member of a union once."""
    found: dict[tuple[Any, ...], Problem] = {}
    for detail in error.errors(include_url=False):
        context = detail.get("ctx", {})
        field = (*detail["loc"], *(context["field"].split(".") if "field" in context else ()))
        at = field
        while at not in where:
            at = at[:-1]
        if detail["type"] == "extra_forbidden":
            text = _unknown_key(detail["loc"])
        else:
            text = _words(detail, str(field[-1]))
        if field[0] in ("storage", "tracking"):
            text = text.partition(", got ")[0]  # it may hold a password
        if detail["type"] not in ("missing", "rule"):
            field = at  # without the union's member
        if field in found:
            text = found[field].text.rpartition(", got ")[0] + " or " + text
        found[field] = Problem(where[at], yaml_text.name(field), text)
    return list(found.values())


def _unknown_key(loc: tuple[Any, ...]) -> str:
    known: Any = Study.model_fields
    for part in loc[:-1]:
        known = _fields_of(known, part)
    return "unknown key, allowed: " + ", ".join(known) + did_you_mean(str(loc[-1]), known)


def _fields_of(known: Any, part: Any) -> Any:
    """The fields below `part`: of a section, or of a range by any name."""
    annotation = known[part].annotation if part in known else None
    for member in recipes.sections(annotation):
        return member.model_fields
    return Range.model_fields if part == "ranges" or annotation is None else known


def _words(error: ErrorDetails, field: str) -> str:
    kind, got = error["type"], error["input"]
    context: dict[str, Any] = error.get("ctx", {})
    if kind == "rule":
        return str(context["text"])
    if kind == "too_short":
        return "must list at least one value"
    if kind == "missing" or kind == "union_tag_not_found":
        allowed = [] if kind == "missing" else list(recipes.variants(field.partition(".")[0]))
        return "required" + (", one of: " + ", ".join(allowed) if allowed else "")
    if kind == "union_tag_invalid":
        allowed = list(recipes.variants(field.partition(".")[0]))
        wrong = str(context["tag"])
        text = f"unknown name {show(wrong)}, allowed: {', '.join(allowed)}"
        return text + did_you_mean(wrong, allowed)
    if kind == "literal_error":
        words = context["expected"].replace(" or ", ", ").split(",")
        allowed = [word.strip("' ") for word in words]
        text = f"must be one of {', '.join(allowed)}, got {show(got)}"
        return text + did_you_mean(str(got), allowed)
    if kind == "extra_forbidden":
        variant = recipes.variants(field.partition(".")[0]).get(str(error["loc"][1]))
        known = list(variant.model_fields) if variant else []
        last = field.rpartition(".")[2]
        return f"does not apply to {error['loc'][1]}, which has: {', '.join(known)}" + (
            did_you_mean(last, known)
        )
    text = error["msg"].removeprefix("Input ").replace("should ", "must ")
    text = text.replace("a valid dictionary", "a mapping").replace("a valid list", "a list")
    return f"{text}, got {show(got)}"


def unknown_field(field: str) -> str:
    names = list(recipes.field_types())
    section, _, rest = field.partition(".")
    same = [name.removeprefix(f"{section}.") for name in names if name.startswith(f"{section}.")]
    if same:
        close = did_you_mean(rest, same, f"{section}.")
        return f"unknown field, allowed in {section}: {', '.join(same)}{close}"
    ends = [name for name in names if name.endswith(f".{field}")]  # lr for optim.lr
    close = did_you_mean(ends[0] if ends else field, names)
    return f"unknown field, allowed: {', '.join(recipes.Recipe.model_fields)}{close}"


def did_you_mean(word: str, known: Iterable[str], prefix: str = "") -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {prefix + close[0]!r}?" if close else ""


def show(value: Any) -> str:
    """A value as a study file would have it, cut to what fits on a line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return cut(repr(value) if isinstance(value, str) else str(value), 60)
