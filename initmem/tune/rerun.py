"""Train one replica again and hold the new row against the old."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from initmem.data.load import check
from initmem.records.meter import Meter
from initmem.records.store import Store
from initmem.study.plan import Replica
from initmem.study.recipe import Recipe, field_types
from initmem.study.spec import UserError
from initmem.tune.block import train_replica, use_kernels, use_threads


class _Nowhere:
    """A rerun keeps no checkpoints."""

    def save(self, step: int, content: bytes) -> None: ...

    def latest(self) -> None: ...

    def meter(self) -> Meter:
        return Meter(None)


def rerun(folder: str | Path, name: str, data: str | Path) -> dict[str, tuple[Any, Any]]:
    """Columns of the row that came out different, with the old and the new value; those under
    `run.` may differ and are not compared.

    Raises UserError if the run has no such replica.
    """
    store = Store(folder)
    study = store.open()
    old = store.get(name)
    if old is None:
        close = difflib.get_close_matches(name, store.names(), n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise UserError(f"{store.address}: {name}: no such replica among its records{hint}")
    replica = Replica(_recipe(old), old["seed"], old["arm"], old["cell"], old["draw"])
    check(replica.recipe.data, Path(data).absolute())
    use_threads(old["threads"] or study.resources.cpus)
    use_kernels(bool(old["deterministic"]))
    training = train_replica(study, replica, Path(data).absolute(), _Nowhere())
    try:
        while True:
            next(training)
    except StopIteration as end:
        new = end.value
    return {
        column: (old[column], new[column])
        for column in old
        if old[column] != new[column] and not column.startswith("run.")
    }


def _recipe(row: dict[str, Any]) -> Recipe:
    """The recipe that a row keeps, whatever the study says today."""
    nested: dict[str, Any] = {}
    for field in field_types():
        section, _, name = field.partition(".")
        if row[field] is None:
            continue  # of another variant, or null, which every such field has as its default
        if name:
            nested.setdefault(section, {})[name] = row[field]
        else:
            nested[section] = row[field]
    return Recipe.model_validate(nested)
