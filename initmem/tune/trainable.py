"""A Tune trial: one block, on the worker that Ray gives it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ray import tune

from initmem.records.store import Store
from initmem.study.plan import Block, arms, blocks, cell
from initmem.study.spec import Study
from initmem.tune.block import Progress, train_block

REPORT_EVERY_S = 2.0
"""Reports cost the driver time: at most one in this many seconds from a block."""

POINT = "point"


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


class BlockTrainable(tune.Trainable):
    """Trains a block. Its state is in the run folder, so Tune has no checkpoint to keep: a trial
    that was lost goes on from the records and checkpoints that are there."""

    def setup(self, config: dict[str, Any]) -> None:
        store = Store(config["run"])
        study: Study = store.open()
        whole = cell(study, arms(study)[config["arm"]], config["draw"], config[POINT])
        block = blocks(study, whole)[config["block"]]
        self.progress: Iterator[Progress] = train_block(study, block, store, Path(config["data"]))

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        clock = time.monotonic()
        newest: dict[str, Any] = {}
        for progress in self.progress:
            newest |= progress
            if time.monotonic() - clock > REPORT_EVERY_S:
                return {**newest, "done": False}
        return {**newest, "done": True}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        return None

    def load_checkpoint(self, checkpoint: Any) -> None:
        return None
