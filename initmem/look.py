"""What a run holds, for people: where it stands, and its cells for the tools of Optuna."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from initmem.forecast import early, many
from initmem.study.address import is_path
from initmem.study.plan import arms, asked_by, count
from initmem.study.spec import Study, UserError

if TYPE_CHECKING:
    import pandas as pd

    from initmem.records.rows import Row


def standing(folder: str) -> Iterator[str]:
    """Lines: replicas and their states, who runs it, the memory of each cell."""
    from initmem.records.store import Store, counted
    from initmem.tune.owner import described, owner_of

    store = Store(folder)
    study = store.open()
    ended = store.ended(study)
    found, asked = store.rows(), asked_by(study, ended)
    rows = [row for row in found if asked(row)]
    others = len(found) - len(rows)
    states = Counter(row["state"] for row in rows)
    owner = owner_of(store.files)
    yield f"{study.name}: {len(rows)} of {count(study, ended)} replicas, " + (
        counted(states) or "no rows"
    )
    if ended:
        yield early(study, ended)
    if others:
        yield f"{many(others, 'more row')} in the folder, of no replica of this study"
    yield "not running" if owner is None else f"running: {described(owner)}"
    if rows:
        yield from _map(study, rows)


def _map(study: Study, rows: list[Row]) -> Iterator[str]:
    from initmem.memory.measures import MEASURES

    of = MEASURES[study.measure]
    if study.measure != "test_accuracy":
        yield f"memory of the {of.noun}, in {of.unit}"
    named = {arm.id: arm.named for arm in arms(study)}
    for _, line in _cells(study, rows).sort_values("memory", ascending=False).iterrows():
        point = [f"{field} {line[field]:.3g}" for field in study.ranges]
        lost = line.get("censored", 0)
        upper = "or more" if lost else f"to {line['high']:.1f}"
        ends = f"({line['low']:.1f} {upper})" if line["low"] >= 0 else ""
        memory = f"{'>=' * (lost > 0)}{line['memory']:.1f}" if line["memory"] >= 0 else "-"
        trained, all_of = line["trained_values"], line["values"]
        part = [f"over {trained} of {all_of} values"] if 0 < trained < all_of else []
        part += [f"{many(lost, 'replica')} not within the budget"] if lost else []
        place = ", ".join([*named[line["arm"]], *point, *part])
        yield f"memory {memory:>5} {ends:16} {line['verdict']:11}  {place}"


def _cells(study: Study, rows: list[Row]) -> pd.DataFrame:
    from initmem.memory import cells
    from initmem.records.store import frame

    values = len(study.axes[study.memory_axis])
    return cells(frame(rows), study.measure, threshold=study.threshold, axis_values=values)


def for_optuna(folder: str, file: str) -> str:
    """Write a run's cells as Optuna studies (see `search.export`) into a file of this machine,
    whole or not at all. Returns its path."""
    from initmem.records.files import LocalFiles
    from initmem.records.store import Store
    from initmem.search.export import optuna_file

    if not is_path(file):
        raise UserError("--optuna: is written to a file of this machine, not to an address")
    path = Path(file).absolute()
    store = Store(folder)
    study = store.open()
    rows = store.rows(asked_by(study, store.ended(study)))
    if not rows:
        raise UserError(f"{store.address}: run: has no rows yet")
    lines = [
        {str(k): v for k, v in line.items()} for line in _cells(study, rows).to_dict("records")
    ]
    LocalFiles(path.parent).write(path.name, optuna_file(study, rows, lines, path.suffix))
    return str(path)
