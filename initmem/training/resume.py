"""What of a training survives a kill, and what the second of two takes from the first."""

from __future__ import annotations

from typing import Any

from initmem.study.recipe import recipe_id
from initmem.training.checkpoint import pack, unpack
from initmem.training.initialize import Audit, group_of
from initmem.training.replica import Training


def packed(training: Training) -> bytes:
    """All that it goes on from, but for what its recipe and seed say."""
    return pack(
        {
            "replica": recipe_id(training.recipe, seed=training.seed),
            "conditions": training.conditions,
            "step": training.step,
            # Copies: of a view into a stack, torch.save would keep the whole stack.
            "network": {k: v.clone() for k, v in training.network.state_dict().items()},
            "best": training.best,
            "optimizers": training.stepper.state(),
            "random_labels": training.random_labels.state(),
            "losses": training.losses_T[: training.step].clone(),
            "curve": training.curve,
            "readings": training.readings,
            "seconds": training.seconds,
            "probing": training.probing,
            "before": training.before,
        }
    )


def owned(training: Training, content: bytes) -> dict[str, Any] | None:
    """The state that is packed, or None if it is of another network, or was made under other
    conditions: trained half here and half there, a network would be nobody's result."""
    state = unpack(content) or {}
    mine = recipe_id(training.recipe, seed=training.seed), training.conditions
    return state if (state.get("replica"), state.get("conditions")) == mine else None


def restore(training: Training, content: bytes) -> bool:
    """Go on from a packed state. False, with nothing changed, if it is not its own."""
    state = owned(training, content)
    if state is None:
        return False
    for name in ("step", "curve", "best", "readings", "seconds", "probing", "before"):
        setattr(training, name, state[name])
    training.network.load_state_dict(state["network"])
    training.stepper.load(state["optimizers"])
    training.random_labels.load(state["random_labels"])
    training.losses_T[: training.step] = state["losses"]
    return True


def follow(second: Training, first: Training) -> None:
    """Begin the second of two trainings with what the first ended with, but for the readout. The
    first initialization stays what norms are measured from."""
    state = first.network.state_dict()
    kept = {name: value for name, value in state.items() if group_of(name) != "head"}
    second.network.load_state_dict(kept, strict=False)
    second.audit = Audit(first.audit.drawn + second.redrawn.drawn, first.audit.untouched)
    second.before, second.finite = first.course().columns_before(), first.finite
    second.seconds = first.seconds
