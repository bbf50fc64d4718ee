"""make chaos: everything that can be done to a study from outside, and what it lost by it.

Each fault is brought into a run of one small study; then `initmem run` goes on, and the rows are
held against those of an undisturbed run. Prints a table and ends with status 1 if a row was lost,
doubled or different.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from dataclasses import fields
from functools import partial
from pathlib import Path

import pandas as pd

from tests.chaos import cells, files, kills, storage
from tests.chaos.scene import Fault, Line, Scene

FAULTS: list[Fault] = [
    partial(kills.driver_killed, kills=20),
    kills.worker_killed,
    kills.worker_stopped,
    kills.worker_killed_by_one_replica,
    kills.raylet_killed,
    kills.head_killed,
    kills.node_killed,
    partial(kills.signalled, number=signal.SIGINT),
    partial(kills.signalled, number=signal.SIGTERM),
    partial(kills.signalled, number=signal.SIGHUP),
    kills.two_drivers,
    files.state_files_damaged,
    partial(files.checkpoint_flipped, flips=1500),
    files.pickle_bomb,
    files.killed_in_a_write,
    storage.disk_full,
    storage.folder_read_only,
    storage.server_away,
    cells.raises,
    cells.out_of_memory,
    cells.diverges,
]


def main() -> None:
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(Path(folder))
        for fault in FAULTS:
            clock = time.monotonic()
            line = fault(scene)
            line.seconds = round(time.monotonic() - clock, 1)
            lines.append(line)
            print(f"{line.fault}: {line.seconds:.0f} s", file=sys.stderr, flush=True)
    table = pd.DataFrame(lines, columns=[field.name for field in fields(Line)])
    print(table.to_string(index=False))
    sys.exit(1 if table[["rows_lost", "rows_doubled", "bits_different"]].to_numpy().any() else 0)


if __name__ == "__main__":
    main()
