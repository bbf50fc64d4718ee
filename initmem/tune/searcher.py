"""Ray Tune's view of the agenda."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.search import Searcher

from initmem.search.agenda import Agenda
from initmem.study.plan import Block
from initmem.tune.trainable import config_of
from initmem.tune.watch import Watch


class AgendaSearcher(Searcher):
    """Asks the agenda for blocks and tells it of trials that ended.

    It never says "not yet" while nothing is in training (Tune would wait for ever): the agenda
    has a block ready whenever no cell is open.
    """

    def __init__(self, agenda: Agenda, run: str, data: Path) -> None:
        super().__init__()
        self.agenda, self.run, self.data = agenda, run, data
        self.blocks: dict[str, Block] = {}

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        return True

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        return True

    def suggest(self, trial_id: str) -> Any:
        block = self.agenda.next()
        if block is None:
            return Searcher.FINISHED if self.agenda.exhausted else None
        self.blocks[trial_id] = block
        return config_of(block, self.run, self.data)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        block = self.blocks.pop(trial_id, None)
        if block is not None:
            self.agenda.finished(block)

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the search is rebuilt from the records."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing, likewise."""


class WatchCallback(tune.Callback):
    """Lets the watch speak between two turns of Tune's loop."""

    def __init__(self, watch: Watch, agenda: Agenda) -> None:
        self.watch, self.agenda = watch, agenda

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A block is lost: its worker died more often than it is retried, or data went away."""
        lines = str(trial.get_error() or "its worker died").strip().splitlines()
        self.watch.say(f"{trial}: lost: {lines[-1]}")

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self.watch.tick(self.agenda.last_cell)
