"""What an optimizer does at each step: the learning rate, and whether weights decay."""

from __future__ import annotations

import math

from initmem.study.optim_section import Exact, Optim


def learning_rate(optim: Optim, step: int, total: int) -> float:
    """Of the step-th update, counted from 0, of `total`."""
    rate = optim.lr
    if optim.schedule == "cosine":
        rate *= 0.5 * (1 + math.cos(math.pi * step / total))
    return rate * min(1.0, (step + 1) / (optim.warmup + 1))


def decays(optim: Optim | Exact, step: int) -> bool:
    """Whether l2 and weight_decay act at the step-th update, counted from 0."""
    return optim.decay_steps is None or optim.decay_steps[0] <= step < optim.decay_steps[1]
