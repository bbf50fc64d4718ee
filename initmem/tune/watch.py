"""What a person sees while a study runs: one live line on a terminal, plain lines in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from initmem.memory import spread
from initmem.records.rows import Row
from initmem.records.store import Store, counted
from initmem.study.spec import one_line

EVERY_S = {True: 1.0, False: 30.0}
"""Seconds between two lines, on a terminal and in a pipe."""


class Watch:
    """Counts records as they appear, whoever writes them."""

    def __init__(
        self, store: Store, name: str, planned: int, asked: Callable[[Row], bool]
    ) -> None:
        """asked: whether a row is of the study, see `plan.asked_by`."""
        self.store, self.name, self.planned, self.asked = store, name, planned, asked
        self.live = sys.stdout.isatty()
        self.last = time.monotonic()
        self.first: tuple[float, int] | None = None
        """When records began to appear, and how many there were: start-up is no measure."""
        self.before = len(store.rows(asked))
        self.width = 0

    def tick(self, last_cell: list[dict[str, Any]]) -> None:
        """Say where the study stands, if it is time to."""
        now = time.monotonic()
        if now - self.last < EVERY_S[self.live]:
            return
        self.last = now
        self._write(self.line(last_cell, now))
        # A bucket answers slowly: look less often than looking takes.
        self.last = max(now, 2 * time.monotonic() - now)

    def line(self, last_cell: list[dict[str, Any]], now: float) -> str:
        rows = self.store.rows(self.asked)
        done = len(rows)
        parts = [f"{self.name}: {done}/{self.planned} replicas", counted(rows)]
        if last_cell:
            value = spread(last_cell)["memory"]
            told = "not trained" if value is None else f"{value:.1f} points"
            parts.append(f"memory of the last cell {told}")
        if self.first is None and done > self.before:
            self.first = now, done
        if self.first is not None and self.first[1] < done < self.planned:
            each = (now - self.first[0]) / (done - self.first[1])
            parts.append(f"{duration(each * (self.planned - done))} left")
        parts.append(one_line(self.store.address))
        return " | ".join(part for part in parts if part)

    def end(self, last_cell: list[dict[str, Any]]) -> None:
        self._write(self.line(last_cell, time.monotonic()))
        if self.live:
            print()

    def say(self, text: str) -> None:
        """A line that stays."""
        print(("\n" if self.live else "") + text, file=sys.stderr, flush=True)

    def _write(self, line: str) -> None:
        if self.live:
            print("\r" + line.ljust(self.width), end="", flush=True)
            self.width = len(line)
        else:
            print(line, flush=True)


def duration(seconds: float) -> str:
    minutes = int(seconds // 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
