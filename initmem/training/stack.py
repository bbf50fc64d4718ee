"""Replicas of one shape with their parameters in one stack, a row each."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from initmem.data.dataset import order
from initmem.models import per_replica
from initmem.study.recipe import Recipe
from initmem.training.batched_optimizers import BatchedStepper
from initmem.training.replica import Training


def shape(recipe: Recipe) -> Hashable:
    """The same for networks that can share a stack: they differ in their initialization and in
    real numbers of optimizer and penalty."""
    optim, penalty = recipe.optim, recipe.penalty
    kind = optim.name, getattr(optim, "nesterov", None), recipe.batch, recipe.total_steps
    pull = penalty.name, getattr(penalty, "site", None)
    own = recipe.data, recipe.model, kind, pull, recipe.evaluation_interval, recipe.precision
    first = recipe.pretraining
    return own if first is None else (*own, shape(first))


class Stack:
    """The networks of its members are views into its rows, so whatever reads a member reads what
    the stack has come to."""

    def __init__(self, members: list[Training]) -> None:
        self.data, self.device = members[0].data, members[0].device
        self.stack(members)

    def rows_of(self, members: list[Training]) -> list[Training]:
        """Whose parameters the rows hold; what is beyond the members is company."""
        return members

    def stack(self, members: list[Training]) -> None:
        """Copy the members into one stack, and make their tensors views of its rows."""
        self.members = members
        if not members:
            return
        self.rows = self.rows_of(members)
        self.order_RN = torch.empty(0)
        self.weights: dict[str, Tensor] = {}
        slots: dict[str, list[Tensor]] = {}
        for name in members[0].stepper.tensors:
            weights = [row.network.get_parameter(name).detach() for row in self.rows]
            self.weights[name] = _stacked(weights)
            kept = zip(*(row.stepper.tensors[name] for row in self.rows), strict=True)
            slots[name] = [_stacked(tensors) for tensors in kept]
        # Running statistics; a counter of batches, which nothing reads, stays the member's own.
        names = [n for n, b in members[0].network.named_buffers() if b.is_floating_point()]
        self.buffers = {
            n: torch.stack([row.network.get_buffer(n) for row in self.rows]) for n in names
        }
        self.losses_TR = torch.stack([row.losses_T for row in self.rows], dim=1)
        for r, member in enumerate(members):
            for name, weight in self.weights.items():
                member.network.get_parameter(name).data = weight[r]
                member.stepper.tensors[name] = [slot[r] for slot in slots[name]]
            for name, buffer in self.buffers.items():
                member.network.get_buffer(name).data = buffer[r]
            member.losses_T = self.losses_TR[:, r]
        optims = [row.recipe.optim for row in self.rows]
        total = members[0].recipe.total_steps
        self.stepper = BatchedStepper(optims, self.weights, slots, total)

    def part(self, gone: list[Training]) -> None:
        self.stack([member for member in self.members if member not in gone])

    @property
    def step(self) -> int:
        return self.members[0].step

    def stepped(self, losses_R: Tensor) -> None:
        """A step is done, with these losses."""
        self.losses_TR[self.step] = losses_R
        for member in self.members:
            member.step += 1

    def chosen(self) -> Tensor:
        """Indices [R, B] of the next step's examples."""
        recipe, count = self.members[0].recipe, len(self.data.train.targets)
        epoch, place = divmod(self.step, recipe.steps_per_epoch)
        if place == 0 or not len(self.order_RN):
            orders = [order(count, row.seed, "order", epoch) for row in self.rows]
            self.order_RN = torch.stack(orders).to(self.device)
        return self.order_RN[:, place * recipe.batch : (place + 1) * recipe.batch]

    def inputs_of(self, from_: Tensor, chosen_RB: Tensor) -> Tensor:
        """Inputs [R, B, ...] out of `from_`, varied as the recipe says."""
        inputs = from_.index_select(0, chosen_RB.flatten()).unflatten(0, chosen_RB.shape)
        if self.members[0].varies:
            inputs = torch.stack([r.vary(x) for r, x in zip(self.rows, inputs, strict=True)])
        return inputs

    def targets(self, chosen_RB: Tensor) -> Tensor:
        chosen = chosen_RB.flatten()
        return self.data.train.targets.index_select(0, chosen).unflatten(0, chosen_RB.shape)


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    """[R, ...], each row in the layout of what it holds, for convolutions want channels last, and
    at the begin of a line of memory, for kernels see where their operands lie."""
    first = tensors[0]
    whole = per_replica.empty(first, len(tensors), first.shape, first.stride())
    for row, tensor in zip(whole, tensors, strict=True):
        row.copy_(tensor)
    return whole
