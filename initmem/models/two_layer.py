"""Two-layer networks with planted features, of pairs (after arXiv 2605.12908)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Neurons(nn.Module):
    """Weights [N, D], a row a neuron, and the subspace in which they are trained."""

    plane: Tensor
    """Orthonormal columns [D, S]; [D, 0] for all directions."""

    def __init__(self, count: int, d: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(count, d))
        self.register_buffer("plane", torch.zeros(d, 0), persistent=False)


class TwoLayer(nn.Module):
    """sum_j a relu(w_j x - threshold); stem has the on-target neurons, body the others."""

    def __init__(self, d: int, fields: dict[str, Any]) -> None:
        super().__init__()
        self.stem, self.body = Neurons(fields["neurons"], d), Neurons(fields["off"], d)
        self.threshold, self.sign = fields["threshold"], fields["sign"]
        self.slope = fields["output"] / (fields["neurons"] + fields["off"])
        """Of the logit of a preference over the difference of rewards."""

    def forward(self, pairs_B2D: Tensor, seen_DR: Tensor | None = None) -> Tensor:
        """[B]: the reward of the first less that of the second. Of inputs that are given by their
        coordinates [B, 2, R] in a subspace, seen has the basis, orthonormal columns."""
        weights_ND = torch.cat([self.stem.weight, self.body.weight])
        along = weights_ND if seen_DR is None else weights_ND @ seen_DR
        active_B2N = (pairs_B2D @ along.T - self.threshold).relu()
        rewards_B2 = self.sign * active_B2N.sum(dim=2)
        return rewards_B2[:, 0] - rewards_B2[:, 1]


def two_layer(
    fields: dict[str, Any], shape: tuple[int, ...], classes: int, vocabulary: int, answers: int = 1
) -> nn.Module:
    return TwoLayer(shape[0], fields)
