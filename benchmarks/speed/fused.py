"""hfta_like: R ResNets as one, horizontally fused (Wang et al. 2021, arXiv 2102.02344).

Images of R networks lie side by side in the channels, [B, R C, H, W]. A convolution becomes one
with R groups, BatchNorm one over R C channels, and the heads a batched product; ReLU, sums and
pooling stay as they are. So the fused network is the textbook one with its layers exchanged.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.speed.peers import Peer, Weights, autocast, orders
from benchmarks.speed.workloads import DEVICE, Workload

LAYOUT = torch.channels_last
"""Of the two, the faster for grouped convolutions on a CPU: 3/4 of the time."""


class Heads(nn.Module):
    """R linear layers: [B, R F] -> [B, R, O]."""

    def __init__(self, linear: nn.Linear, networks: int) -> None:
        super().__init__()
        self.networks, self.outputs = networks, linear.out_features
        self.weight = nn.Parameter(torch.empty(networks * self.outputs, linear.in_features))
        self.bias = nn.Parameter(torch.empty(networks * self.outputs))

    def forward(self, x_BF: Tensor) -> Tensor:
        R = self.networks
        x_RBF = x_BF.unflatten(1, (R, -1)).transpose(0, 1)
        weight_RFO = self.weight.unflatten(0, (R, -1)).transpose(1, 2)
        bias_R1O = self.bias.view(R, 1, self.outputs)
        return torch.baddbmm(bias_R1O, x_RBF, weight_RFO).transpose(0, 1)


def hfta_like(work: Workload, precision: str) -> Peer:
    """R networks of a ResNet workload, trained as one."""
    R = work.networks
    fused = _fuse([work.network(seed) for seed in range(R)]).to(DEVICE, memory_format=LAYOUT)
    optimizer = work.optimizer(fused.parameters())
    inputs, targets = work.tensors()
    inputs = inputs.contiguous(memory_format=torch.channels_last)
    batches = orders(work, R)

    def steps(n: int) -> None:
        for _ in range(n):
            batch_BR = next(batches).T
            x_BCHW = inputs[batch_BR].flatten(1, 2).contiguous(memory_format=LAYOUT)
            optimizer.zero_grad()
            with autocast(precision):
                logits_BRO = fused(x_BCHW)
            losses = F.cross_entropy(
                logits_BRO.float().flatten(0, 1), targets[batch_BR].flatten(), reduction="sum"
            )
            (losses / len(batch_BR)).backward()  # the sum of the R networks' mean losses
            optimizer.step()

    def weights() -> list[Weights]:
        chunks = {name: p.chunk(R) for name, p in fused.named_parameters()}
        return [{name: parts[r] for name, parts in chunks.items()} for r in range(R)]

    return Peer(R, steps, weights)


def _fuse(networks: list[nn.Module]) -> nn.Module:
    """Every tensor of the fused network is the R tensors after one another in dimension 0."""
    states = [network.state_dict() for network in networks]
    fused, R = networks[0], len(networks)
    for name, layer in list(fused.named_modules()):
        new: nn.Module | None = None
        if isinstance(layer, nn.Conv2d):
            new = nn.Conv2d(
                R * layer.in_channels,
                R * layer.out_channels,
                layer.kernel_size,
                layer.stride,
                layer.padding,
                groups=R,
                bias=layer.bias is not None,
            )
        elif isinstance(layer, nn.BatchNorm2d):
            new = nn.BatchNorm2d(R * layer.num_features)
        elif isinstance(layer, nn.Linear):
            new = Heads(layer, R)
        if new is not None:
            fused.set_submodule(name, new)
    state = {
        name: torch.cat([s[name] for s in states]) if tensor.ndim else tensor
        for name, tensor in states[0].items()
    }
    fused.load_state_dict(state)
    return fused
