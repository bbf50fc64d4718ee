"""A study on Ray: Tune places the blocks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import ray
import torch
from ray import tune

from initmem.records.store import Store
from initmem.search.agenda import Agenda
from initmem.study.plan import Replica
from initmem.study.spec import Study, UserError
from initmem.tune import trainable
from initmem.tune.curves import FOLDER, Curves
from initmem.tune.dashboard import said
from initmem.tune.engines import settle, timed
from initmem.tune.forget import Forgetful, NoProgress
from initmem.tune.nodes import Expected, admit, expected, provide
from initmem.tune.place import Place
from initmem.tune.room import Room
from initmem.tune.searcher import AgendaSearcher, Lookout, Refusals
from initmem.tune.stop import stoppable
from initmem.tune.tracking import callbacks
from initmem.tune.watch import Watch
from initmem.tune.watchdog import watched


def run_on_ray(
    study: Study,
    agenda: Agenda,
    store: Store,
    data: Path,
    sections: Iterable[Any],
    watch: Watch,
    room: Room,
) -> None:
    """Train the agenda's blocks as Tune trials. Ray itself keeps nothing that is needed later.

    sections: of the data that the study needs, whole in the folder `data` on this machine.
    """
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(room.waiting)
    wanted = expected(store, sections, data, room.device, room.shared)
    refusals = Refusals(room.each, watch.say)
    searcher = AgendaSearcher(agenda, store.address, data, room, refusals)
    if room.dashboard:
        watch.say(said(room.dashboard))
    if not room.fitting:
        asked = ", ".join(f"{name} {amount:g}" for name, amount in room.each.items() if amount)
        watch.say(f"no node has room for a block ({asked}): waiting for one to join")

    class Block(trainable.BlockTrainable):
        """What `ps` and the dashboard show. Not by `tune.with_parameters`: its object in Ray's
        store would end the driver without a word when its raylet dies."""

    Block.wanted = wanted
    tuner = tune.Tuner(
        Block,
        param_space={"study": study.name},
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            scheduler=Forgetful(),
            num_samples=-1,
            reuse_actors=True,
            trial_name_creator=_name,
            trial_dirname_creator=_name,
        ),
        run_config=tune.RunConfig(
            name=FOLDER,
            storage_path=store.address,
            failure_config=tune.FailureConfig(max_failures=-1),  # the lookout counts
            callbacks=[
                Curves(store.files),
                *callbacks(study, store.files),
                Lookout(watch, searcher, study.resources.retries),
                NoProgress(),
            ],
            stop=refusals,
            verbose=0,
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),  # 5 ms a block
        ),
    )
    with stoppable(), watched():
        place = Place(torch.device(room.device), room.each["GPU"] or None)
        settle(study, store, data, place, partial(_timed_on_a_worker, room, wanted, store.address))
        tuner.fit()
    if refusals.first:
        raise UserError(*refusals.first.splitlines())


def _timed_on_a_worker(
    room: Room,
    wanted: Expected,
    run: str,
    study: Study,
    teams: dict[str, list[Replica]],
    data: Path,
    place: Place,
) -> dict[str, str]:
    def admitted() -> dict[str, str]:
        admit(wanted, Store(run))
        for stage in (stage for team in teams.values() for stage in team[0].recipe.stages):
            provide(wanted, stage.data, data)
        return timed(study, teams, data, place)

    task = ray.remote(num_cpus=room.each["CPU"], num_gpus=room.each["GPU"])(admitted)
    try:
        found: dict[str, str] = ray.get(task.remote())
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, UserError):
            raise UserError(*str(error.cause).splitlines()) from None
        raise
    return found


def _name(trial: object) -> str:
    config = getattr(trial, "config", {})
    again = "-whole-gpu" if config.get("whole_gpu") else ""
    return f"arm{config.get('arm')}-draw{config.get('draw')}-block{config.get('block')}{again}"
