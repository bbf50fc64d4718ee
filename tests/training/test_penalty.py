"""The radial penalty: its value and gradient in closed form, and where it acts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from initmem.data.load import load
from initmem.study.objective_section import Radial
from initmem.study.recipe import Recipe
from initmem.training.loop import train
from initmem.training.penalty import Penalties, radial
from initmem.training.replica import Training
from tests.tiny import Memory, exhaust, recipe

CPU = torch.device("cpu")
TOKENS = {"name": "modular", "p": 7, "equals": False}


def penalized(model: object, **fields: object) -> Recipe:
    penalty = {"name": "radial", "strength": 0.5, **fields}
    data = {} if model == {"depth": 3} else TOKENS
    return recipe(data=data, model=model, penalty=penalty)


MLP, TOKEN_MLP = {"depth": 3}, {"name": "token_mlp", "embedding": 4, "width": 8}


def training(of: Recipe) -> Training:
    return Training(of, 0, load(of.data, Path("data")), CPU)


def test_value_and_gradient_are_those_of_the_paper() -> None:
    """L = (1/d) (|h| - sqrt(d))^2, grad L = (2/d) (|h| - sqrt(d)) h / |h| (arXiv 2606.32000)."""
    d = 5
    h = torch.randn(3, 4, d, dtype=torch.float64, requires_grad=True)
    loss = radial(h, 1.0)
    norms = h.detach().norm(dim=-1, keepdim=True)
    torch.testing.assert_close(loss, ((norms - d**0.5) ** 2 / d).mean())
    (gradient,) = torch.autograd.grad(loss, h)
    exact = 2 / d * (norms - d**0.5) * h.detach() / norms / 12  # the mean over 12 vectors
    torch.testing.assert_close(gradient, exact)
    assert torch.autograd.gradcheck(lambda h: radial(h, 0.3), h)


def test_a_vector_on_the_sphere_or_at_its_centre_is_not_pulled() -> None:
    h = torch.tensor([[0.0, 0.0], [1.0, 1.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(radial(h, 1.0), h)
    assert not gradient.any()
    assert radial(h, 1.0) == 0.5  # the centre is 1 away


@pytest.mark.parametrize(
    ("model", "site", "widths"),
    [
        (MLP, "pre", [16, 16, 16]),
        (TOKEN_MLP, "pre", [8, 8]),
        (TOKEN_MLP, "post", [8, 8]),
        (TOKEN_MLP, "last", [8]),
    ],
)
def test_every_layer_of_a_site_is_seen_once(model: object, site: str, widths: list[int]) -> None:
    one = training(penalized(model, site=site))
    inputs, targets = one.batch(one.chosen())
    one.loss(inputs, targets)
    assert [h.shape[-1] for h in one.penalty.seen] == widths
    assert (torch.cat(one.penalty.seen) >= 0).all() == (site == "post")
    before = list(one.penalty.seen)
    one.measure(one.data.validation)
    assert one.penalty.seen == before, "measuring is no training"


def test_a_step_goes_down_the_gradient_of_task_plus_penalty() -> None:
    of = penalized(TOKEN_MLP, radius=0.5, strength=3.0)
    one = training(of)
    inputs, targets = one.batch(one.chosen())
    start = {name: p.detach().clone() for name, p in one.network.named_parameters()}

    def whole(parameters: dict[str, Tensor]) -> Tensor:
        """Written out, without taps."""
        p = parameters
        x = p["stem.weight"][inputs].flatten(1)
        loss = torch.zeros(())
        for layer in ("body.0", "body.1"):
            h = x @ p[f"{layer}.weight"].T + p[f"{layer}.bias"]
            loss = loss + 3.0 * ((h.norm(dim=1) / 8**0.5 - 0.5) ** 2).mean()
            x = torch.relu(h)
        logits = x @ p["head.weight"].T + p["head.bias"]
        return loss + torch.nn.functional.cross_entropy(logits, targets)

    gradients = torch.func.grad(whole)(start)
    one.update()
    for name, parameter in one.network.named_parameters():
        torch.testing.assert_close(parameter.detach(), start[name] - 0.1 * gradients[name])


def test_strength_0_is_no_penalty_and_a_strength_pins_the_radius() -> None:
    strengths: list[dict[str, object]] = [{"name": "none"}]
    strengths += [{"name": "radial", "strength": strength} for strength in (0.0, 10.0)]
    none, zero, strong = (
        training(recipe(data=TOKENS, model=TOKEN_MLP, penalty=penalty)) for penalty in strengths
    )
    untrained = _off_the_sphere(training(penalized(TOKEN_MLP)))
    for one in (none, zero, strong):
        exhaust(train([one], [Memory()], 100))
    assert torch.equal(none.losses_T, zero.losses_T)
    assert not torch.equal(none.losses_T, strong.losses_T)
    assert _off_the_sphere(strong) < 0.3 * untrained


def _off_the_sphere(one: Training) -> float:
    one.loss(*one.batch(one.chosen()))
    return float(sum(radial(h.detach(), 1.0) for h in one.penalty.seen))


@pytest.mark.parametrize("site", ["pre", "post", "last"])
def test_a_stack_is_pulled_as_its_networks_are(site: Any) -> None:
    sections = [
        Radial(name="radial", site=site, strength=s, radius=1.0 + s) for s in (0.5, 0.0, 2.0)
    ]
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


def test_a_penalty_where_the_network_has_no_such_vectors_is_refused() -> None:
    with pytest.raises(ValueError, match="resnet9 has no site"):
        recipe(model={"name": "resnet9", "width": 4}, penalty={"name": "radial"})
    with pytest.raises(ValueError, match="token_mlp has pre, post, last"):
        penalized(TOKEN_MLP, site="residual")
