"""Ray, started on this machine or joined where it runs, and the room that it has for blocks."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from initmem.study.plan import Block
from initmem.study.spec import Study, UserError
from initmem.tune.place import asked, here

ENVIRONMENT = {
    "RAY_AIR_NEW_OUTPUT": "0",  # Tune's boxes
    "RAY_USAGE_STATS_ENABLED": "0",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # ours answers at once, see stop.py
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # 711 to 220 MB of the driver; we name our own
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # a block without GPUs sees none
    "TUNE_GLOBAL_CHECKPOINT_S": "1e9",  # of Tune's own state, which grows and which nobody reads
}

LOCAL = "local"
"""The address of a Ray of this machine's own, which ends with the run."""

Share = dict[str, float]
"""What Ray is asked for, by its names: CPU, GPU."""


@dataclass(frozen=True)
class Room:
    """What blocks are given."""

    device: str
    each: Share
    """What a block gets."""
    workers: int | None
    """Blocks at once at most; None leaves it to the room that Ray has."""
    fitting: int
    """Blocks that Ray has room for as it stands."""
    shared: bool
    """Whether nodes of other machines may take part."""
    dashboard: str | None = None
    """Where Ray's is, if it was asked for."""

    @property
    def waiting(self) -> int:
        """Blocks that Ray is asked for before it has room: what an autoscaler goes by."""
        return self.workers or max(1, self.fitting)

    def share(self, block: Block) -> Share:
        return {**self.each, "GPU": 1.0} if block.whole_gpu else self.each


def share(study: Study, device: str) -> Share:
    """Of a block; a whole GPU where the study names no share."""
    resources = study.resources
    if device == "cpu":
        return {"CPU": resources.cpus, "GPU": 0.0}
    k = resources.blocks_a_gpu
    whole = resources.gpus or 1.0
    # Ray counts in ten-thousandths: three times .3333 fit on a GPU.
    return {"CPU": resources.cpus, "GPU": whole if k == 1 else int(1e4 / k) / 1e4}


@contextmanager
def joined(
    study: Study, address: str | None, workers: int | None, dashboard: bool = False
) -> Iterator[Room]:
    """Start Ray, or join it, and leave it at the end.

    address: `auto` on a machine of a cluster, HOST:PORT of its head, or None for a Ray of this
    machine's own; workers: blocks at once, by default as many as there is room for; dashboard:
    start Ray's as well.
    Raises UserError where nobody answers, or this machine has not what a block asks for.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    address = address or LOCAL  # a bare init joins whatever it finds
    _expect_head(address)
    mine: dict[str, Any] = {}
    if address == LOCAL:
        device = here(study).device.type
        blocks = workers or max(1, (os.cpu_count() or 1) // study.resources.cpus)
        mine = {"num_cpus": blocks * study.resources.cpus}
    import ray

    from initmem.tune.dashboard import beside
    from initmem.tune.watchdog import shut_down

    mine |= beside(dashboard, address)
    try:
        started = ray.init(address=address, log_to_driver=False, logging_level="CRITICAL", **mine)
    except ConnectionError as error:
        raise UserError(_no_head(address, str(error).splitlines()[0])) from None
    try:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if address != LOCAL:
            auto = "cuda" if any(node.get("GPU") for node in nodes) else "cpu"
            device = auto if asked(study) == "auto" else asked(study)
        each = share(study, device)
        blocks = sum(fitting(each, node) for node in nodes)
        url = started.dashboard_url if dashboard else None
        yield Room(device, each, workers, blocks, address != LOCAL, url)
    finally:
        shut_down()


def fitting(each: Share, node: Share) -> int:
    """How many blocks a node has room for; Ray counts in ten-thousandths."""
    asked_for = {name: amount for name, amount in each.items() if amount}
    return int(min(node.get(name, 0.0) / amount + 1e-4 for name, amount in asked_for.items()))


def _expect_head(address: str) -> None:
    """Raise UserError where nothing listens: Ray itself would ask for two minutes."""
    if "://" in address:
        text = "a driver runs on a machine of the cluster: use ray exec, or ray job submit"
        raise UserError(f"--address: {address}: {text}")
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except (OSError, OverflowError) as error:
            raise UserError(_no_head(address, str(error))) from None


def _no_head(address: str, why: str) -> str:
    return (
        f"--address: {address}: no head answers ({why}); start Ray there, or leave --address and "
        f"RAY_ADDRESS out"
    )
