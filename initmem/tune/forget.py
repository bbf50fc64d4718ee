"""Tune keeps every trial for a summary that nobody reads, and turns over all of them in each turn
of its loop: a driver of 10,000 blocks would spend its time and memory on those that ended."""

from __future__ import annotations

from typing import Any

from ray import tune


class Forget(tune.Callback):
    """Takes trials that ended from Tune's list, and of what Tune has noted all but their names.

    It must be the last callback: others may read the trial's last result.
    """

    def on_trial_complete(
        self, iteration: int, trials: list[Any], trial: Any, **info: Any
    ) -> None:
        trials.remove(trial)
        noted = trial.run_metadata
        noted.metric_analysis, noted.metric_n_steps, noted.last_result = {}, {}, {}
