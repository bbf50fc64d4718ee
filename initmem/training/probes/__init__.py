"""What a recipe's probes say of a network in training.

A probe is a function of a training: it reads and leaves everything as it was, so that rows with
and without it are the same but for its readings. To add one: its switch in
`study/objective_section.py`, its function in this room, its name below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from initmem.training.replica import Training

Reading = dict[str, Any]
"""step, probe, quantity, where (the layer, tensor or batch) and value."""
Values = dict[tuple[str, str], float]
"""(quantity, where) -> value."""

PROBES: dict[str, Callable[[Training], Values]] = {}


def read(training: Training) -> list[Reading]:
    """The readings of the recipe's probes at this step."""
    return [
        {"step": training.step, "probe": name, "quantity": what, "where": where, "value": value}
        for name, probe in PROBES.items()
        if getattr(training.recipe.probes, name)
        for (what, where), value in probe(training).items()
    ]
