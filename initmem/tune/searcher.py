"""Ray Tune's view of the agenda, and what it tells of the blocks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.search import Searcher

from initmem.search.agenda import Agenda
from initmem.study.plan import Block
from initmem.study.spec import cut, one_line
from initmem.tune.block import lost
from initmem.tune.room import Room, Share, fitting
from initmem.tune.trainable import REFUSED, UNFIT, config_of
from initmem.tune.watch import Watch


class Refusals(tune.Stopper):
    """Ends the run when a worker met what no worker can mend, or no node is left that is fit."""

    def __init__(self, each: Share, say: Callable[[str], None]) -> None:
        self.each, self.say = each, say
        self.first: str | None = None
        self.unfit: dict[str, str] = {}
        """Nodes that get no work, by id, and why."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        self.first = self.first or result.get(REFUSED)
        if UNFIT in result:
            self._leave_out(result["node_id"], result["node_ip"], result[UNFIT])
        return False

    def stop_all(self) -> bool:
        return self.first is not None

    def _leave_out(self, node: str, address: str, why: str) -> None:
        if node not in self.unfit:
            self.unfit[node] = f"node {address} gets no work: {why}"
            self.say(self.unfit[node])
        left = [n for n in ray.nodes() if n["Alive"] and n["NodeID"] not in self.unfit]
        if not any(fitting(self.each, n["Resources"]) for n in left):
            end = "no other node has room for a block; mend them, and the same command goes on"
            self.first = "\n".join([*self.unfit.values(), end])


class AgendaSearcher(Searcher):
    """Asks the agenda for blocks and tells it of trials that ended.

    It never says "not yet" while nothing is in training (Tune would wait for ever): the agenda
    has a block ready whenever no cell is open.
    """

    def __init__(
        self, agenda: Agenda, run: str, data: Path, room: Room, refusals: Refusals
    ) -> None:
        super().__init__()
        self.agenda, self.run, self.data = agenda, run, data
        self.room, self.refusals = room, refusals
        self.blocks: dict[str, Block] = {}

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        return True

    def suggest(self, trial_id: str) -> Any:
        if self.room.shared and len(self.blocks) == self.room.workers:
            return None  # Ray's room is others' as well
        block = self.agenda.next()
        if block is None:
            # Tune asks no more once it is told that this is all; a live block may come back.
            return Searcher.FINISHED if self.agenda.exhausted and not self.blocks else None
        self.blocks[trial_id] = block
        share = self.room.share(block)
        return config_of(block, self.run, self.data, share, self.refusals.unfit)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        if error:
            return  # the lookout gives the block to another worker
        block = self.blocks.pop(trial_id, None)
        if block is None:
            return
        if UNFIT in (result or {}):
            self.agenda.back(block)
        else:
            self.agenda.finished(block)

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the search is rebuilt from the records."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing, likewise."""


class Lookout(tune.Callback):
    """Lets the watch speak between two turns of Tune's loop, and counts lost workers."""

    def __init__(self, watch: Watch, searcher: AgendaSearcher, retries: int) -> None:
        self.watch, self.searcher, self.retries = watch, searcher, retries
        self.losses: dict[tuple[str, str | None], list[str]] = defaultdict(list)
        """By replica and the checkpoint that it had reached, the workers lost, see `_worker`."""

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A worker was lost and Tune gives its block to another. The replica that was in training
        when that happened once too often is failed, and the block goes on behind it."""
        store, block = self.watch.store, self.searcher.blocks[trial.trial_id]
        replica = next((r for r in block.replicas if store.done(r) is None), None)
        if replica is None:
            return
        why = _reason(Path(trial.error_file))
        lost_here = self.losses[replica.id, store.checkpoints_of(replica.id).newest()]
        worker = _worker(why) or f"unknown {len(lost_here)}"
        if worker in lost_here:
            return  # Tune says twice that it is gone
        lost_here.append(worker)
        times = f"worker lost {_times(len(lost_here))}"
        if len(lost_here) > self.retries:
            store.put(lost(self.searcher.agenda.study, replica, f"{times}: {why}"))
            self.watch.say(f"{replica.id}: {times} without another checkpoint: failed: {why}")
        else:
            self.watch.say(f"{replica.id}: {times}, given to another: {why}")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Tune gives up a block whose worker is lost before it began; we do not."""
        self.on_trial_recover(iteration, trials, trial)
        self.searcher.agenda.back(self.searcher.blocks.pop(trial.trial_id))

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self.watch.tick()


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _worker(why: str) -> str | None:
    """The worker that an error of Ray names."""
    found = re.search(r"[0-9a-f]{32}", why)
    return found[0] if found else None


def _reason(errors: Path) -> str:
    """The first line of the newest of the errors that Tune noted."""
    newest = errors.read_text(errors="replace").rpartition("Failure # ")[2].splitlines()
    return cut(one_line(newest[1]), 200) if len(newest) > 1 else "no reason given"
