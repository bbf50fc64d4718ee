"""What a person sees while a study runs: one live line on a terminal, plain lines in a pipe."""

from __future__ import annotations

import sys
import time
from typing import Any

from initmem.memory import spread
from initmem.memory.measures import MEASURES
from initmem.records.store import counted
from initmem.records.tally import Tally
from initmem.search.agenda import Agenda
from initmem.study.spec import Study, one_line

EVERY_S = {True: 1.0, False: 30.0}
"""Seconds between two lines, on a terminal and in a pipe."""

SHARE = 0.05
"""Of the time that may be spent on looking."""


class Watch:
    """Counts records as they appear, whoever writes them."""

    def __init__(self, tally: Tally, agenda: Agenda) -> None:
        self.tally, self.store, self.agenda = tally, tally.store, agenda
        self.live = sys.stdout.isatty()
        self.last = time.monotonic()
        self.first: tuple[float, int] | None = None
        """When records began to appear, and how many there were: start-up is no measure."""
        self.before = tally.states(agenda.ended).total()
        self.width = 0

    def tick(self) -> None:
        """Say where the study stands, if it is time to."""
        now = time.monotonic()
        if now - self.last < EVERY_S[self.live]:
            return
        self.last = now
        self._write(self.line(now))
        # Many records, or a bucket that answers slowly: looking is to take a small share of time.
        self.last = max(now, now + (time.monotonic() - now) / SHARE - EVERY_S[self.live])

    def line(self, now: float) -> str:
        study, last_cell = self.agenda.study, self.agenda.last_cell
        self.tally.look()
        states = self.tally.states(self.agenda.ended)
        done, planned = states.total(), self.agenda.replicas
        parts = [f"{study.name}: {done}/{planned} replicas", counted(states)]
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
