"""Run a study: on Ray, or in this process."""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from initmem.data.load import check
from initmem.memory import STATES
from initmem.records.rows import Row
from initmem.records.store import Store
from initmem.search.agenda import Agenda
from initmem.study.compare import conflicts
from initmem.study.plan import Cell, Point, Replica, arms, asked_by, count, resolve
from initmem.study.spec import Study, UserError
from initmem.tune.block import first_line, train_block
from initmem.tune.engines import settle, timed
from initmem.tune.owner import owning
from initmem.tune.place import Place, here, outgrew
from initmem.tune.room import joined
from initmem.tune.stop import stoppable
from initmem.tune.watch import Watch


@dataclass(frozen=True)
class Summary:
    """What a run came to."""

    address: str
    """Of the run: a folder, or a place in a bucket."""
    planned: int
    """Replicas that the study asks for, without those that an early end of its search spares."""
    done: int
    trained: int
    """Replicas trained by this run, not before it."""
    states: dict[str, int]
    ended: dict[str, int]
    """Draws of the arms whose search ended early, by id."""
    repeated_steps: int
    """Steps trained twice because a worker was lost after its last checkpoint, over all runs."""
    seconds: float


def run(
    study: Study,
    address: str | Path | None = None,
    *,
    local: bool = False,
    workers: int | None = None,
    cluster: str | None = None,
    data: str | Path = "data",
    retry_failed: bool = False,
) -> Summary:
    """Train what a study lacks. A finished study starts nothing.

    address: a folder or s3://bucket/path, default <study.storage>/<study.name>; local: in this
    process, without Ray; cluster: the Ray to join, `auto` or HOST:PORT, default RAY_ADDRESS, else
    one of this machine's own; workers: blocks at once, default as many as there is room for; data:
    folder of the data sets; retry_failed: train replicas in state failed again.
    Raises UserError before anything starts if the study cannot run here or contradicts what was
    run at the address.
    """
    clock = time.monotonic()
    store = Store(address or study.address)
    data = Path(data).absolute()
    known = store.known()
    _refuse_conflicts(known, study, store)
    if retry_failed:
        asked = asked_by(study, store.ended(study))
        _forget([row["replica"] for row in store.rows(asked) if row["state"] == "failed"], store)
    outgrown = partial(_outgrown, study, store)
    agenda = Agenda(study, partial(_rows, study, store), _drawn(study, store), outgrown)
    before = {row["replica"] for row in store.rows()}
    first = agenda.next()
    if first is None and (known is None or agenda.ended != store.ended(study)):
        with owning(store.files):
            store.create(study)
            store.keep_ended(study, agenda.ended)
    if first is not None:
        sections = _data_sections(study)
        for section in sections:
            check(section, data)
        agenda.back(first)
        cluster = cluster or os.environ.get("RAY_ADDRESS")
        taken = nullcontext(here(study)) if local else joined(study, cluster, workers)
        with taken as place, owning(store.files):
            store.create(study)
            store.keep_ended(study, agenda.ended)
            agenda.on_end = partial(_keep_ended, store, study)
            watch = Watch(store, agenda)
            if isinstance(place, Place):
                with stoppable():
                    settle(study, store, data, place, timed)
                    _run_local(study, agenda, store, data, watch, place)
            else:
                from initmem.tune.cluster import run_on_ray

                run_on_ray(study, agenda, store, data, sections, watch, place)
            store.keep_ended(study, agenda.ended)
            watch.end()
    rows = store.rows(asked_by(study, agenda.ended))
    states = Counter(row["state"] for row in rows)
    return Summary(
        address=store.address,
        planned=count(study, agenda.ended),
        done=len(rows),
        trained=sum(row["replica"] not in before for row in rows),
        states={state: states[state] for state in STATES if states[state]},
        ended=agenda.ended,
        repeated_steps=sum(row["run.repeated_steps"] or 0 for row in rows),
        seconds=time.monotonic() - clock,
    )


def _run_local(
    study: Study, agenda: Agenda, store: Store, data: Path, watch: Watch, place: Place
) -> None:
    try:
        while (block := agenda.next()) is not None:
            for _ in train_block(study, block, store, data, place):
                watch.tick()
            agenda.finished(block)
    except torch.AcceleratorError as error:
        raise UserError(
            f"{study.name}: this process has lost its GPU ({first_line(error)}); "
            f"the same command, in a new process, goes on"
        ) from error


def _rows(study: Study, store: Store, cell: Cell) -> list[Row] | None:
    """Of a cell whose replicas are all done."""
    rows = store.cell(cell)
    return None if rows is None or any(outgrew(study, row) for row in rows) else rows


def _outgrown(study: Study, store: Store, replica: Replica) -> bool:
    """Whether a replica's row says so; it is then set aside, for another to come."""
    row = store.done(replica)
    if row is None or not outgrew(study, row):
        return False
    store.forget(replica.id)
    return True


def _keep_ended(store: Store, study: Study, ended: dict[str, int]) -> None:
    """In the middle of a run it is for `initmem status` alone: a full disk is said by the rows."""
    with suppress(UserError):
        store.keep_ended(study, ended)


def _forget(replicas: list[str], store: Store) -> None:
    if replicas:
        with owning(store.files):
            for replica in replicas:
                store.forget(replica)


def _refuse_conflicts(known: Study | None, study: Study, store: Store) -> None:
    """Where the run has lost its study, its rows tell what memory they are about."""
    changed = conflicts(known, study) if known else []
    axes = {row["memory_axis"] for row in store.rows()} - {study.memory_axis}
    changed = changed or [f"memory_axis: {axis} -> {study.memory_axis}" for axis in sorted(axes)]
    if changed and store.names():
        raise UserError(
            f"{store.address}: run: holds rows of another study:",
            *(f"  {line}" for line in changed),
            "take the change back, or name another folder with --run",
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
    recipes = [resolve(study, {**arm.values, **low}) for arm in arms(study)]
    return {stage.data for recipe in recipes for stage in recipe.stages}
