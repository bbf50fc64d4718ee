"""Where hidden vectors pass, so that others can read them without knowing the network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class Tap(nn.Module):
    """Changes nothing. site: pre (pre-activations), post (activations) or residual (the last
    residual of the answers); what passes is [..., d]."""

    def __init__(self, site: str) -> None:
        super().__init__()
        self.site = site

    def forward(self, h: Tensor) -> Tensor:
        return h


class Hidden(nn.Module):
    """An activation with taps before and after it."""

    def __init__(self, activation: Literal["relu", "gelu"] = "relu") -> None:
        super().__init__()
        self.pre, self.post = Tap("pre"), Tap("post")
        self.activation = ACTIVATIONS[activation]

    def forward(self, h: Tensor) -> Tensor:
        return self.post(self.activation(self.pre(h)))


def taps(network: nn.Module, site: str) -> dict[str, Tap]:
    """Name -> tap, in the order of the layers. site: of a tap, or last, the last of pre."""
    wanted = "pre" if site == "last" else site
    found = {n: m for n, m in network.named_modules() if isinstance(m, Tap) and m.site == wanted}
    return dict(list(found.items())[-1:]) if site == "last" else found
