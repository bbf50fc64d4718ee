"""A Tune trial: one block, on the worker that Ray gives it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from ray import tune

from initmem.records.store import Store
from initmem.study.plan import Arm, Block, arms, blocks, cell
from initmem.study.spec import Study, UserError
from initmem.tune.block import Progress, train_block

REPORT_EVERY_S = 2.0
"""Reports cost the driver time: at most one in this many seconds from a block."""

POINT = "point"

REFUSED = "refused"
"""In a result: why nothing more can be trained by anybody, such as a full disk."""


def config_of(block: Block, run: str, data: Path) -> dict[str, Any]:
    """What a trial is told; the study itself lies in the run folder."""
    return {
        POINT: block.cell.point,
        "arm": block.cell.arm.index,
        "draw": block.cell.draw,
        "block": block.index,
        "run": run,
        "data": str(data),
    }


@lru_cache(maxsize=1)
def _opened(run: str) -> tuple[Study, list[Arm]]:
    """The study of a run and its arms, once a worker: there may be thousands."""
    study = Store(run).open()
    return study, arms(study)


def _train(config: dict[str, Any]) -> Iterator[Progress]:
    store = Store(config["run"])
    study, all_arms = _opened(config["run"])
    whole = cell(study, all_arms[config["arm"]], config["draw"], config[POINT])
    block = blocks(study, whole)[config["block"]]
    yield from train_block(study, block, store, Path(config["data"]))


class BlockTrainable(tune.Trainable):
    """Trains a block. Its state is in the run folder, so Tune has no checkpoint to keep: a trial
    that was lost goes on from the records and checkpoints that are there. Nothing is raised to
    Tune, which would try it again: only lost workers are worth that."""

    def setup(self, config: dict[str, Any]) -> None:
        self.progress = _train(config)

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
        except UserError as error:
            newest[REFUSED] = str(error)
        except Exception:  # a fault of initmem itself: the errors of a replica are in its row
            newest[REFUSED] = traceback.format_exc()
        return {**newest, "done": True}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        return None

    def load_checkpoint(self, checkpoint: Any) -> None:
        return None
