"""A Tune trial: one block, on the worker that Ray gives it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import ray
import torch
from ray import tune

from initmem.records.store import Store
from initmem.study.plan import Arm, Block, arms, blocks, cell
from initmem.study.spec import Study, UserError
from initmem.tune.block import Progress, train_block
from initmem.tune.nodes import Expected, Unfit, admit, provide
from initmem.tune.place import Place

REPORT_EVERY_S = 2.0
"""Reports cost the driver time: at most one in this many seconds from a block."""

REFUSED = "refused"
"""In a result: why nothing more can be trained by anybody, such as a full disk."""


UNFIT = "unfit"
"""In a result: why this node gets no work; its id and address are beside it."""


def config_of(
    block: Block, run: str, data: Path, share: dict[str, float], unfit: Iterable[str]
) -> dict[str, Any]:
    """What a trial is told; the study itself lies in the run folder. share: see `Room.share`;
    unfit: nodes, by id, that are not to get it. Fields of the recipe go by their dotted names, for
    those who look at a trial from outside."""
    return {
        **block.cell.arm.values,
        **block.cell.point,
        "arm": block.cell.arm.index,
        "draw": block.cell.draw,
        "block": block.index,
        "whole_gpu": block.whole_gpu,
        "share": share,
        "not_on": ",".join(unfit),
        "run": run,
        "data": str(data),
    }


@lru_cache(maxsize=1)
def _opened(run: str) -> tuple[Study, list[Arm]]:
    """The study of a run and its arms, once a worker: there may be thousands."""
    study = Store(run).open()
    return study, arms(study)


def _train(config: dict[str, Any], wanted: Expected) -> Iterator[Progress]:
    store, data = Store(config["run"]), Path(config["data"])
    admit(wanted, store)
    study, all_arms = _opened(config["run"])
    point = {field: config[field] for field in study.ranges}
    whole = cell(study, all_arms[config["arm"]], config["draw"], point)
    block = blocks(study, whole)[config["block"]]
    for section in {stage.data for r in block.replicas for stage in r.recipe.stages}:
        provide(wanted, section, data)
    gpus = config["share"]["GPU"] or None
    yield from train_block(study, block, store, data, Place(torch.device(wanted.device), gpus))


class BlockTrainable(tune.Trainable):
    """Trains a block. Its state is in the run folder, so Tune has no checkpoint to keep: a trial
    that was lost goes on from the records and checkpoints that are there. Nothing is raised to
    Tune, which would try it again: only lost workers are worth that."""

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        there = {"ray.io/node-id": f"!in({config['not_on']})"} if config["not_on"] else {}
        return tune.PlacementGroupFactory([config["share"]], bundle_label_selector=[there])

    wanted: Expected

    def setup(self, config: dict[str, Any]) -> None:
        self.progress = _train(config, self.wanted)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        clock = time.monotonic()
        newest: dict[str, Any] = {}
        try:
            for progress in self.progress:
                newest |= progress
                if time.monotonic() - clock > REPORT_EVERY_S:
                    return {**newest, "done": False}
        except torch.AcceleratorError:
            raise  # this process has lost its GPU: as good as a lost worker
        except Unfit as error:
            node = ray.get_runtime_context().get_node_id()
            newest |= {UNFIT: str(error), "node_id": node}
        except UserError as error:
            newest[REFUSED] = str(error)
        except Exception:  # a fault of initmem itself: the errors of a replica are in its row
            newest[REFUSED] = traceback.format_exc()
        return {**newest, "done": True}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        return None

    def load_checkpoint(self, checkpoint: Any) -> None:
        return None
