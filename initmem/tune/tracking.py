"""MLflow and Weights & Biases, told of blocks by Ray's own callbacks.

What they keep is a view of a run. The records are the truth, so a tracker that does not answer
is said once and then left alone; it ends no training.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from typing import Any

from initmem.records.files import Files, LocalFiles, warn
from initmem.study.spec import Study, UserError, one_line

PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
"""The driver waits for MLflow's answers: 7 tries of 120 s, its own default, would stop the run."""
UPLOAD_S = 120
"""Seconds that the end of a run waits for uploads to Weights & Biases."""


def require(study: Study, local: bool) -> None:
    """Raise UserError if what the study is to be told to is not installed, or has no key."""
    if local:
        if study.tracking.packages:
            warn("tracking: is done by callbacks of Ray; --local tells nobody")
        return
    for name in study.tracking.packages:
        if importlib.util.find_spec(name) is None:
            text = f"tracking.{name}: {name} is not installed: pip install {name}"
            raise UserError(f"{study.name}: {text}")
    wandb = study.tracking.wandb
    if wandb is not None and wandb.mode == "online" and not _has_key():
        text = "no key: set WANDB_API_KEY, call `wandb login`, or write mode: offline"
        raise UserError(f"{study.name}: tracking.wandb: {text}")


def _has_key() -> bool:
    wandb: Any = importlib.import_module("wandb")
    return bool(os.environ.get("WANDB_API_KEY") or wandb.api.api_key)


def callbacks(study: Study, files: Files) -> list[Any]:
    """Ray's callbacks for what the study asks for. files: of the run."""
    mlflow, wandb = study.tracking.mlflow, study.tracking.wandb
    found: list[Any] = []
    if mlflow is not None:
        from ray.air.integrations.mlflow import MLflowLoggerCallback

        class ToMLflow(Quiet, MLflowLoggerCallback):
            """A run a block, with the point and the arm's axes as parameters."""

        for name, value in PATIENCE.items():
            os.environ.setdefault(name, value)
        experiment = mlflow.experiment or study.name
        tags = {"study": study.name, "run": files.address}
        found.append(ToMLflow(mlflow.uri, experiment_name=experiment, tags=tags))
    if wandb is not None:
        import ray
        from ray.air.integrations.wandb import WandbLoggerCallback

        class ToWandb(Quiet, WandbLoggerCallback):
            """Likewise. Ray writes them in actors, and drops what an actor raised."""

            def _cleanup_logging_actors(
                self, timeout: int = 0, kill_on_timeout: bool = False
            ) -> None:
                futures = list(self._trial_logging_futures.values())
                for done in ray.wait(futures, num_returns=len(futures), timeout=timeout)[0]:
                    self.tell(ray.get, done)
                super()._cleanup_logging_actors(0, kill_on_timeout)

        if wandb.mode == "offline":
            os.environ["WANDB_MODE"] = "offline"  # Ray looks for a key without it
        found.append(
            ToWandb(
                wandb.project,
                entity=wandb.entity,
                mode=wandb.mode,
                group=study.name,
                dir=str(files.folder) if isinstance(files, LocalFiles) else os.getcwd(),
                upload_timeout=UPLOAD_S,
            )
        )
    return found


class Quiet:
    """Before a callback of Ray's: it is told the points of curves alone, and lets no fault out."""

    off = False

    def setup(self, *args: Any, **spec: Any) -> None:
        self.tell(super().setup, *args, **spec)  # type: ignore[misc]  # the callback's

    def log_trial_start(self, trial: Any) -> None:
        self.tell(super().log_trial_start, trial)  # type: ignore[misc]  # the callback's

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        curves = {k: v for k, v in result.items() if isinstance(v, dict) and k != "config"}
        told = {**curves, "training_iteration": result["training_iteration"]}
        self.tell(super().log_trial_result, iteration, trial, told)  # type: ignore[misc]  # the callback's

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        self.tell(super().log_trial_end, trial, failed)  # type: ignore[misc]  # the callback's

    def tell(self, say: Callable[..., Any], *words: Any, **more: Any) -> None:
        if self.off:
            return
        try:
            say(*words, **more)
        except Exception as error:
            self.off = True
            first = (str(getattr(error, "cause", error)).splitlines() or [""])[0]
            why = f"{type(error).__name__}: {one_line(first)}"
            warn(f"{type(self).__name__}: told no more, the run goes on: {why}")
