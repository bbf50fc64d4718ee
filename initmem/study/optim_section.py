"""The optimizers a recipe can name, with their budgets and schedules."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from initmem.study.section import Count, Fraction, NonNegative, Positive, Section, Share, invalid


def _window(text: str) -> str:
    ends = re.fullmatch(r"(\d{1,12})-(\d{1,12})", text)
    if not ends or not int(ends[1]) < int(ends[2]):
        rule = "must be FROM-TO, two steps with FROM < TO, such as 0-600"
        raise invalid("optim.decay_window", f"{rule}, got {text[:40]!r}")
    return text


Window = Annotated[str, AfterValidator(_window)]


class Optim(Section):
    lr: Positive
    """Peak learning rate."""
    l2: NonNegative = 0.0
    """Added to the gradient as l2 x weight, for every parameter."""
    weight_decay: NonNegative = 0.0
    """Decoupled: each step multiplies every parameter by 1 - lr x weight_decay."""
    decay_window: Window | None = None
    """FROM-TO: the updates, counted from 0, at which l2 and weight_decay act; TO is the first
    without them. Default: all."""
    batch: Count | None = 128
    """Examples a step; null is the whole training set. The incomplete batch that ends an epoch
    is dropped, another one each epoch."""
    epochs: Count | None = None
    """Budget in passes over the training set. Give either epochs or steps."""
    steps: Count | None = None
    """Budget in optimizer steps."""
    stop_loss: Positive | None = None
    """End training at the first evaluation with a train loss at or below this."""
    stop_validation: Share | None = None
    """End training at the first evaluation with this share of the validation set right."""
    schedule: Literal["constant", "cosine"] = "constant"
    """cosine: from lr to 0 over the budget."""
    warmup: Annotated[int, Field(ge=0)] = 0
    """Steps of linear warm-up, multiplied onto the schedule."""
    clip: Positive | None = None
    """Largest global norm of the loss gradient, before L2 is added."""

    @property
    def decay_steps(self) -> tuple[int, int] | None:
        """The ends of `decay_window`."""
        if self.decay_window is None:
            return None
        first, _, end = self.decay_window.partition("-")
        return int(first), int(end)


class SGD(Optim):
    name: Literal["sgd"]


class Momentum(Optim):
    name: Literal["momentum"]
    momentum: Fraction = 0.9
    nesterov: bool = False


class Adam(Optim):
    """adam and adamw differ in nothing but the field they are used with: l2 or weight_decay."""

    name: Literal["adam", "adamw"]
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    eps: Positive = 1e-8


class RMSprop(Optim):
    name: Literal["rmsprop"]
    alpha: Fraction = 0.99
    eps: Positive = 1e-8


class Muon(Optim):
    """Muon for the matrices and flattened kernels of the body, AdamW (beta 0.9 and 0.95) for
    stem, head, biases and norms; the update is scaled to AdamW's size, so one lr serves both."""

    name: Literal["muon"]
    momentum: Fraction = 0.95


class OnlineSGD(Optim):
    """SGD of a network with planted features on a stream: each step has pairs of its own."""

    name: Literal["online_sgd"]
    update: Literal["tangential", "free"] = "tangential"
    """tangential: the gradient of a neuron without its component along the neuron's weights,
    which have after each step the norm that they began with."""
    stop_alignment: Share = 0.95
    """The stop rule: the first evaluation at which the mean cosine of on-target neurons to the
    limit of their arm (theta_1, the weak teacher, or what V_1 leaves of it) is at or above
    this."""
    beyond: Annotated[float, Field(ge=1)] = 1.5
    """Training goes on to the first evaluation at or after this many times the step at which the
    stop rule was met."""


class Exact(Section):
    """Of a diagonal network: one step to where gradient flow on the whole training set ends, the
    minimizer of the penalty that its start implies (arXiv 2602.20062, Theorem 4.1)."""

    name: Literal["exact"]
    lr: ClassVar[float] = 0.0
    l2: ClassVar[float] = 0.0
    weight_decay: ClassVar[float] = 0.0
    decay_steps: ClassVar[None] = None
    decay_window: ClassVar[None] = None
    batch: ClassVar[None] = None
    epochs: ClassVar[None] = None
    steps: ClassVar[int] = 1
    stop_loss: ClassVar[None] = None
    stop_validation: ClassVar[None] = None
    schedule: ClassVar[Literal["constant"]] = "constant"
    warmup: ClassVar[int] = 0
    clip: ClassVar[None] = None


Optimizer = Annotated[
    SGD | Momentum | Adam | RMSprop | Muon | OnlineSGD | Exact, Field(discriminator="name")
]
