"""A Transformer of images: patches attend to each other, their mean is read out."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from initmem.models.taps import Tap
from initmem.models.transformer import tower


def patches(x_BCHW: Tensor, patch: int) -> Tensor:
    """Squares of patch x patch pixels, row by row: [B, L, C patch patch]."""
    x_BCMNPP = x_BCHW.unfold(2, patch, patch).unfold(3, patch, patch)
    return x_BCMNPP.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


class Patches(nn.Module):
    """A linear layer of each patch, plus learned positions if there are any."""

    def __init__(self, shape: tuple[int, ...], patch: int, width: int, positions: str) -> None:
        super().__init__()
        channels, rows, columns = shape
        self.patch = patch
        self.patches = nn.Linear(channels * patch**2, width, bias=False)
        count = rows * columns // patch**2
        self.positions = nn.Embedding(count, width) if positions == "learned" else None

    def forward(self, x_BCHW: Tensor) -> Tensor:
        x_BLD = self.patches(patches(x_BCHW, self.patch))
        return x_BLD if self.positions is None else x_BLD + self.positions.weight


class ViT(nn.Module):
    """Images [B, C, H, W] -> logits [B, classes], of the mean over the patches after the last
    norm.

    shape: of an image, (C, H, W); fields: of its section in `study/model_section.py`.
    """

    def __init__(self, shape: tuple[int, ...], classes: int, fields: dict[str, Any]) -> None:
        super().__init__()
        width = fields["width"]
        self.stem = Patches(shape, fields["patch"], width, fields["positions"])
        self.body = tower(fields, causal=False)
        self.residual = Tap("residual")
        self.head = nn.Linear(width, classes, bias=False)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        *blocks, norm = self.body
        x_BLD = self.stem(x_BCHW)
        for block in blocks:
            x_BLD = block(x_BLD)
        return self.head(norm(self.residual(x_BLD)).mean(1))


def vit(
    fields: dict[str, Any], shape: tuple[int, ...], classes: int, vocabulary: int, answers: int = 1
) -> nn.Module:
    return ViT(shape, classes, fields)
