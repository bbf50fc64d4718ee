"""Ray Tune's view of the agenda, and what it tells of the blocks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.search import Searcher

from initmem.search.agenda import Agenda
from initmem.study.plan import Block
from initmem.study.spec import cut, one_line
from initmem.tune.block import lost
from initmem.tune.trainable import REFUSED, config_of
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


class Refusals(tune.Stopper):
    """Ends the run when a worker met what no worker can mend."""

    def __init__(self) -> None:
        self.first: str | None = None

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        self.first = self.first or result.get(REFUSED)
        return False

    def stop_all(self) -> bool:
        return self.first is not None


class Lookout(tune.Callback):
    """Lets the watch speak between two turns of Tune's loop, and counts lost workers."""

    def __init__(self, watch: Watch, searcher: AgendaSearcher, retries: int) -> None:
        self.watch, self.searcher, self.retries = watch, searcher, retries
        self.losses: Counter[tuple[str, str | None]] = Counter()
        """By replica and the checkpoint that it had reached."""

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A worker was lost and Tune gives its block to another. The replica that was in training
        when that happened once too often is failed, and the block goes on behind it."""
        store, block = self.watch.store, self.searcher.blocks[trial.trial_id]
        replica = next((r for r in block.replicas if store.done(r) is None), None)
        if replica is None:
            return
        place = replica.id, store.checkpoints_of(replica.id).newest()
        self.losses[place] += 1
        times = f"worker lost {_times(self.losses[place])}"
        why = _reason(Path(trial.error_file))
        if self.losses[place] > self.retries:
            store.put(lost(self.searcher.agenda.study, replica, f"{times}: {why}"))
            self.watch.say(f"{replica.id}: {times} without another checkpoint: failed: {why}")
        else:
            self.watch.say(f"{replica.id}: {times}, given to another: {why}")

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self.watch.tick()


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _reason(errors: Path) -> str:
    """The first line of the newest of the errors that Tune noted."""
    newest = errors.read_text(errors="replace").rpartition("Failure # ")[2].splitlines()
    return cut(one_line(newest[1]), 200) if len(newest) > 1 else "no reason given"
