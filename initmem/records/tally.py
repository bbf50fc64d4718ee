"""What a driver counts of the rows of its run, as records appear."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from initmem.records.rows import Row
from initmem.records.store import Store
from initmem.study.plan import NONE_ENDED, Cell, asked_by
from initmem.study.spec import Study

Counted = tuple[str, int, str]
"""Arm, draw and state."""


class Tally:
    """Counts each record once, whoever wrote it, and keeps no row: a driver's memory is to hold
    what it counts, not what was trained."""

    def __init__(self, store: Store, study: Study) -> None:
        self.store, self.asked = store, asked_by(study)
        self.known: dict[str, bool | None] = {}
        """By replica, whether its row came after the first look; None where it does not count."""
        self.counts: Counter[Counted] = Counter()
        self.repeated: Counter[Counted] = Counter()
        """Steps that rows were trained twice."""
        self.fresh: Counter[Counted] = Counter()
        """Rows that came after the first look."""
        self._looked = False

    def news(self) -> Iterator[Row]:
        """The rows that no look before has read; they are counted."""
        for name in sorted(self.store.names() - self.known.keys()):
            row = self.store.get(name)
            if row is not None:
                self._note(row)
                yield row
        self._looked = True

    def look(self) -> None:
        """Count what is new."""
        for _ in self.news():
            pass

    def cell(self, cell: Cell) -> list[Row] | None:
        """The rows of a cell, in its order, or None unless all are done; they are counted."""
        rows = self.store.cell(cell)
        for row in rows or ():
            self._note(row)
        return rows

    def states(self, ended: Mapping[str, int] = NONE_ENDED) -> Counter[str]:
        """Rows that the study asks for, by state. ended: see `plan.count`."""
        found: Counter[str] = Counter()
        for key, number in self.counts.items():
            if _within(key, ended):
                found[key[2]] += number
        return +found

    def total(self, of: Counter[Counted], ended: Mapping[str, int] = NONE_ENDED) -> int:
        """Of `counts`, `fresh` or `repeated`, over the same rows."""
        return sum(number for key, number in of.items() if _within(key, ended))

    def forget(self, replica: str) -> None:
        """Set a row aside, so that the replica is trained again."""
        row = self.store.get(replica)
        fresh = self.known.pop(replica, None)
        if row is not None and fresh is not None:
            self._add(row, -1, fresh)
        self.store.forget(replica)

    def _note(self, row: Row) -> None:
        if row["replica"] not in self.known:
            asked = self.asked(row)
            self.known[row["replica"]] = self._looked if asked else None
            if asked:
                self._add(row, 1, self._looked)

    def _add(self, row: Row, times: int, fresh: bool) -> None:
        key = row["arm"], row["draw"], row["state"]
        self.counts[key] += times
        self.repeated[key] += times * (row["run.repeated_steps"] or 0)
        if fresh:
            self.fresh[key] += times


def _within(key: Counted, ended: Mapping[str, int]) -> bool:
    return key[0] not in ended or key[1] < ended[key[0]]
