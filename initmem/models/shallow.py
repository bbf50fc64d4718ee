"""Fully connected networks, of images and of tokens."""

from __future__ import annotations

import itertools
import math
from typing import Any

from torch import Tensor, nn

from initmem.models.taps import Hidden


class MLP(nn.Module):
    """ReLU layers on the flattened input."""

    def __init__(self, inputs: int, width: int, depth: int, bias: bool, classes: int) -> None:
        super().__init__()
        self.stem = nn.Linear(inputs, width, bias=bias)
        hidden = [nn.Linear(width, width, bias=bias) for _ in range(depth - 1)]
        self.body = nn.ModuleList(hidden)
        self.head = nn.Linear(width, classes, bias=bias)
        self.hidden = nn.ModuleList(Hidden() for _ in range(depth))

    def forward(self, x_BCHW: Tensor) -> Tensor:
        x_BD = x_BCHW.flatten(1)
        for layer, hidden in zip([self.stem, *self.body], self.hidden, strict=True):
            x_BD = hidden(layer(x_BD))
        return self.head(x_BD)


def mlp(
    fields: dict[str, Any], shape: tuple[int, ...], classes: int, vocabulary: int, answers: int = 1
) -> nn.Module:
    return MLP(math.prod(shape), fields["width"], fields["depth"], fields["bias"], classes)


class TokenMLP(nn.Module):
    """ReLU layers on the embeddings of all tokens, side by side."""

    def __init__(self, vocabulary: int, length: int, classes: int, fields: dict[str, Any]) -> None:
        super().__init__()
        widths = [length * fields["embedding"], *[fields["width"]] * fields["depth"]]
        self.stem = nn.Embedding(vocabulary, fields["embedding"])
        self.body = nn.ModuleList(
            nn.Linear(before, after, bias=fields["bias"])
            for before, after in itertools.pairwise(widths)
        )
        self.head = nn.Linear(fields["width"], classes, bias=fields["bias"])
        self.hidden = nn.ModuleList(Hidden() for _ in range(fields["depth"]))

    def forward(self, tokens_BL: Tensor) -> Tensor:
        x_BD = self.stem(tokens_BL).flatten(1)
        for layer, hidden in zip(self.body, self.hidden, strict=True):
            x_BD = hidden(layer(x_BD))
        return self.head(x_BD)


def token_mlp(
    fields: dict[str, Any], shape: tuple[int, ...], classes: int, vocabulary: int, answers: int = 1
) -> nn.Module:
    return TokenMLP(vocabulary, shape[0], classes, fields)
