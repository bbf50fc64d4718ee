"""What separates two studies: do finished rows still mean the same?"""

from __future__ import annotations

from typing import Any

from initmem.study.spec import Study


def conflicts(old: Study, new: Study) -> list[str]:
    """Changes that contradict finished rows, as `field: old -> new`.

    More draws, seeds, axis values and workers, another end of the search, another question and
    another placement only add. Another measure contradicts no row, but draws of a search that
    learns: a run that changed it half-way would hold points that neither study draws.
    """
    before, after = _meaning(old), _meaning(new)
    return [
        f"{field}: {_say(before.get(field))} -> {_say(after.get(field))}"
        for field in dict.fromkeys([*before, *after])
        if before.get(field) != after.get(field)
        and not _adds(field, before.get(field), after.get(field))
    ]


def _meaning(study: Study) -> dict[str, Any]:
    fields: dict[str, Any] = {"memory_axis": study.memory_axis}
    for group in ("recipe", "axes", "ranges"):
        fields |= {f"{group}.{name}": value for name, value in getattr(study, group).items()}
    if study.search.sampler in ("tpe", "frontier"):
        fields["measure"] = study.measure
    search = study.search.model_dump(exclude={"draws", "stop_when"})
    fields |= {f"search.{name}": value for name, value in search.items()}
    resources = study.resources  # these change the bits of a row
    fields["resources.engine"] = resources.engine
    fields["resources.cpus"] = resources.cpus
    fields["resources.device"] = resources.device or ("cuda" if resources.gpus else "cpu")
    fields["resources.deterministic"] = resources.deterministic
    return fields


def _adds(field: str, before: Any, after: Any) -> bool:
    listed = field.startswith("axes.") and before is not None and after is not None
    return listed and all(value in after for value in before)


def _say(value: Any) -> str:
    return "absent" if value is None else str(value)
