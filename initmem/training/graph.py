"""Engine `graph`: replicas of one shape on a GPU, a step of all of them one CUDA graph.

A small network keeps a GPU waiting for the launches of its kernels. Here R plain modules run side
by side on streams of their own, the optimizer on the stack of their parameters, and the whole step
is launched at once. Each network's kernels are those it has alone, so rows do not depend on R.
"""

from __future__ import annotations

from typing import Any

import torch

from initmem.data.dataset import Split
from initmem.training.replica import Measured, Training
from initmem.training.stack import Stack

STREAMS = 8
"""Networks that run side by side."""
EAGER = 3
"""Steps before the capture: libraries choose their kernels and workspaces in them."""


class Graph(Stack):
    """On a CPU, where tests hold it against the plain module, every step is eager."""

    def stack(self, members: list[Training]) -> None:
        super().stack(members)
        if not members:
            return
        self.graph: Any = None
        self.eager = 0
        count = min(STREAMS, len(members)) if self.device.type == "cuda" else 0
        self.streams = [torch.cuda.Stream(self.device) for _ in range(count)]
        # What a replay reads and writes must stay where it is.
        inputs, targets = self.data.train.inputs, self.data.train.targets
        R, B = len(members), members[0].recipe.batch
        self.inputs = inputs.new_zeros(R, B, *inputs.shape[1:])
        self.asked = targets.new_zeros(R, B, *targets.shape[1:])
        self.losses_R = torch.zeros(R, device=self.device)
        self.gradients = {name: torch.zeros_like(w) for name, w in self.weights.items()}

    def update(self) -> None:
        chosen_RB = self.chosen()
        self.inputs.copy_(self.inputs_of(self.data.train.inputs, chosen_RB))
        self.asked.copy_(self.targets(chosen_RB))
        self.stepper.at(self.step)
        if not self.streams or self.eager < EAGER:
            self.eager += 1
            self._step()
        else:
            if self.graph is None:
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph):
                    self._step()
            self.graph.replay()
        self.stepped(self.losses_R)

    def _step(self) -> None:
        """Gradients of each network on its stream, then the update of all."""
        for stream in self.streams:
            stream.wait_stream(torch.cuda.current_stream(self.device))
        for r in range(len(self.members)):
            with torch.cuda.stream(self.streams[r % len(self.streams)] if self.streams else None):
                self._gradients(r)
        for stream in self.streams:
            torch.cuda.current_stream(self.device).wait_stream(stream)
        self.stepper.apply(self.gradients)

    def _gradients(self, r: int) -> None:
        member = self.members[r]
        loss = member.loss(self.inputs[r], self.asked[r])
        parameters = [member.network.get_parameter(name) for name in self.gradients]
        found = torch.autograd.grad(member.penalty.added_to(loss), parameters)
        for stack, gradient in zip(self.gradients.values(), found, strict=True):
            stack[r].copy_(gradient)
        self.losses_R[r].copy_(loss.detach())

    def measure(self, split: Split) -> list[Measured]:
        return [member.measure(split) for member in self.members]
