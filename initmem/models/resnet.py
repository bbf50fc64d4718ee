"""Residual networks for small images."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def _norm(kind: str, channels: int) -> nn.Module:
    if kind == "batch":
        return nn.BatchNorm2d(channels)
    if kind == "group":
        return nn.GroupNorm(math.gcd(8, channels), channels)
    return nn.Identity()


def _conv3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)


class Subsample(nn.Module):
    """Every second pixel, and zeros for the channels that are missing: a shortcut without
    parameters (option A of He et al. 2015, arXiv 1512.03385)."""

    def __init__(self, stride: int, missing: int) -> None:
        super().__init__()
        self.stride, self.missing = stride, missing

    def forward(self, x_BCHW: Tensor) -> Tensor:
        if self.stride > 1:  # pooling over one pixel: unlike a slice, it keeps channels last
            x_BCHW = F.avg_pool2d(x_BCHW, 1, self.stride)
        return F.pad(x_BCHW, (0, 0, 0, 0, 0, self.missing)) if self.missing else x_BCHW


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut. `projected`: the shortcut is a 1x1 convolution."""

    def __init__(
        self, inputs: int, outputs: int, stride: int, fields: dict[str, Any], projected: bool
    ) -> None:
        super().__init__()
        pooled = stride > 1 and fields["downsample"] == "average"
        self.pool = nn.AvgPool2d(stride) if pooled else nn.Identity()
        stride = 1 if pooled else stride
        self.conv1 = _conv3(inputs, outputs, stride)
        self.norm1 = _norm(fields["norm"], outputs)
        self.conv2 = _conv3(outputs, outputs)
        self.norm2 = _norm(fields["norm"], outputs)
        # Subsampling first is the strided 1x1 convolution, at half its time on a CPU.
        self.shortcut: nn.Module = Subsample(stride, 0 if projected else outputs - inputs)
        if projected:
            self.shortcut = nn.Sequential(self.shortcut, nn.Conv2d(inputs, outputs, 1, bias=False))

    def forward(self, x_BCHW: Tensor) -> Tensor:
        x_BCHW = self.pool(x_BCHW)
        y_BCHW = torch.relu(self.norm1(self.conv1(x_BCHW)))
        return torch.relu(self.norm2(self.conv2(y_BCHW)) + self.shortcut(x_BCHW))


class ResNet(nn.Module):
    """Stem, blocks, global average pool, linear head."""

    def __init__(self, inputs: int, width: int, norm: str, blocks: list[Block], classes: int):
        super().__init__()
        self.stem = nn.Sequential(_conv3(inputs, width), _norm(norm, width), nn.ReLU())
        self.body = nn.Sequential(*blocks)
        self.head = nn.Linear(blocks[-1].conv2.out_channels, classes)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        features_BC = self.body(self.stem(x_BCHW)).mean(dim=(2, 3))
        return self.head(features_BC)


def resnet9(
    fields: dict[str, Any], shape: tuple[int, ...], classes: int, vocabulary: int, answers: int = 1
) -> nn.Module:
    """Three blocks of widths 2w, 4w, 8w and strides 1, 2, 2, with 1x1 shortcuts."""
    w = fields["width"]
    steps = [(w, 2 * w, 1), (2 * w, 4 * w, 2), (4 * w, 8 * w, 2)]
    blocks = [Block(*step, fields, projected=True) for step in steps]
    return ResNet(shape[0], w, fields["norm"], blocks, classes)


def resnet18(
    fields: dict[str, Any], shape: tuple[int, ...], classes: int, vocabulary: int, answers: int = 1
) -> nn.Module:
    """Four stages of two blocks, widths w, 2w, 4w, 8w, 1x1 shortcuts where the width changes."""
    w = fields["width"]
    blocks, inputs = [], w
    for stage in range(4):
        outputs, stride = w * 2**stage, 2 if stage else 1
        blocks.append(Block(inputs, outputs, stride, fields, projected=stage > 0))
        blocks.append(Block(outputs, outputs, 1, fields, projected=False))
        inputs = outputs
    return ResNet(shape[0], w, fields["norm"], blocks, classes)


def cifar_resnet(
    fields: dict[str, Any], shape: tuple[int, ...], classes: int, vocabulary: int, answers: int = 1
) -> nn.Module:
    """6n+2 layers: three stages of n blocks, widths w, 2w, 4w, shortcuts without parameters."""
    w, depth = fields["width"], int(fields["name"].removeprefix("resnet"))
    blocks = []
    inputs = w
    for stage, outputs in enumerate((w, 2 * w, 4 * w)):
        for place in range((depth - 2) // 6):
            stride = 2 if stage and not place else 1
            blocks.append(Block(inputs, outputs, stride, fields, projected=False))
            inputs = outputs
    return ResNet(shape[0], w, fields["norm"], blocks, classes)
