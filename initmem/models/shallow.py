"""Fully connected networks."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn


class MLP(nn.Module):
    """ReLU layers on the flattened input."""

    def __init__(self, inputs: int, width: int, depth: int, bias: bool, classes: int) -> None:
        super().__init__()
        self.stem = nn.Linear(inputs, width, bias=bias)
        hidden = [nn.Linear(width, width, bias=bias) for _ in range(depth - 1)]
        self.body = nn.ModuleList(hidden)
        self.head = nn.Linear(width, classes, bias=bias)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        x_BD = torch.relu(self.stem(x_BCHW.flatten(1)))
        for layer in self.body:
            x_BD = torch.relu(layer(x_BD))
        return self.head(x_BD)


def mlp(
    fields: dict[str, Any], shape: tuple[int, ...], classes: int, vocabulary: int
) -> nn.Module:
    return MLP(math.prod(shape), fields["width"], fields["depth"], fields["bias"], classes)
