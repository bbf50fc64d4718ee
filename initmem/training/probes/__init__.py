"""What a recipe's probes say of a network in training.

A probe is a function of a training, called with the network in eval mode. It reads and leaves
everything as it was, so that rows with and without it are the same but for its readings; what it
draws at random depends on the seed alone. A value that does not exist is nan, and null in the row.
To add one: its switch in `study/objective_section.py`, its function in this room, its name below,
and how many numbers it reads in `study/size.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from initmem.training.probes.answers import groups
from initmem.training.probes.attention import sink
from initmem.training.probes.curvature import hessian
from initmem.training.probes.features import features
from initmem.training.probes.hidden import radial_share, radius
from initmem.training.probes.looking import Values, at_rest
from initmem.training.probes.random_labels import random_labels
from initmem.training.probes.weights import condensation, rank

if TYPE_CHECKING:
    from initmem.training.replica import Training

Reading = dict[str, Any]
"""step, probe, quantity, where (the layer, tensor or batch) and value."""

PROBES: dict[str, Callable[[Training], Values]] = {
    "radius": radius,
    "radial_share": radial_share,
    "rank": rank,
    "condensation": condensation,
    "hessian": hessian,
    "sink": sink,
    "groups": groups,
    "features": features,
    "random_labels": random_labels,
}


def read(training: Training) -> list[Reading]:
    """The readings of the recipe's probes at this step."""
    with at_rest(training.network):
        found = {name: PROBES[name](training) for name in training.recipe.read}
    step = training.step
    return [
        {"step": step, "probe": name, "quantity": what, "where": where, "value": value}
        for name, values in found.items()
        for (what, where), value in values.items()
    ]
