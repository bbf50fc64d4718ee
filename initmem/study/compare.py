"""What separates two studies: does what is done still mean the same?"""

from __future__ import annotations

from initmem.study.spec import Study


def conflicts(old: Study, new: Study) -> list[str]:
    """Changes that contradict finished rows, as `field: old -> new`.

    More draws, seeds and axis values, another question and other resources only add.
    """
    pairs = {
        **{f"recipe.{k}": (old.recipe.get(k), new.recipe.get(k)) for k in _both(old.recipe, new.recipe)},
        **{f"axes.{k}": (old.axes.get(k), new.axes.get(k)) for k in _both(old.axes, new.axes)},
        **{f"ranges.{k}": (old.ranges.get(k), new.ranges.get(k)) for k in _both(old.ranges, new.ranges)},
        "memory_axis": (old.memory_axis, new.memory_axis),
    }  # fmt: skip
    for name in ("sampler", "lag", "objective", "seed"):
        pairs[f"search.{name}"] = (getattr(old.search, name), getattr(new.search, name))
    changed = {
        field: (before, after)
        for field, (before, after) in pairs.items()
        if before != after and not _adds(field, before, after)
    }
    return [f"{field}: {_say(a)} -> {_say(b)}" for field, (a, b) in changed.items()]


def _both(a: dict[str, object], b: dict[str, object]) -> list[str]:
    return list(dict.fromkeys([*a, *b]))


def _adds(field: str, before: object, after: object) -> bool:
    lists = isinstance(before, list) and isinstance(after, list)
    return field.startswith("axes.") and lists and all(v in after for v in before)


def _say(value: object) -> str:
    return "absent" if value is None else str(value)
