"""Blocks of attention, and a small causal decoder of them that reads a sequence and answers at its
last positions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from initmem.models.taps import Hidden, Tap


def _norm(kind: str, width: int, eps: float | None) -> nn.Module:
    if kind == "layer":
        return nn.LayerNorm(width, 1e-5 if eps is None else eps)
    return nn.RMSNorm(width, eps) if kind == "rms" else nn.Identity()


class Embeddings(nn.Module):
    """Tokens, plus learned positions if there are any."""

    def __init__(self, vocabulary: int, length: int, width: int, positions: str) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width) if positions == "learned" else None

    def forward(self, tokens_BL: Tensor) -> Tensor:
        x_BLD = self.tokens(tokens_BL)
        if self.positions is None:
            return x_BLD
        places_L = torch.arange(tokens_BL.shape[1], device=tokens_BL.device)
        return x_BLD + self.positions(places_L)


class Block(nn.Module):
    """Attention and a hidden layer, each added to its input. Norms are of these two's inputs (pre)
    or of the sums (post)."""

    def __init__(self, fields: dict[str, Any], causal: bool) -> None:
        super().__init__()
        self.causal = causal
        width, self.heads = fields["width"], fields["heads"]
        inner = self.heads * (fields["head_width"] or width // self.heads)
        hidden = fields["mlp"] or 4 * width
        norm = fields["norm"], width, fields["norm_eps"]
        self.post = fields["norm_at"] == "post"
        self.norm1 = _norm(*norm)
        self.qkv = nn.Linear(width, 3 * inner, bias=False)
        self.gate = nn.Linear(width, inner, bias=False) if fields["gated"] else None
        self.out = nn.Linear(inner, width, bias=False)
        self.norm2 = _norm(*norm)
        self.up = nn.Linear(width, hidden, bias=False)
        self.hidden = Hidden(fields["activation"])
        self.down = nn.Linear(hidden, width, bias=False)

    def attend(self, x_BLD: Tensor) -> Tensor:
        B, L, _ = x_BLD.shape
        q_BHLK, k_BHLK, v_BHLK = (
            self.qkv(x_BLD).view(B, L, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        )
        y_BHLK = F.scaled_dot_product_attention(q_BHLK, k_BHLK, v_BHLK, is_causal=self.causal)
        y_BLI = y_BHLK.transpose(1, 2).flatten(2)
        if self.gate is not None:
            y_BLI = y_BLI * torch.sigmoid(self.gate(x_BLD))
        return self.out(y_BLI)

    def transform(self, x_BLD: Tensor) -> Tensor:
        return self.down(self.hidden(self.up(x_BLD)))

    def forward(self, x_BLD: Tensor) -> Tensor:
        if self.post:
            x_BLD = self.norm1(x_BLD + self.attend(x_BLD))
            return self.norm2(x_BLD + self.transform(x_BLD))
        x_BLD = x_BLD + self.attend(self.norm1(x_BLD))
        return x_BLD + self.transform(self.norm2(x_BLD))


def tower(fields: dict[str, Any], causal: bool = True) -> nn.Sequential:
    """The blocks, and the norm of the last residual.

    fields: of a section in `study/model_section.py`.
    """
    norm = fields["norm"] if fields["norm_at"] == "pre" else "none"
    blocks = [Block(fields, causal) for _ in range(fields["depth"])]
    return nn.Sequential(*blocks, _norm(norm, fields["width"], fields["norm_eps"]))


class Transformer(nn.Module):
    """Tokens [B, L] -> logits [B, C] of the last position, or [B, T, C] of the last T.

    fields: of its section in `study/model_section.py`.
    """

    def __init__(
        self,
        vocabulary: int,
        length: int,
        classes: int,
        fields: dict[str, Any],
        answers: int = 1,
    ) -> None:
        super().__init__()
        width = fields["width"]
        self.answers = answers
        self.stem = Embeddings(vocabulary, length, width, fields["positions"])
        self.body = tower(fields)
        self.residual = Tap("residual")
        self.head = nn.Linear(width, classes, bias=False)
        if fields["tied"]:
            self.head.weight = self.stem.tokens.weight

    def forward(self, tokens_BL: Tensor) -> Tensor:
        *blocks, norm = self.body
        x_BLD = self.stem(tokens_BL)
        for block in blocks:
            x_BLD = block(x_BLD)
        last = x_BLD[:, -1] if self.answers == 1 else x_BLD[:, -self.answers :]
        return self.head(norm(self.residual(last)))


def transformer(
    fields: dict[str, Any],
    shape: tuple[int, ...],
    classes: int,
    vocabulary: int,
    answers: int = 1,
) -> nn.Module:
    return Transformer(vocabulary, shape[0], classes, fields, answers)
