"""Run a study: on Ray, or in this process."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from initmem.data.load import check
from initmem.memory import STATES
from initmem.records.rows import Row
from initmem.records.store import Store
from initmem.records.tally import Tally
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
from initmem.tune.tracking import require
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
    dashboard: bool = False,
) -> Summary:
    """Train what a study lacks. A finished study starts nothing.

    address: a folder or s3://bucket/path, default <study.storage>/<study.name>; local: in this
    process, without Ray; cluster: the Ray to join, `auto` or HOST:PORT, default RAY_ADDRESS, else
    one of this machine's own; workers: blocks at once, default as many as there is room for; data:
    folder of the data sets; retry_failed: train replicas in state failed again; dashboard: start
    Ray's, beside a Ray of this run's own.
    Raises UserError before anything starts if the study cannot run here or contradicts what was
    run at the address.
    """
    clock = time.monotonic()
    require(study, local)
    store = Store(address or study.address)
    data = Path(data).absolute()
    known, tally = store.known(), Tally(store, study)
    found = _survey(study, tally)
    _refuse_conflicts(known, study, store, found.axes)
    if retry_failed and found.failed:
        with owning(store.files):
            for replica in found.failed:
                tally.forget(replica)
    outgrown = partial(_outgrown, study, tally)
    agenda = Agenda(study, partial(_rows, study, tally), found.drawn, outgrown)
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
        taken = nullcontext(here(study)) if local else joined(study, cluster, workers, dashboard)
        with taken as place, owning(store.files):
            store.create(study)
            store.keep_ended(study, agenda.ended)
            agenda.on_end = partial(_keep_ended, store, study)
            watch = Watch(tally, agenda)
            if isinstance(place, Place):
                with stoppable():
                    settle(study, store, data, place, timed)
                    _run_local(study, agenda, store, data, watch, place)
            else:
                from initmem.tune.cluster import run_on_ray

                run_on_ray(study, agenda, store, data, sections, watch, place)
            store.keep_ended(study, agenda.ended)
            watch.end()
    tally.look()
    states = tally.states(agenda.ended)
    return Summary(
        address=store.address,
        planned=count(study, agenda.ended),
        done=states.total(),
        trained=tally.total(tally.fresh, agenda.ended),
        states={state: states[state] for state in STATES if states[state]},
        ended=agenda.ended,
        repeated_steps=tally.total(tally.repeated, agenda.ended),
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


def _rows(study: Study, tally: Tally, cell: Cell) -> list[Row] | None:
    """Of a cell whose replicas are all done."""
    rows = tally.cell(cell)
    return None if rows is None or any(outgrew(study, row) for row in rows) else rows


def _outgrown(study: Study, tally: Tally, replica: Replica) -> bool:
    """Whether a replica's row says so; it is then set aside, for another to come."""
    if study.resources.on_oom == "fail":
        return False
    row = tally.store.done(replica)
    if row is None or not outgrew(study, row):
        return False
    tally.forget(replica.id)
    return True


def _keep_ended(store: Store, study: Study, ended: dict[str, int]) -> None:
    """In the middle of a run it is for `initmem status` alone: a full disk is said by the rows."""
    with suppress(UserError):
        store.keep_ended(study, ended)


@dataclass
class _Found:
    """What the rows of earlier runs say."""

    axes: set[str] = field(default_factory=set)
    """What memory they are about."""
    drawn: dict[tuple[str, int], Point] = field(default_factory=dict)
    """The points of draws that left rows."""
    failed: list[str] = field(default_factory=list)
    """Replicas that the study asks for."""


def _survey(study: Study, tally: Tally) -> _Found:
    """One look at each row, for there may be more of them than memory holds."""
    found, asked = _Found(), asked_by(study, tally.store.ended(study))
    for row in tally.news():
        found.axes.add(row["memory_axis"])
        found.drawn[row["arm"], row["draw"]] = {name: row[name] for name in study.ranges}
        if row["state"] == "failed" and asked(row):
            found.failed.append(row["replica"])
    return found


def _refuse_conflicts(known: Study | None, study: Study, store: Store, axes: set[str]) -> None:
    """Where the run has lost its study, its rows tell what memory they are about."""
    changed = conflicts(known, study) if known else []
    others = sorted(axes - {study.memory_axis})
    changed = changed or [f"memory_axis: {axis} -> {study.memory_axis}" for axis in others]
    if changed and store.names():
        raise UserError(
            f"{store.address}: run: holds rows of another study:",
            *(f"  {line}" for line in changed),
            "take the change back, or name another folder with --run",
        )


def _data_sections(study: Study) -> set[Any]:
    """Every data set that a replica is trained on."""
    low: dict[str, Any] = {field: r.low for field, r in study.ranges.items()}
    recipes = [
        resolve(study, {**arm.values, **low, study.memory_axis: value})
        for arm in arms(study)
        for value in study.axes[study.memory_axis]
    ]
    return {stage.data for recipe in recipes for stage in recipe.stages}
