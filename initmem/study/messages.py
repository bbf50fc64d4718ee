"""pydantic's errors in our words: where, which field, what is wrong, what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from pydantic_core import ErrorDetails

from initmem.study import recipe as recipes
from initmem.study import yaml_text
from initmem.study.spec import Problem, Range, Study


def recipe_problem(
    error: ErrorDetails, places: dict[str, tuple[Any, ...]], where: dict[Any, str]
) -> Problem:
    loc = [str(part) for part in error["loc"]]
    if len(loc) > 1:  # the variant's name stands between section and field
        loc = [loc[0], *loc[2:]]
    if error["type"].startswith("union_tag"):
        loc.append(recipes.discriminator(loc[0]))
    field = error.get("ctx", {}).get("field") or ".".join(loc)
    at: tuple[Any, ...] = places.get(field, ("recipe", field))
    if at not in where:  # a field that is missing, or one that its section's rule is about
        near = [a for f, a in places.items() if f.startswith(field.partition(".")[0] + ".")]
        at = next((a for a in (*near, ("recipe",)) if a in where), ())
    return Problem(where[at], field, _words(error, field))


def study_problem(error: ErrorDetails, loc: tuple[Any, ...], where: dict[Any, str]) -> Problem:
    if error["type"] == "extra_forbidden":
        known = Study.model_fields
        for part in loc[:-1]:
            known = _fields_of(known, part)
        text = "unknown key, allowed: " + ", ".join(known) + _did_you_mean(str(loc[-1]), known)
    else:
        text = _words(error, str(loc[-1]) if loc else "study")
    pinned = error.get("ctx", {}).get("field")
    if pinned:
        loc = (*loc, *pinned.split("."))
    at: tuple[Any, ...] = loc
    while at not in where:
        at = at[:-1]
    return Problem(where[at], yaml_text.name(loc), text)


def _fields_of(known: Any, part: Any) -> Any:
    """The fields below `part`: of a section, or of a range by any name."""
    annotation = known[part].annotation if part in known else None
    if isinstance(annotation, type) and issubclass(annotation, recipes.Section):
        return annotation.model_fields
    return Range.model_fields if part == "ranges" or annotation is None else known


def _words(error: ErrorDetails, field: str) -> str:
    kind, got = error["type"], error["input"]
    context: dict[str, Any] = error.get("ctx", {})
    if kind == "rule":
        return str(context["text"])
    if kind == "missing" or kind == "union_tag_not_found":
        allowed = [] if kind == "missing" else list(recipes.variants(field.partition(".")[0]))
        return "required" + (", one of: " + ", ".join(allowed) if allowed else "")
    if kind == "union_tag_invalid":
        allowed = list(recipes.variants(field.partition(".")[0]))
        wrong = str(context["tag"])
        return f"unknown name {wrong!r}, allowed: {', '.join(allowed)}" + _did_you_mean(
            wrong, allowed
        )
    if kind == "literal_error":
        words = context["expected"].replace(" or ", ", ").split(",")
        allowed = [word.strip("' ") for word in words]
        text = f"must be one of {', '.join(allowed)}, got {show(got)}"
        return text + _did_you_mean(str(got), allowed)
    if kind == "extra_forbidden":
        variant = recipes.variants(field.partition(".")[0]).get(str(error["loc"][1]))
        known = list(variant.model_fields) if variant else []
        last = field.rpartition(".")[2]
        return f"does not apply to {error['loc'][1]}, which has: {', '.join(known)}" + (
            _did_you_mean(last, known)
        )
    text = error["msg"].removeprefix("Input ").replace("should be", "must be")
    return f"{text}, got {show(got)}"


def unknown_field(field: str) -> str:
    close = _did_you_mean(field, recipes.field_types())
    section = field.partition(".")[0]
    same = [name for name in recipes.field_types() if name.partition(".")[0] == section]
    return f"unknown field, allowed: {', '.join(same or recipes.Recipe.model_fields)}{close}"


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def show(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
