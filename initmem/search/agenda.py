"""What is to be trained next: hands out blocks, and learns what came of them.

Draw k of an arm is issued when the draws 0 .. k-lag-1 are complete, and knows exactly those. They
alone decide, too, whether the arm's search ends before draw k: so where it ends does not depend on
who finished first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Any

from initmem.search.frontier import narrow
from initmem.search.suggest import Values, fixed, objectives, suggest
from initmem.study.plan import Arm, Block, Cell, Point, Replica, arms, blocks, cell, draws
from initmem.study.spec import Study

Rows = list[dict[str, Any]]


@dataclass
class _Progress:
    """One arm's draws so far; `told` has an entry for each complete draw."""

    arm: Arm
    points: list[Point] = field(default_factory=list)
    told: dict[int, Values | None] = field(default_factory=dict)
    complete: int = 0
    """How many draws from the first on are complete."""
    fixed: list[Point] | None = None
    """All its points, where they do not depend on what came of others; once it has drawn."""
    ready: bool = True
    """Whether it waits for its turn to draw."""

    def tell(self, draw: int, values: Values | None) -> None:
        self.told[draw] = values
        while self.complete in self.told:
            self.complete += 1

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
        self.turns = [(0, index) for index in range(len(self.arms))]
        """Of the arms that may draw, a heap: draws so far, and the arm's place in the study."""
        self.waiting: deque[Block] = deque()
        self.ended: dict[str, int] = {}
        """Draws of the arms whose search ended early, by id."""
        self.on_end: Callable[[dict[str, int]], None] = lambda ended: None
        """Called with `ended` when it grows."""
        self.drawn_out = 0
        """Arms without a draw left."""
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
        return not self.waiting and self.drawn_out == len(self.arms)

    @property
    def replicas(self) -> int:
        """How many the study asks for; see `plan.count`."""
        spared = sum(self.total - draws for draws in self.ended.values())
        cells = len(self.arms) * self.total - spared
        return cells * len(self.study.axes[self.study.memory_axis]) * self.study.seeds

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

    def _issue(self) -> bool:
        """Draw the next point that may be drawn, of the arm with the fewest draws, or end its
        search. Says whether there was one."""
        if not self.turns:
            return False
        progress = self.arms[heappop(self.turns)[1]]
        progress.ready = False
        self._draw(progress)
        self._wait(progress)
        return True

    def _wait(self, progress: _Progress) -> None:
        """Let an arm wait for its turn, if it may draw."""
        count = len(progress.points)
        last = self.ended.get(progress.arm.id, self.total)
        may = count < last and count <= progress.complete + self.study.search.lag
        if may and not progress.ready:
            progress.ready = True
            heappush(self.turns, (count, progress.arm.index))

    def _draw(self, progress: _Progress) -> None:
        draw = len(progress.points)
        known = max(0, draw - self.study.search.lag)
        if self.study.search.band is not None and narrow(self.study, progress.known(known)):
            self.ended[progress.arm.id] = draw
            self.drawn_out += 1
            self.on_end(self.ended)
            return
        progress.points.append(self._point(progress, draw, known))
        self.drawn_out += draw + 1 == self.total
        issued = cell(self.study, progress.arm, draw, progress.points[draw])
        if self.rows_of(issued) is not None:
            self._close(issued)
        else:
            parts = blocks(self.study, issued)
            self.live[issued.id] = {block.index for block in parts}
            self.waiting.extend(parts)

    def _point(self, progress: _Progress, draw: int, known: int) -> Point:
        point = self.drawn.get((progress.arm.id, draw))
        if point is not None:
            return point
        if progress.fixed is None:
            progress.fixed = fixed(self.study, progress.arm)
        if progress.fixed is not None:
            return progress.fixed[draw]
        told, open_points = progress.known(known), progress.points[known:]
        return suggest(self.study, progress.arm, told, open_points)

    def _close(self, closed: Cell) -> None:
        rows = self.rows_of(closed)
        if rows is None:
            self.incomplete.append(closed)
        else:
            self.last_cell = rows
        values = None if rows is None else objectives(self.study, rows)
        progress = self.arms[closed.arm.index]
        progress.tell(closed.draw, values)
        self._wait(progress)
