"""Ray: start or join it, and let Tune place the blocks."""

from __future__ import annotations

import os
import socket
from functools import partial
from pathlib import Path

from initmem.records.store import Store
from initmem.search.agenda import Agenda
from initmem.study.plan import Replica
from initmem.study.spec import Study, UserError
from initmem.tune.engines import settle, timed
from initmem.tune.stop import stoppable
from initmem.tune.watch import Watch

ENVIRONMENT = {
    "RAY_AIR_NEW_OUTPUT": "0",  # Tune's boxes
    "RAY_USAGE_STATS_ENABLED": "0",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # ours answers at once, see stop.py
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # 711 to 220 MB of the driver; we name our own
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # a block without GPUs sees none
    "TUNE_GLOBAL_CHECKPOINT_S": "1e9",  # of Tune's own state, which grows and which nobody reads
}


def run_on_ray(
    study: Study,
    agenda: Agenda,
    store: Store,
    data: Path,
    watch: Watch,
    workers: int | None,
    device: str,
) -> None:
    """Train the agenda's blocks as Tune trials: on the Ray that RAY_ADDRESS names (`auto` on a
    machine of a cluster), else on one of this machine's own.

    workers: blocks at once. Ray itself keeps nothing that is needed later.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import ray
    from ray import tune

    from initmem.tune.curves import FOLDER, Curves
    from initmem.tune.forget import Forgetful, NoProgress
    from initmem.tune.searcher import AgendaSearcher, Lookout, Refusals
    from initmem.tune.trainable import BlockTrainable
    from initmem.tune.watchdog import shut_down, watched

    resources = study.resources
    workers = workers or max(1, (os.cpu_count() or 1) // resources.cpus)
    address = os.environ.get("RAY_ADDRESS", "local")  # a bare init joins whatever it finds
    _expect_head(address)
    mine = {"num_cpus": workers * resources.cpus, "include_dashboard": False}
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level="CRITICAL",
            **(mine if address == "local" else {}),
        )
    except ConnectionError as error:
        raise UserError(_no_head(address, str(error).splitlines()[0])) from None
    searcher, refusals = AgendaSearcher(agenda, store.address, data), Refusals()
    try:
        trainable = tune.with_resources(BlockTrainable, placement(study, device))
        tuner = tune.Tuner(
            trainable,
            param_space={"study": study.name},
            tune_config=tune.TuneConfig(
                search_alg=searcher,
                scheduler=Forgetful(),
                num_samples=-1,
                max_concurrent_trials=workers,
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
                    Lookout(watch, searcher, resources.retries),
                    NoProgress(),
                ],
                stop=refusals,
                verbose=0,
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),  # 5 ms a block
            ),
        )
        with stoppable(), watched():
            settle(study, store, data, partial(_timed_on_a_worker, device))
            tuner.fit()
    finally:
        shut_down()
    if refusals.first:
        raise UserError(*refusals.first.splitlines())


def _timed_on_a_worker(
    device: str, study: Study, teams: dict[str, list[Replica]], data: Path
) -> dict[str, str]:
    import ray

    share = placement(study, device)
    task = ray.remote(num_cpus=share["cpu"], num_gpus=share["gpu"])(timed)
    found: dict[str, str] = ray.get(task.remote(study, teams, data))
    return found


def _expect_head(address: str) -> None:
    """Raise UserError where nothing listens: Ray itself would ask for two minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except (OSError, OverflowError) as error:
            raise UserError(_no_head(address, str(error))) from None


def _no_head(address: str, why: str) -> str:
    return f"RAY_ADDRESS: {address}: no head answers ({why}); start Ray there, or unset it"


def placement(study: Study, device: str) -> dict[str, float]:
    """What Ray is asked for a block; a whole GPU where the study names no share."""
    gpus = (study.resources.gpus or 1.0) if device == "cuda" else 0.0
    return {"cpu": study.resources.cpus, "gpu": gpus}


def _name(trial: object) -> str:
    config = getattr(trial, "config", {})
    return f"arm{config.get('arm')}-draw{config.get('draw')}-block{config.get('block')}"
