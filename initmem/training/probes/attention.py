"""Where attention goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from initmem.training.probes.looking import Values, first, outputs

if TYPE_CHECKING:
    from initmem.training.replica import Training


@torch.no_grad()
def sink(training: Training) -> Values:
    """share: of attention that positions 1, 2, ... give to position 0, in each block: the mean
    over positions, heads and the first 512 validation examples. Of uniform attention a position
    gives 1 / (position + 1)."""
    blocks = {n: m for n, m in training.network.named_modules() if hasattr(m, "qkv")}
    projections: dict[str, nn.Module] = {name: block.qkv for name, block in blocks.items()}
    with outputs(projections) as found:
        training.forward(first(training.data.validation).inputs)
    return {
        ("share", name): first_share(qkv_BLE, blocks[name].heads).item()
        for name, qkv_BLE in found.items()
    }


def first_share(qkv_BLE: Tensor, heads: int) -> Tensor:
    """Mean share of causal attention that later positions give to the first one.

    qkv_BLE: queries, keys and values of all heads, side by side.
    """
    q_BHLK, k_BHLK, _ = qkv_BLE.float().unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    scores_BHLL = q_BHLK @ k_BHLK.transpose(-2, -1) / q_BHLK.shape[-1] ** 0.5
    later_LL = torch.ones_like(scores_BHLL[0, 0], dtype=torch.bool).triu(1)
    shares_BHLL = scores_BHLL.masked_fill(later_LL, -torch.inf).softmax(dim=-1)
    return shares_BHLL[:, :, 1:, 0].mean()
