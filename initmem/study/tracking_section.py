"""Who else is told how training goes. Off by default; no bit of a row depends on it.

No field takes a secret: keys come from the environment (MLFLOW_TRACKING_TOKEN or
MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, WANDB_API_KEY).
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from initmem.study.section import Section, invalid

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_. -]{0,127}$")]

_URI = re.compile(r"https?://[\w.-]+(:\d+)?(/[\w./-]*)?|sqlite:///[^?#@:]+")


class MLflow(Section):
    """One MLflow run a block."""

    uri: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """https://host/path of a server, or sqlite:///FILE. Default: MLFLOW_TRACKING_URI, or what
    MLflow itself takes."""
    experiment: Name | None = None
    """Default: the study's name."""

    @model_validator(mode="after")
    def _without_secrets(self) -> MLflow:
        if self.uri is not None and not _URI.fullmatch(self.uri):
            text = "write https://host/path or sqlite:///FILE; credentials and other stores come "
            raise invalid("uri", text + "from the environment, as MLFLOW_TRACKING_URI")
        return self


class Wandb(Section):
    """One run of Weights & Biases a block."""

    project: Name
    entity: Name | None = None
    """The user or team that the project is of. Default: that of the key."""
    mode: Literal["online", "offline"] = "online"
    """offline keeps it in a folder for `wandb sync`, and needs no key."""


class Tracking(Section):
    """Trials are told through Ray's own integrations: a block is a run there, with the points of
    its replicas' curves."""

    mlflow: MLflow | None = None
    wandb: Wandb | None = None

    @property
    def packages(self) -> list[str]:
        """That must be installed, beside Ray, for what is on."""
        return [name for name in ("mlflow", "wandb") if getattr(self, name) is not None]
