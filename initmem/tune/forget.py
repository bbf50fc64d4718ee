"""Tune keeps every trial for a summary that nobody reads, and goes through all of them in each
turn of its loop: a driver of 10,000 blocks would spend its time and memory on those that ended."""

from __future__ import annotations

from typing import Any

from ray.tune.progress_reporter import TrialProgressCallback
from ray.tune.schedulers import FIFOScheduler

KEPT = ("_stopped_trials", "_trials_to_cache")
"""Where Tune's controller keeps trials that ended, beside its list. They are no public names: in a
Ray that has others, the driver's memory grows and nothing else changes."""


class Forgetful(FIFOScheduler):
    """Blocks in the order in which they were asked for; those that ended are forgotten."""

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        tune_controller.get_trials().remove(trial)
        for name in KEPT:
            getattr(tune_controller, name, set()).clear()


class NoProgress(TrialProgressCallback):
    """In the place of Ray's own, which prints nothing here and keeps every trial's result."""

    def log_result(self, trial: Any, result: dict[str, Any], error: bool = False) -> None:
        pass

    def on_trial_complete(
        self, iteration: int, trials: list[Any], trial: Any, **info: Any
    ) -> None:
        pass
