"""What a study takes on GPUs, from rates that were measured: here, or by a pilot run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from initmem.forecast import at_most, many, sample
from initmem.study.plan import arms, draws
from initmem.study.recipe import Recipe, field_types, flatten
from initmem.study.spec import Study, UserError

Row = dict[str, Any]
Band = tuple[float, float, float]
"""A median, and the 5th and 95th percentile."""

SAME = [
    field
    for field in field_types()
    if field.partition(".")[0] in ("data", "model", "penalty", "probes", "precision")
    or field in ("optim.name", "optim.batch", "eval_every")
]
"""Fields that a step costs by: neither init, learning rate and decay, nor the budget."""
MODEL = [field for field in SAME if field.startswith("model.")]


def lines(study: Study, price: float | None, like: str | None, data: Path) -> Iterator[str]:
    """What `initmem plan` says of GPUs: the fit of a block where there is one that the study asks
    for; hours and, at a price an hour, the cost.

    like: address of a pilot run. Raises UserError where a price is asked for and nothing was
    measured.
    """
    fit = None
    if _has_gpu() and (study.resources.gpus or study.resources.device in ("cuda", "auto")):
        from initmem.tune.fit import measure

        try:
            fit = measure(study, data)
            yield fit.told
        except UserError as error:
            yield f"GPU: not measured: {error}"
    if like is not None:
        pilot = Pilot(like, study.resources.engine)
        found = hours(study, pilot.seconds)
        yield f"{_total(study, found, price)}; as in {pilot.told}; start-up not counted"
    elif fit is not None and fit.total:
        seconds = fit.seconds
        found = hours(study, lambda recipe: (seconds, seconds, seconds))
        how = "as the first block, measured here, one block at a time; several at once take less"
        yield f"{_total(study, found, price)}; {how}"
    elif price is not None:
        raise UserError(
            "--price: needs a measured rate: name a pilot run of the same networks on a GPU with "
            "--like RUN, or plan on a machine with one and --set resources.gpus=1"
        )


def _has_gpu() -> bool:
    """Whether it is worth to load torch and ask."""
    return Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi") is not None


def hours(study: Study, seconds_of: Callable[[Recipe], Band]) -> Band:
    """GPU hours of a whole study. seconds_of: GPU seconds of a step of one network."""
    total = [0.0, 0.0, 0.0]
    for arm in arms(study):
        for replica in sample(study, arm).replicas:
            stages = replica.recipe.stages
            steps = sum(stage.total_steps for stage in stages) * draws(study)
            for i, seconds in enumerate(seconds_of(replica.recipe)):
                total[i] += steps * seconds / 3600
    return total[0], total[1], total[2]


def _total(study: Study, found: Band, price: float | None) -> str:
    text = f"GPU: {at_most(study)}{_number(found)} hours"
    if price is None:
        return text
    cost = found[0] * price, found[1] * price, found[2] * price
    return f"{text}, at {price:g} each {_number(cost)}"


def _number(band: Band) -> str:
    """With the range, where there is one."""
    shown = [f"{value:,.1f}" if value >= 10 else f"{value:.2g}" for value in band]
    return shown[0] if shown[1] == shown[2] else f"{shown[0]} ({shown[1]} to {shown[2]})"


class Pilot:
    """Rates of a run on GPUs.

    A row took `run.seconds`, its share of its block's, times the share of a GPU that its block
    had (a whole one where the row does not say). A network takes what the rows with the same data,
    model, optimizer and batch took a step, by the engine of the study; where there are none, what
    those with the same model took. Failed rows are left out.
    """

    def __init__(self, address: str, engine: str) -> None:
        from initmem.records.store import Store

        store = Store(address)
        store.open()
        self.address, self.engine = store.address, engine
        rows = [row for row in store.rows() if _on_a_gpu(row)]
        if not rows:
            raise UserError(f"{self.address}: run: --like: no network of it was trained on a GPU")
        self.rates: dict[tuple[Any, ...], list[float]] = {}
        """Of all rows, by what they are like."""
        for row in rows:
            steps = row["steps"] + (row["first.steps"] or 0)
            rate = row["run.seconds"] * (row["run.gpus"] or 1.0) / steps
            same, model = _keys(row, row["engine"])
            for key in {same, (*same[:-1], "auto"), model}:
                self.rates.setdefault(key, []).append(rate)
        self.devices = sorted({row["device"] for row in rows})
        self.used: dict[tuple[Any, ...], Band] = {}

    def seconds(self, recipe: Recipe) -> Band:
        """GPU seconds of a step. Raises UserError where the run has no such model."""
        keys = _keys(flatten(recipe), self.engine)
        key = next((key for key in keys if key in self.rates), None)
        if key is None:
            text = (
                f"no network with model {recipe.model.name} of these fields was trained on a GPU"
            )
            raise UserError(f"{self.address}: run: --like: {text}")
        if key not in self.used:
            rates = self.rates[key]
            middle, low, high = np.percentile(rates, (50, 5, 95)).tolist()
            self.used[key] = middle, low, high
        return self.used[key]

    @property
    def told(self) -> str:
        """What the rates that were used are of, in words."""
        n = sum(len(self.rates[key]) for key in self.used)
        only = " with the same model alone" if any(len(k) == len(MODEL) for k in self.used) else ""
        devices = " and ".join(self.devices)
        return f"{many(n, 'network')}{only} of {self.address} on {devices}, 5th to 95th percentile"


def _on_a_gpu(row: Row) -> bool:
    trained = row["state"] != "failed" and row["steps"] and row["run.seconds"]
    return bool(trained) and row["device"] != "cpu"


def _keys(fields: dict[str, Any], engine: str) -> list[tuple[Any, ...]]:
    """What a network is like, the closest first."""
    same = (*(fields.get(field) for field in SAME), engine)
    return [same, tuple(fields.get(field) for field in MODEL)]
