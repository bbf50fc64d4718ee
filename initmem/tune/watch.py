"""What a person sees while a study runs: one live line on a terminal, plain lines in a pipe."""

from __future__ import annotations

import sys
import time
from typing import Any

from initmem.memory import spread
from initmem.memory.measures import MEASURES
from initmem.records.store import Store, counted
from initmem.search.agenda import Agenda
from initmem.study.plan import asked_by, count
from initmem.study.spec import Study, one_line

EVERY_S = {True: 1.0, False: 30.0}
"""Seconds between two lines, on a terminal and in a pipe."""


class Watch:
    """Counts records as they appear, whoever writes them."""

    def __init__(self, store: Store, agenda: Agenda) -> None:
        self.store, self.agenda = store, agenda
        self.asked = asked_by(agenda.study, agenda.ended)
        self.live = sys.stdout.isatty()
        self.last = time.monotonic()
        self.first: tuple[float, int] | None = None
        """When records began to appear, and how many there were: start-up is no measure."""
        self.before = len(store.rows(self.asked))
        self.width = 0

    def tick(self) -> None:
        """Say where the study stands, if it is time to."""
        now = time.monotonic()
        if now - self.last < EVERY_S[self.live]:
            return
        self.last = now
        self._write(self.line(now))
        # A bucket answers slowly: look less often than looking takes.
        self.last = max(now, 2 * time.monotonic() - now)

    def line(self, now: float) -> str:
        study, last_cell = self.agenda.study, self.agenda.last_cell
        rows = self.store.rows(self.asked)
        done, planned = len(rows), count(study, self.agenda.ended)
        parts = [f"{study.name}: {done}/{planned} replicas", counted(rows)]
        if last_cell:
            parts.append(f"memory of the last cell {_told(study, last_cell)}")
        if self.first is None and done > self.before:
            self.first = now, done
        if self.first is not None and self.first[1] < done < planned:
            each = (now - self.first[0]) / (done - self.first[1])
            parts.append(f"{duration(each * (planned - done))} left")
        parts.append(one_line(self.store.address))
        return " | ".join(part for part in parts if part)

    def end(self) -> None:
        self._write(self.line(time.monotonic()))
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


def _told(study: Study, last_cell: list[dict[str, Any]]) -> str:
    found = spread(last_cell, study.measure)
    if found["memory"] is None:
        return "censored" if "censored" in found else "not trained"
    bound = "at least " if "censored" in found else ""
    return f"{bound}{found['memory']:.1f} {MEASURES[study.measure].unit}"


def duration(seconds: float) -> str:
    minutes = int(seconds // 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
