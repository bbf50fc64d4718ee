"""What is added to the loss of the task."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from initmem.models.taps import Tap, taps
from initmem.study.objective_section import NoPenalty, Radial


class Penalty:
    """Reads the hidden vectors of a network while it trains, not while it is measured."""

    def __init__(self, section: NoPenalty | Radial, network: nn.Module) -> None:
        self.section = section
        self.seen: list[Tensor] = []
        self.taps: list[Tap] = []
        if isinstance(section, Radial) and section.strength:
            self.taps = list(taps(network, section.site).values())
        for tap in self.taps:
            tap.register_forward_hook(self._see)

    def _see(self, tap: nn.Module, _inputs: object, h: Tensor) -> None:
        if tap.training:
            self.seen.append(h)

    def added_to(self, loss: Tensor) -> Tensor:
        """The loss of the batch whose hidden vectors were just seen, with its penalty."""
        if not isinstance(self.section, Radial) or not self.taps:
            return loss
        seen, self.seen = self.seen, []
        assert len(seen) == len(self.taps), "one forward pass a step"
        whole = sum(radial(h.float(), self.section.radius) for h in seen)
        return loss + self.section.strength * whole


def radial(h: Tensor, radius: float) -> Tensor:
    """(|h| / sqrt(d) - radius)^2 of hidden vectors [..., d], their mean (arXiv 2606.32000). Where
    h is 0, its gradient is 0."""
    norms = torch.linalg.vector_norm(h, dim=-1) / h.shape[-1] ** 0.5
    return (norms - radius).square().mean()
