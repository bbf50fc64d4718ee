"""The pull of hidden vectors onto a sphere, of one network and of those of a stack."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from initmem.models import build
from initmem.study.objective_section import NoPenalty, Radial
from initmem.training.penalty import Penalties, Penalty, radial
from tests.tiny import recipe

CPU = torch.device("cpu")
DEEP = recipe(model={"name": "mlp", "width": 6, "depth": 2})


def section(**fields: object) -> Radial:
    return Radial.model_validate({"name": "radial", **fields})


def network() -> nn.Module:
    torch.manual_seed(0)
    return build(DEEP.model, (1, 8, 8), 10, 0)


def test_the_slope_is_radial_and_none_at_the_origin() -> None:
    """(2/d) (|h| - radius sqrt(d)) h/|h|, over the vectors of the mean (arXiv 2606.32000)."""
    h_BD = torch.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
    penalty = radial(h_BD, radius=2.0)
    assert penalty.item() == pytest.approx(((5 / 2**0.5 - 2) ** 2 + 4) / 2)
    (slope_BD,) = torch.autograd.grad(penalty, h_BD)
    pull = (5 - 2 * 2**0.5) / 5 / 2
    torch.testing.assert_close(slope_BD, torch.tensor([[3 * pull, 4 * pull], [0.0, 0.0]]))


@pytest.mark.parametrize("site", ["pre", "post", "last"])
def test_a_stack_is_pulled_as_its_networks_are(site: str) -> None:
    sections = [section(site=site, strength=s, radius=1.0 + s) for s in (0.5, 0.0, 2.0)]
    h_LRDB = torch.randn(2, 3, 5, 7)
    h_LRDB[:, :, :, 0] = 0
    h_LRDB.requires_grad_()
    seen = {"pre": list(h_LRDB), "post": list(h_LRDB)}
    losses_R = Penalties(sections, CPU).added_to(torch.arange(3.0), seen)
    (slopes_LRDB,) = torch.autograd.grad(losses_R.sum(), h_LRDB)
    for r, one in enumerate(sections):
        layers = h_LRDB[-1 if site == "last" else 0 :, r]
        alone = r + one.strength * sum(radial(h_DB.T, one.radius) for h_DB in layers)
        torch.testing.assert_close(losses_R[r], alone)
        (slope_LRDB,) = torch.autograd.grad(alone, h_LRDB)
        torch.testing.assert_close(slopes_LRDB[:, r], slope_LRDB[:, r])


def test_no_penalty_leaves_losses_alone() -> None:
    losses_R = torch.rand(3)
    assert Penalties([NoPenalty(name="none")] * 3, CPU).added_to(losses_R, {}) is losses_R
    for none in (NoPenalty(name="none"), section(strength=0.0)):
        of, loss = network(), torch.rand(())
        penalty = Penalty(none, of)
        of(torch.randn(4, 1, 8, 8))
        assert penalty.added_to(loss) is loss


@pytest.mark.parametrize("site", ["pre", "post", "last"])
def test_a_network_is_pulled_while_it_trains(site: str) -> None:
    of, x_BCHW = network(), torch.randn(4, 1, 8, 8)
    penalty = Penalty(section(site=site, strength=0.5, radius=2.0), of)
    with torch.no_grad():
        of.eval()(x_BCHW)
    of.train()(x_BCHW)
    pre: list[Tensor] = [x_BCHW.flatten(1) @ of.stem.weight.T]
    pre.append(pre[0].relu() @ of.body[0].weight.T)
    hidden = {"pre": pre, "post": [h.relu() for h in pre], "last": pre[1:]}[site]
    expected = 1.0 + 0.5 * sum(radial(h, 2.0) for h in hidden)
    torch.testing.assert_close(penalty.added_to(torch.tensor(1.0)), expected)
