"""What training a replica leaves: its two predictors, curve, norms and state."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from initmem.study.objective_section import StepsTo
from initmem.training.initialize import GROUPS, Audit, group_of

INTERPOLATED = 99.5
"""Train accuracy in percent from which a network counts as interpolating (arXiv 2605.29152)."""
PLATEAU = 0.02
"""Largest relative change of the train loss between the last two tenths of the budget, and how
far, relatively, the last must be below the loss of a constant prediction."""


@dataclass
class Predictor:
    """One network's accuracies and losses after `step` updates, in percent and nats; of numbers,
    in percent of their mean square that is explained, and mean squared errors."""

    step: int
    train_accuracy: float
    train_loss: float
    validation_accuracy: float
    validation_loss: float
    test_accuracy: float | None = None
    test_loss: float | None = None
    test_predictions: bytes | None = None
    ood_accuracy: float | None = None
    """On examples out of distribution, by the answers of one who has understood."""
    symmetric_accuracy: float | None = None
    """On the same, by the answers of one who knows pairs by heart."""
    alignment: float | None = None
    """Of planted features: mean cosine of on-target neurons to the limit of their arm."""

    def curve_point(self) -> dict[str, float]:
        """All but what the test set says, as far as it is known."""
        return {
            name: value
            for name, value in asdict(self).items()
            if not name.startswith("test_") and value is not None
        }


@dataclass
class Outcome:
    steps: int
    total_steps: int
    steps_per_epoch: int
    losses_T: Tensor
    """Mean batch loss of each step trained."""
    constant_loss: float
    """Train loss of the best constant prediction: the entropy of the training labels in nats, or
    the variance of the training targets."""
    steady: bool
    """Whether the learning rate was constant: where it falls to 0, every loss ends flat."""
    curve: list[dict[str, float]]
    audit: Audit
    selected: Predictor | None = None
    final: Predictor | None = None
    norms: list[dict[str, Any]] = field(default_factory=list)
    readings: list[dict[str, Any]] = field(default_factory=list)
    cosines: bytes | None = None
    """Of rows of the final network, see `probes/weights.py`."""
    confidences: bytes | None = None
    """Of the final random-label heads, see `probes/random_labels.py`."""
    steps_to: StepsTo = field(default_factory=StepsTo)
    diverged_step: int | None = None
    aligned_step: int | None = None
    """Of planted features: the first evaluation at which the stop rule was met."""
    before: dict[str, Any] = field(default_factory=dict)
    """Columns that tell of the first of two trainings."""

    def tenths(self) -> tuple[float | None, float | None]:
        """Mean batch loss of the last tenth of the budget but one, and of the last."""
        total = self.total_steps
        a, b = int(0.8 * total), int(0.9 * total)
        if self.steps < total or not 0 < a < b < total:
            return None, None
        losses = self.losses_T.double()
        return _finite(losses[a:b].mean().item()), _finite(losses[b:total].mean().item())

    def interpolated_step(self) -> int | None:
        return self.first_step("train_accuracy", INTERPOLATED / 100)

    def first_step(self, accuracy: str, share: float) -> int | None:
        """The first evaluation with this share right, or None."""
        reached = (p["step"] for p in self.curve if p[accuracy] >= 100 * share)
        return next((int(step) for step in reached), None)

    def state(self) -> str:
        """interpolated (of planted features: the stop rule was met), plateaued (the train loss is
        flat at a constant learning rate, and below that of a constant prediction), undertrained or
        diverged."""
        if self.diverged_step is not None:
            return "diverged"
        if self.aligned_step is not None or self.interpolated_step() is not None:
            return "interpolated"
        before, last = self.tenths()
        if before is None or last is None:
            return "undertrained"
        flat = abs(last - before) <= PLATEAU * before
        # A dead network's loss is flat too, but nothing holds it there: it has learned nothing.
        learned = last < (1 - PLATEAU) * self.constant_loss
        return "plateaued" if flat and learned and self.steady else "undertrained"

    def columns_before(self) -> dict[str, Any]:
        """What the row of a network that is trained on keeps of this training."""
        last = self.curve[-1] if self.curve else {}
        ends = {name: value for name, value in last.items() if name.endswith(("acy", "loss"))}
        kept = {"state": self.state(), "steps": self.steps, **ends}
        kept = {f"first.{name}": value for name, value in kept.items()}
        if self.diverged_step is None:
            return kept
        return {**kept, "diverged_step": self.diverged_step}

    def row(self) -> dict[str, Any]:
        """The columns of a row that training fills."""
        before, last = self.tenths()
        step = self.interpolated_step()
        finite = self.losses_T[self.losses_T.isfinite()]
        row = {
            "state": self.state(),
            "steps": self.steps,
            "total_steps": self.total_steps,
            "interpolated_step": step,
            "interpolated_epoch": step / self.steps_per_epoch if step else None,
            "steps_to_train": self.first_step("train_accuracy", self.steps_to.train),
            "steps_to_validation": self.first_step(
                "validation_accuracy", self.steps_to.validation
            ),
            "aligned_step": self.aligned_step,
            "loss_tenth_before": before,
            "loss_last_tenth": last,
            "diverged_step": self.diverged_step,
            "last_finite_loss": finite[-1].item() if len(finite) else None,
            "curve": [{k: _finite(v) for k, v in p.items()} for p in self.curve],
            "norms": [{k: _finite(v) for k, v in norm.items()} for norm in self.norms],
            "readings": [{k: _finite(v) for k, v in one.items()} for one in self.readings],
            "cosines": self.cosines,
            "confidences": self.confidences,
            "audit": [asdict(drawn) for drawn in self.audit.drawn],
            "untouched": self.audit.untouched,
            "assigned": self.audit.assigned,
        }
        for name, predictor in (("selected", self.selected), ("final", self.final)):
            values = asdict(predictor) if predictor else {}
            row |= {f"{name}.{key}": _finite(value) for key, value in values.items()}
        return row | {name: _finite(value) for name, value in self.before.items()}


def weight_norms(start: dict[str, Tensor], end: dict[str, Tensor]) -> list[dict[str, Any]]:
    """Of the drawn weights, by group and for all: norms before and after training, distance
    |end - start| / |start|, cosine of the angle between them."""
    norms = []
    for group in (*GROUPS, "all"):
        names = [name for name in start if group in ("all", group_of(name))]
        if not names:
            continue
        a = torch.cat([start[name].flatten() for name in names]).double()
        b = torch.cat([end[name].flatten() for name in names]).double()
        norms.append(
            {
                "group": group,
                "initial": a.norm().item(),
                "final": b.norm().item(),
                "distance": ((b - a).norm() / a.norm()).item(),
                "cosine": (a @ b / (a.norm() * b.norm())).item(),
            }
        )
    return norms


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
