"""What the network answers, by kinds of answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from initmem.training.probes.looking import EXAMPLES, Values

if TYPE_CHECKING:
    from initmem.training.replica import Training


@torch.no_grad()
def groups(training: Training) -> Values:
    """loss (mean, nats) and accuracy (percent of single answers) of each of the data set's groups
    of validation answers; where it has none, of the group `all`. nan for an empty group."""
    split, losses, right = training.data.validation, [], []
    for inputs, targets in zip(
        split.inputs.split(EXAMPLES), split.targets.split(EXAMPLES), strict=True
    ):
        logits_MC, targets_M = training.forward(inputs).flatten(0, -2), targets.flatten()
        losses.append(F.cross_entropy(logits_MC, targets_M, reduction="none").double())
        right.append(logits_MC.argmax(dim=1) == targets_M)
    losses_M, right_M = torch.cat(losses), torch.cat(right).double()
    values = {}
    for name, group in (training.data.groups or {"all": right_M >= 0}).items():
        chosen_M = group.flatten()
        values["loss", name] = losses_M[chosen_M].mean().item()
        values["accuracy", name] = 100 * right_M[chosen_M].mean().item()
    return values
