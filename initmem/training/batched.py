"""Engine `batched`: replicas of one shape trained at once, by products of whole stacks.

Rows depend neither on how many train together nor on which: one that is alone is trained beside
a copy of itself, for a product of one matrix and of a stack of them differ in their bits.
"""

from __future__ import annotations

from collections import defaultdict

import torch
import torch.nn.functional as F
from torch import Tensor

from initmem.data.dataset import Split
from initmem.models.stacked import Seen, form
from initmem.study.recipe import Recipe
from initmem.study.size import large
from initmem.training.penalty import Penalties
from initmem.training.replica import EVALUATION_BATCH, Measured, Training
from initmem.training.stack import Stack

PREPARED = 10_000_000
"""Numbers of a training set that are kept standardized: 40 MB."""


def alone(recipe: Recipe, device: torch.device, shape: tuple[int, ...] | None = None) -> bool:
    """Whether a network trains alone. shape: of an input, by default of the recipe's data."""
    return device.type == "cpu" and large(recipe, shape)


class Batched(Stack):
    def __init__(self, members: list[Training]) -> None:
        recipe, data = members[0].recipe, members[0].data
        self.form = form(recipe.model, data.shape, data.classes)
        # Standardized once, where that takes little memory: a small step is short.
        self.prepared = not members[0].varies and data.train.inputs.numel() <= PREPARED
        self.inputs = data.prepare(data.train.inputs) if self.prepared else data.train.inputs
        if self.prepared and recipe.precision == "bf16" and data.kind == "image":
            self.inputs = self.inputs.bfloat16()  # what the first product would make of them
        super().__init__(members)

    def rows_of(self, members: list[Training]) -> list[Training]:
        single = alone(members[0].recipe, self.device, self.data.shape)
        return members if single or len(members) > 1 else members * 2

    def stack(self, members: list[Training]) -> None:
        super().stack(members)
        self.leaves = {k: v.detach().requires_grad_() for k, v in self.weights.items()}
        self.penalties = Penalties([row.recipe.penalty for row in self.rows], self.device)

    def update(self) -> None:
        chosen_RB = self.chosen()
        inputs = self.inputs_of(self.inputs, chosen_RB)
        seen: Seen = defaultdict(list)
        prepared = inputs if self.prepared else self.data.prepare(inputs)
        logits_RCB = self._logits(prepared, True, seen)
        losses_RB = F.cross_entropy(logits_RCB, self.targets(chosen_RB), reduction="none")
        losses_R = losses_RB.mean(dim=1)
        whole_R = self.penalties.added_to(losses_R, seen)
        gradients = torch.autograd.grad(whole_R.sum(), list(self.leaves.values()))
        self.stepper.at(self.step)
        self.stepper.apply(dict(zip(self.leaves, gradients, strict=True)))
        self.stepped(losses_R.detach())

    def _logits(self, inputs: Tensor, training: bool, seen: Seen) -> Tensor:
        with self.members[0].autocast():
            logits_RCB = self.form({**self.leaves, **self.buffers}, inputs, training, seen)
        return logits_RCB.float()

    @torch.no_grad()
    def measure(self, split: Split) -> list[Measured]:
        count, R = len(split.targets), len(self.rows)
        loss_R = torch.zeros(R, dtype=torch.float64, device=self.device)
        predicted = []
        for start in range(0, count, EVALUATION_BATCH):
            part = slice(start, start + EVALUATION_BATCH)
            inputs = self.data.prepare(split.inputs[part])
            targets_RB = split.targets[part].expand(R, -1)
            logits_RCB = self._logits(inputs.expand(R, *inputs.shape), False, defaultdict(list))
            losses_RB = F.cross_entropy(logits_RCB, targets_RB, reduction="none")
            loss_R += losses_RB.sum(dim=1).double()
            predicted.append(logits_RCB.argmax(dim=1))
        predicted_RN = torch.cat(predicted, dim=1)
        correct = (predicted_RN == split.targets).sum(dim=1).tolist()
        losses = loss_R.tolist()
        return [
            (100 * correct[r] / count, losses[r] / count, predicted_RN[r])
            for r in range(len(self.members))
        ]
