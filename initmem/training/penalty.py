"""What is added to the loss of the task."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from initmem.models import per_replica
from initmem.models.stacked import Seen
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


class Penalties:
    """Of R networks that a form trains at once, of one kind and site."""

    def __init__(self, sections: Sequence[NoPenalty | Radial], device: torch.device) -> None:
        self.radials = [section for section in sections if isinstance(section, Radial)]
        self.strength_R, self.radius_R = (
            torch.tensor([getattr(section, field) for section in self.radials], device=device)
            for field in ("strength", "radius")
        )

    def added_to(self, losses_R: Tensor, seen: Seen) -> Tensor:
        """The losses of a batch with the penalties of what was seen of it."""
        if not self.radials:
            return losses_R
        site = self.radials[0].site
        hidden = seen["pre"][-1:] if site == "last" else seen[site]
        whole_R = sum(_radials(h_RDB.float(), self.radius_R) for h_RDB in hidden)
        return losses_R + self.strength_R * whole_R


def _radials(h_RDB: Tensor, radius_R: Tensor) -> Tensor:
    """`radial` of each of R networks, [R], whose bits depend on no other."""
    squares_RB = per_replica.total(h_RDB.square())
    # Of a square root, the slope at 0 is infinite.
    norms_RB = squares_RB.clamp(min=torch.finfo().tiny).sqrt() / h_RDB.shape[1] ** 0.5
    return (norms_RB - radius_R[:, None]).square().mean(dim=1)


def radial(h: Tensor, radius: float) -> Tensor:
    """(|h| / sqrt(d) - radius)^2 of hidden vectors [..., d], their mean (arXiv 2606.32000). Where
    h is 0, its gradient is 0."""
    norms = torch.linalg.vector_norm(h, dim=-1) / h.shape[-1] ** 0.5
    return (norms - radius).square().mean()
