"""A small decoder that reads a sequence and answers at its last position."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def _norm(kind: str, width: int) -> nn.Module:
    return {"none": nn.Identity, "layer": nn.LayerNorm, "rms": nn.RMSNorm}[kind](width)


class Embeddings(nn.Module):
    """Tokens plus learned positions."""

    def __init__(self, vocabulary: int, length: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)

    def forward(self, tokens_BL: Tensor) -> Tensor:
        places_L = torch.arange(tokens_BL.shape[1], device=tokens_BL.device)
        return self.tokens(tokens_BL) + self.positions(places_L)


class Block(nn.Module):
    """Causal attention and a GELU layer, each on the normed input and added to it."""

    def __init__(self, width: int, heads: int, norm: str) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = _norm(norm, width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm2 = _norm(norm, width)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def attend(self, x_BLD: Tensor) -> Tensor:
        B, L, D = x_BLD.shape
        q_BHLK, k_BHLK, v_BHLK = (
            self.qkv(x_BLD).view(B, L, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        )
        y_BHLK = F.scaled_dot_product_attention(q_BHLK, k_BHLK, v_BHLK, is_causal=True)
        return self.out(y_BHLK.transpose(1, 2).reshape(B, L, D))

    def forward(self, x_BLD: Tensor) -> Tensor:
        x_BLD = x_BLD + self.attend(self.norm1(x_BLD))
        return x_BLD + self.down(F.gelu(self.up(self.norm2(x_BLD))))


class Transformer(nn.Module):
    def __init__(self, vocabulary: int, length: int, classes: int, fields: dict[str, Any]) -> None:
        super().__init__()
        width, norm = fields["width"], fields["norm"]
        self.stem = Embeddings(vocabulary, length, width)
        blocks = [Block(width, fields["heads"], norm) for _ in range(fields["depth"])]
        self.body = nn.Sequential(*blocks, _norm(norm, width))
        self.head = nn.Linear(width, classes, bias=False)

    def forward(self, tokens_BL: Tensor) -> Tensor:
        return self.head(self.body(self.stem(tokens_BL))[:, -1])


def transformer(
    fields: dict[str, Any], shape: tuple[int, ...], classes: int, vocabulary: int
) -> nn.Module:
    return Transformer(vocabulary, shape[0], classes, fields)
