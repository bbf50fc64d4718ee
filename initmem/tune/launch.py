"""Run a study: on Ray, or in this process."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from initmem.data.load import check
from initmem.memory import STATES
from initmem.records.store import Store
from initmem.search.agenda import Agenda
from initmem.study.compare import conflicts
from initmem.study.plan import Point, arms, count, resolve
from initmem.study.spec import Study, UserError
from initmem.tune.block import device_of, train_block
from initmem.tune.owner import owning
from initmem.tune.stop import stoppable
from initmem.tune.watch import Watch


@dataclass(frozen=True)
class Summary:
    """What a run came to."""

    folder: Path
    planned: int
    done: int
    trained: int
    """Replicas trained by this run, not before it."""
    states: dict[str, int]
    seconds: float


def run(
    study: Study,
    folder: str | Path | None = None,
    *,
    local: bool = False,
    workers: int | None = None,
    data: str | Path = "data",
) -> Summary:
    """Train what a study lacks. A finished study starts nothing.

    folder: of the run, default runs/<name>; local: in this process, without Ray; workers: blocks
    at once, default as many as the machine has cores for; data: folder of the data sets.
    Raises UserError before anything starts if the study cannot run here or contradicts the
    folder's own.
    """
    clock = time.monotonic()
    store = Store(folder or Path("runs") / study.name)
    data = Path(data).absolute()
    planned = count(study)
    known = _known_study(store)
    if known is not None:
        _refuse_conflicts(known, study, store)
    agenda = Agenda(study, store.cell, _drawn(study, store))
    before = len(store.names())
    first = agenda.next()
    if first is not None:
        device = device_of(study)
        for section in _data_sections(study):
            check(section, data)
        store.create(study)
        with owning(store.folder):
            watch = Watch(store, study.name, planned)
            agenda.waiting.appendleft(first)
            if local:
                with stoppable():
                    _run_local(study, agenda, store, data, watch)
            else:
                from initmem.tune.cluster import run_on_ray

                run_on_ray(study, agenda, store, data, watch, workers, device.type)
            watch.end(agenda.last_cell)
    states = Counter(row["state"] for row in store.rows())
    return Summary(
        folder=store.folder,
        planned=planned,
        done=len(store.names()),
        trained=len(store.names()) - before,
        states={state: states[state] for state in STATES if states[state]},
        seconds=time.monotonic() - clock,
    )


def _run_local(study: Study, agenda: Agenda, store: Store, data: Path, watch: Watch) -> None:
    while (block := agenda.next()) is not None:
        for _ in train_block(study, block, store, data):
            watch.tick(agenda.last_cell)
        agenda.finished(block)


def _known_study(store: Store) -> Study | None:
    return store.open() if (store.folder / "study.json").exists() else None


def _refuse_conflicts(known: Study, study: Study, store: Store) -> None:
    changed = conflicts(known, study)
    if changed and store.names():
        lines = "\n".join(f"  {line}" for line in changed)
        raise UserError(
            f"{store.folder}: run: holds rows of another study:\n{lines}\n"
            f"take the change back, or name another folder with --run"
        )


def _drawn(study: Study, store: Store) -> dict[tuple[str, int], Point]:
    """The points of draws that left rows."""
    return {
        (row["arm"], row["draw"]): {field: row[field] for field in study.ranges}
        for row in store.rows()
    }


def _data_sections(study: Study) -> set[Any]:
    low: dict[str, Any] = {field: r.low for field, r in study.ranges.items()}
    low[study.memory_axis] = study.axes[study.memory_axis][0]
    return {resolve(study, {**arm.values, **low}).data for arm in arms(study)}
