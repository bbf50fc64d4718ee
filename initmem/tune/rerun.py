"""Train one replica again and hold the new row against the old."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from initmem.data.load import check
from initmem.records.meter import Meter
from initmem.records.rows import recipe_of
from initmem.records.store import Store
from initmem.study.plan import Replica
from initmem.study.spec import UserError, cut
from initmem.tune.block import train_team
from initmem.tune.place import here
from initmem.tune.process import arithmetic


class _Nowhere:
    """A rerun keeps no checkpoints."""

    def save(self, step: int, content: bytes) -> None: ...

    def latest(self, takes: Callable[[bytes], bool]) -> None: ...

    def meter(self) -> Meter:
        return Meter(None)


def rerun(folder: str | Path, name: str, data: str | Path) -> dict[str, tuple[Any, Any]]:
    """Columns of the row that came out different, with the old and the new value; those under
    `run.` may differ and are not compared.

    Raises UserError if the run has no such replica, or its record holds no row.
    """
    store = Store(folder)
    study = store.open()
    names = store.names()
    old = store.row(name) if name in names else None
    if old is None:
        close = difflib.get_close_matches(name[:80], names - {name}, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        text = f"{cut(name, 80)}: no such replica among its records{hint}"
        raise UserError(f"{store.address}: {text}")
    replica = Replica(recipe_of(old), old["seed"], old["arm"], old["cell"], old["draw"])
    check(replica.recipe.data, Path(data).absolute())
    with arithmetic(old["threads"] or study.resources.cpus, study.resources.deterministic):
        data, engine = Path(data).absolute(), old["engine"] or "loop"
        training = train_team(study, [replica], data, [_Nowhere()], engine, here(study))
        try:
            while True:
                next(training)
        except StopIteration as end:
            new = end.value[0]
    return {
        column: (old[column], new[column])
        for column in old
        if old[column] != new[column] and not column.startswith("run.")
    }
