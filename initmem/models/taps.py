"""Where hidden vectors pass, so that others can read them without knowing the network."""

from __future__ import annotations

from torch import Tensor, nn


class Tap(nn.Module):
    """Changes nothing. site: pre (pre-activations), post (activations) or residual (the last
    residual of the answers); what passes is [..., d]."""

    def __init__(self, site: str) -> None:
        super().__init__()
        self.site = site

    def forward(self, h: Tensor) -> Tensor:
        return h


def taps(network: nn.Module, site: str) -> dict[str, Tap]:
    """Name -> tap, in the order of the layers. site: of a tap, or last, the last of pre."""
    wanted = "pre" if site == "last" else site
    found = {n: m for n, m in network.named_modules() if isinstance(m, Tap) and m.site == wanted}
    return dict(list(found.items())[-1:]) if site == "last" else found
