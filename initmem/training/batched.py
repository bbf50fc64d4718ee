"""Engine `batched`: replicas of one shape, trained at once as one stack of parameters.

Rows depend neither on how many train together nor on which: one that is alone is trained beside
a copy of itself, for a product of one matrix and of a stack of them differ in their bits.
"""

from __future__ import annotations

from collections.abc import Hashable

import torch
import torch.nn.functional as F
from torch import Tensor

from initmem.data.dataset import Split, order
from initmem.models.stacked import FORMS
from initmem.study.recipe import Recipe
from initmem.study.size import parameters
from initmem.training.batched_optimizers import BatchedStepper
from initmem.training.replica import EVALUATION_BATCH, Measured, Training

PREPARED = 10_000_000
"""Numbers of a training set that are kept standardized: 40 MB."""
ALONE = 50e6
"""Operations of a step from which a replica is trained alone: its products fill a core, and a
stack of them fills the cache."""


def alone(recipe: Recipe) -> bool:
    """Whether a network is too large to gain from company."""
    return 6 * parameters(recipe) * recipe.batch > ALONE


def shape(recipe: Recipe) -> Hashable:
    """The same for networks that can be trained at once."""
    optim = recipe.optim
    kind = optim.name, getattr(optim, "nesterov", None), optim.batch, recipe.total_steps
    return recipe.data, recipe.model, kind, recipe.evaluation_interval, recipe.precision


class Batched:
    """The networks of its members are views into its stack."""

    def __init__(self, members: list[Training]) -> None:
        recipe = members[0].recipe
        self.data = members[0].data
        self.form = FORMS[recipe.model.name](recipe.model.model_dump())
        # Standardized once, where that takes little memory: it is a tenth of a small step.
        inputs = self.data.train.inputs
        small = not members[0].varies and inputs.numel() <= PREPARED
        self.inputs = self.data.prepare(inputs) if small else inputs
        self.prepared = small
        self._stack(members)

    def _stack(self, members: list[Training]) -> None:
        """Copy the members into one stack, and make their tensors views of its rows."""
        self.members = members
        if not members:
            return
        first = members[0]
        company = len(members) > 1 or alone(first.recipe)
        rows = members if company else members * 2
        self.rows = rows
        self.order_RN = torch.empty(0)
        self.weights: dict[str, Tensor] = {}
        slots = {}
        for name in first.stepper.tensors:
            self.weights[name] = torch.stack([_weight(row, name) for row in rows])
            slots[name] = torch.stack([row.stepper.tensors[name] for row in rows], dim=1)
        self.losses_TR = torch.stack([row.losses_T for row in rows], dim=1)
        for r, member in enumerate(members):
            for name, weight in self.weights.items():
                member.network.get_parameter(name).data = weight[r]
                member.stepper.tensors[name] = slots[name][:, r]
            member.losses_T = self.losses_TR[:, r]
        self.leaves = {k: v.detach().requires_grad_() for k, v in self.weights.items()}
        optims = [row.recipe.optim for row in rows]
        self.stepper = BatchedStepper(optims, self.weights, slots, first.recipe.total_steps)

    def part(self, gone: list[Training]) -> None:
        self._stack([member for member in self.members if member not in gone])

    def update(self) -> None:
        step = self.members[0].step
        inputs, targets_RB = self._batch(step)
        losses_R = self._losses(self.leaves, inputs, targets_RB).mean(dim=1)
        gradients = torch.autograd.grad(losses_R.sum(), list(self.leaves.values()))
        self.losses_TR[step] = losses_R.detach()
        self.stepper.step(step, dict(zip(self.leaves, gradients, strict=True)))
        for member in self.members:
            member.step += 1

    def _batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Inputs [R, B, ...] and targets_RB of the next step's examples."""
        recipe, train = self.members[0].recipe, self.data.train
        epoch, place = divmod(step, recipe.steps_per_epoch)
        if place == 0 or not len(self.order_RN):
            orders = [order(len(train.targets), r.seed, "order", epoch) for r in self.rows]
            self.order_RN = torch.stack(orders).to(train.targets.device)
        chosen_RB = self.order_RN[:, place * recipe.batch : (place + 1) * recipe.batch]
        chosen = chosen_RB.flatten()
        inputs = self.inputs.index_select(0, chosen).unflatten(0, chosen_RB.shape)
        if self.members[0].varies:
            inputs = torch.stack([r.vary(x) for r, x in zip(self.rows, inputs, strict=True)])
        if not self.prepared:
            inputs = self.data.prepare(inputs)
        return inputs, train.targets.index_select(0, chosen).unflatten(0, chosen_RB.shape)

    def _losses(self, weights: dict[str, Tensor], inputs: Tensor, targets_RB: Tensor) -> Tensor:
        """Losses_RB in nats."""
        return F.cross_entropy(self._logits(weights, inputs), targets_RB, reduction="none")

    def _logits(self, weights: dict[str, Tensor], inputs: Tensor) -> Tensor:
        with self.members[0].autocast():
            logits_RCB = self.form(weights, inputs)
        return logits_RCB.float()

    @torch.no_grad()
    def measure(self, split: Split) -> list[Measured]:
        count, R = len(split.targets), len(self.rows)
        loss_R = torch.zeros(R, dtype=torch.float64, device=split.targets.device)
        predicted = []
        for start in range(0, count, EVALUATION_BATCH):
            part = slice(start, start + EVALUATION_BATCH)
            inputs = self.data.prepare(split.inputs[part])
            targets_RB = split.targets[part].expand(R, -1)
            logits_RCB = self._logits(self.weights, inputs.expand(R, *inputs.shape))
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


def _weight(row: Training, name: str) -> Tensor:
    return row.network.get_parameter(name).detach()
