"""ResNets of `resnet.py` for R replicas at once, as one network with R groups.

The images of all replicas lie side by side in the channels, [B, R C, H, W]. A convolution has R
groups, a norm R times its channels, and the heads are a batched product; all else is the module's
own, on more channels (horizontal fusion: Wang et al. 2021, arXiv 2102.02344). It pays where images
and widths are so small that a network alone leaves its kernels idle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from initmem.models.resnet import Subsample


class Widen(nn.Module):
    """Zeros for the channels that each replica's shortcut lacks."""

    def __init__(self, missing: int, replicas: int) -> None:
        super().__init__()
        self.missing, self.replicas = missing, replicas

    def forward(self, x_BCHW: Tensor) -> Tensor:
        if not self.missing:
            return x_BCHW
        x_BHWRC = x_BCHW.permute(0, 2, 3, 1).unflatten(-1, (self.replicas, -1))
        return F.pad(x_BHWRC, (0, self.missing)).flatten(-2).permute(0, 3, 1, 2)


class Heads(nn.Module):
    """Each replica's linear layer: features [B, R C] -> logits_RCB."""

    def __init__(self, replicas: int, outputs: int, filled: Callable[[Tensor, int], Tensor]):
        super().__init__()
        self.replicas, self.outputs, self.filled = replicas, outputs, filled
        self.weight, self.bias = (nn.Parameter(torch.empty(0)) for _ in range(2))

    def forward(self, x_BF: Tensor) -> Tensor:
        x_RFB = x_BF.unflatten(1, (self.replicas, -1)).permute(1, 2, 0)
        weight_ROF = self.weight.unflatten(0, (self.replicas, -1))
        bias_RO1 = self.bias.view(self.replicas, -1, 1)
        logits = torch.bmm(self.filled(weight_ROF, x_RFB.shape[1]), x_RFB)
        return logits[:, : self.outputs] + bias_RO1


def fuse(network: nn.Module, replicas: int, filled: Callable[[Tensor, int], Tensor]) -> nn.Module:
    """The network of R replicas out of one. Its own tensors are not read: make it on the meta
    device."""
    for name, layer in list(network.named_modules()):
        new: nn.Module | None = None
        if isinstance(layer, nn.Conv2d):
            channels = replicas * layer.in_channels, replicas * layer.out_channels
            window: Any = {n: getattr(layer, n) for n in ("kernel_size", "stride", "padding")}
            new = nn.Conv2d(*channels, **window, groups=replicas, bias=False)
        elif isinstance(layer, nn.BatchNorm2d):
            new = nn.BatchNorm2d(replicas * layer.num_features)
        elif isinstance(layer, nn.GroupNorm):
            new = nn.GroupNorm(replicas * layer.num_groups, replicas * layer.num_channels)
        elif isinstance(layer, Subsample):
            new = nn.Sequential(Subsample(layer.stride, 0), Widen(layer.missing, replicas))
        elif isinstance(layer, nn.Linear):
            new = Heads(replicas, layer.out_features, filled)
        if new is not None:
            network.set_submodule(name, new)
    return network


def fused_logits(fused: nn.Module, tensors: dict[str, Tensor], x_RBCHW: Tensor) -> Tensor:
    """Logits_RCB. tensors: parameters and buffers, [R, ...]; running statistics are written to."""
    x_BCHW = x_RBCHW.transpose(0, 1).flatten(1, 2).contiguous(memory_format=torch.channels_last)
    of_all: dict[str, Any] = {name: tensor.flatten(0, 1) for name, tensor in tensors.items()}
    logits_RCB: Tensor = functional_call(fused, of_all, (x_BCHW,))
    return logits_RCB
