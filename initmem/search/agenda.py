"""What is to be trained next: hands out blocks, and learns what came of them.

Draw k of an arm is issued when the draws 0 .. k-lag-1 are complete, and knows exactly those. They
alone decide, too, whether the arm's search ends before draw k: so where it ends does not depend on
who finished first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from initmem.search.frontier import narrow
from initmem.search.suggest import Values, objectives, suggest
from initmem.study.plan import Arm, Block, Cell, Point, Replica, arms, blocks, cell, draws
from initmem.study.spec import Study

Rows = list[dict[str, Any]]


@dataclass
class _Progress:
    """One arm's draws so far; `told` has an entry for each complete draw."""

    arm: Arm
    points: list[Point] = field(default_factory=list)
    told: dict[int, Values | None] = field(default_factory=dict)

    def complete(self) -> int:
        """How many draws from the first on are complete."""
        return next(k for k in range(len(self.told) + 1) if k not in self.told)

    def known(self, count: int) -> list[tuple[Point, Values | None]]:
        """What is told of the first draws."""
        return [(self.points[k], self.told[k]) for k in range(count)]


class Agenda:
    """The blocks of a study in order. Not thread-safe.

    rows_of: the rows of a cell, or None unless all its replicas are done; drawn: the points of
    draws that left rows in an earlier run, by arm id and draw, so that they are never drawn anew;
    outgrew: whether a replica that ended is to be trained once more, with a whole GPU.
    """

    def __init__(
        self,
        study: Study,
        rows_of: Callable[[Cell], Rows | None],
        drawn: dict[tuple[str, int], Point],
        outgrew: Callable[[Replica], bool] = lambda replica: False,
    ) -> None:
        self.study, self.rows_of, self.drawn = study, rows_of, drawn
        self.outgrew = outgrew
        self.arms = [_Progress(arm) for arm in arms(study)]
        self.total = draws(study)
        self.waiting: deque[Block] = deque()
        self.ended: dict[str, int] = {}
        """Draws of the arms whose search ended early, by id."""
        self.on_end: Callable[[dict[str, int]], None] = lambda ended: None
        """Called with `ended` when it grows."""
        self.live: dict[str, set[int]] = {}
        self.incomplete: list[Cell] = []
        self.last_cell: Rows = []

    def next(self) -> Block | None:
        """A block to train, or None where nothing can be issued (yet, or any more)."""
        while not self.waiting and self._issue():
            pass
        return self.waiting.popleft() if self.waiting else None

    @property
    def exhausted(self) -> bool:
        """Whether every block was handed out."""
        return not self.waiting and all(len(p.points) == self._last(p) for p in self.arms)

    def back(self, block: Block) -> None:
        """A block was not taken up; it is the next."""
        self.waiting.appendleft(block)

    def finished(self, block: Block) -> None:
        """A block ended, with or without its rows."""
        grown = tuple(replica for replica in block.replicas if self.outgrew(replica))
        if grown and not block.whole_gpu:
            self.waiting.append(replace(block, replicas=grown, whole_gpu=True))
            return
        left = self.live[block.cell.id]
        left.discard(block.index)
        if not left:
            del self.live[block.cell.id]
            self._close(block.cell)

    def _last(self, progress: _Progress) -> int:
        """How many draws an arm gets."""
        return self.ended.get(progress.arm.id, self.total)

    def _issue(self) -> bool:
        """Draw the next point that may be drawn, of the arm with the fewest draws, or end its
        search. Says whether there was one."""
        lag = self.study.search.lag
        ready = [
            p for p in self.arms
            if len(p.points) < self._last(p) and len(p.points) <= p.complete() + lag
        ]  # fmt: skip
        if not ready:
            return False
        progress = min(ready, key=lambda p: len(p.points))
        draw = len(progress.points)
        known = max(0, draw - lag)
        if self.study.search.band is not None and narrow(self.study, progress.known(known)):
            self.ended[progress.arm.id] = draw
            self.on_end(self.ended)
            return True
        point = self.drawn.get((progress.arm.id, draw))
        if point is None:
            told, open_points = progress.known(known), progress.points[known:]
            point = suggest(self.study, progress.arm, told, open_points)
        progress.points.append(point)
        issued = cell(self.study, progress.arm, draw, point)
        if self.rows_of(issued) is not None:
            self._close(issued)
        else:
            parts = blocks(self.study, issued)
            self.live[issued.id] = {block.index for block in parts}
            self.waiting.extend(parts)
        return True

    def _close(self, closed: Cell) -> None:
        rows = self.rows_of(closed)
        if rows is None:
            self.incomplete.append(closed)
        else:
            self.last_cell = rows
        values = None if rows is None else objectives(self.study, rows)
        self.arms[closed.arm.index].told[closed.draw] = values
