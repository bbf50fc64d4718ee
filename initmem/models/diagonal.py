"""Diagonal linear networks, of vectors (arXiv 2602.20062)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Paths(nn.Module):
    """A layer: a number for each coordinate of either path, float64 [D]."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.plus = nn.Parameter(torch.ones(d, dtype=torch.float64))
        self.minus = nn.Parameter(torch.ones(d, dtype=torch.float64))


class Diagonal(nn.Module):
    """beta x with beta = w+ v+ - w- v-; stem is w, head is v."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.stem, self.head = Paths(d), Paths(d)

    @property
    def beta_D(self) -> Tensor:
        w, v = self.stem, self.head
        return w.plus * v.plus - w.minus * v.minus

    def forward(self, x_BD: Tensor) -> Tensor:
        """[B]: one number for each input."""
        return x_BD @ self.beta_D


def diagonal(
    fields: dict[str, Any], shape: tuple[int, ...], classes: int, vocabulary: int, answers: int = 1
) -> nn.Module:
    return Diagonal(shape[0])
