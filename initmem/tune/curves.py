"""TensorBoard's curves of a block, written once and where the run lies.

Ray's own logger writes below a folder of Tune's, which Tune copies to the run, whole, every ten
seconds: the 10,000th block would copy 9,999 others.
"""

from __future__ import annotations

import shutil
import time
import weakref
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from ray.tune.logger import LoggerCallback
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.summary import scalar

from initmem.records.files import Files, LocalFiles
from initmem.study.spec import UserError

FOLDER = "tensorboard"

FLUSH_EVERY_S = {True: 30.0, False: 300.0}
"""Seconds until the curves of a block in training are there to see, here and in a bucket."""


class Curves(LoggerCallback):
    """A file of events for each block: a curve for each column of each replica, by its steps.

    Nothing that goes wrong here ends a run: rows hold the curves as well.
    """

    def __init__(self, files: Files) -> None:
        self.files, self.here = files, isinstance(files, LocalFiles)
        self.folder = Path(files.address, FOLDER)
        if not self.here:
            self.folder = Path(mkdtemp(prefix="initmem-curves-"))
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self.writers: dict[str, EventsWriter] = {}
        self.flushed: dict[str, float] = {}

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        name = str(trial)
        with suppress(OSError, UserError):
            if name not in self.writers:
                (self.folder / name).mkdir(parents=True, exist_ok=True)
                self.writers[name] = EventsWriter(str(self.folder / name / "events"))
                self.flushed[name] = time.monotonic()
            for label, point in result.items():
                if isinstance(point, dict) and "step" in point:
                    _write(self.writers[name], label, point)
            if time.monotonic() - self.flushed[name] > FLUSH_EVERY_S[self.here]:
                self.flushed[name] = time.monotonic()
                self.writers[name].flush()
                self._send(name)

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        name = str(trial)
        self.flushed.pop(name, None)
        with suppress(OSError, UserError):
            if writer := self.writers.pop(name, None):
                writer.close()
                self._send(name)
                if not self.here:
                    shutil.rmtree(self.folder / name)

    def _send(self, name: str) -> None:
        """To a bucket."""
        for path in () if self.here else (self.folder / name).iterdir():
            self.files.write(f"{FOLDER}/{name}/{path.name}", path.read_bytes())


def _write(writer: EventsWriter, label: str, point: dict[str, float]) -> None:
    for column, value in point.items():
        if column != "step" and value is not None:
            summary = scalar(f"{label}/{column}", value)
            writer.write_event(Event(wall_time=time.time(), step=point["step"], summary=summary))
