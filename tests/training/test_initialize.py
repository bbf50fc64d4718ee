"""The init scale that is asked for is the one that is there."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from initmem.models import build
from initmem.study.init_section import FixedRule, GammaRule
from initmem.study.recipe import Recipe
from initmem.training.initialize import SIGMAS, fan_in, group_of, initialize
from tests.tiny import recipe

NETWORKS = {
    "resnet9": recipe(model={"name": "resnet9", "width": 8}),
    "resnet20": recipe(model={"name": "resnet20", "width": 4, "norm": "group"}),
    "mlp": recipe(model={"name": "mlp", "width": 64, "depth": 2, "bias": True}),
    "transformer": recipe(
        data={"name": "modular", "p": 7}, model={"name": "transformer", "width": 32}
    ),
}


def network(of: Recipe) -> nn.Module:
    torch.manual_seed(0)
    images = of.data.kind == "image"
    return build(of.model, (1, 8, 8) if images else (3,), 7, 0 if images else 8)


def init(**fields: object) -> FixedRule | GammaRule:
    kind = GammaRule if fields.get("rule") == "gamma" else FixedRule
    return kind.model_validate({"rule": "kaiming", **fields})


@pytest.mark.parametrize("name", NETWORKS)
def test_torch_at_scale_1_is_the_identity(name: str) -> None:
    built, left_alone = network(NETWORKS[name]), network(NETWORKS[name])
    initialize(built, init(rule="torch"), seed=3)
    for (key, a), b in zip(
        built.state_dict().items(), left_alone.state_dict().values(), strict=True
    ):
        assert torch.equal(a, b), key


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("rule", ["kaiming", "lecun", "torch", "gamma"])
def test_every_tensor_has_the_asked_std(name: str, rule: str) -> None:
    built = network(NETWORKS[name])
    audit = initialize(built, init(rule=rule, scale=3.0, head=0.5), seed=1)
    assert {d.tensor for d in audit.drawn} | set(audit.untouched) == set(
        dict(built.named_parameters())
    )
    layers = dict(built.named_modules())
    for drawn in audit.drawn:
        layer = layers[drawn.tensor.removesuffix(".weight")]
        factor = 3.0 * (0.5 if drawn.group == "head" else 1.0)
        inputs = fan_in(layer)
        base = {
            "kaiming": math.sqrt((1 if drawn.group == "head" else 2) / inputs),
            "lecun": math.sqrt(1 / inputs),
            "gamma": inputs**-0.5,
            "torch": 1.0 if isinstance(layer, nn.Embedding) else math.sqrt(1 / (3 * inputs)),
        }[rule]
        assert drawn.asked_std == pytest.approx(factor * base)
        weight = built.get_parameter(drawn.tensor)
        assert drawn.measured_std == pytest.approx(weight.square().mean().sqrt().item(), rel=1e-5)
        off = SIGMAS / math.sqrt(2 * drawn.count) * 1.5
        assert drawn.measured_std == pytest.approx(drawn.asked_std, rel=off)


def test_gamma_is_a_power_of_fan_in() -> None:
    built = nn.Sequential()
    built.stem = nn.Linear(100, 400, bias=False)
    audit = initialize(built, init(rule="gamma", gamma=0.8), seed=0)
    assert audit.drawn[0].asked_std == pytest.approx(100**-0.8)


def test_scales_of_one_seed_have_the_same_noise_and_seeds_do_not() -> None:
    one, two, other = (network(NETWORKS["resnet9"]) for _ in range(3))
    initialize(one, init(scale=1.0), seed=5)
    initialize(two, init(scale=2.0), seed=5)
    initialize(other, init(scale=1.0), seed=6)
    a, b, c = (n.get_parameter("body.1.conv1.weight") for n in (one, two, other))
    assert torch.equal(2 * a, b)
    assert abs(torch.corrcoef(torch.stack([a.flatten(), c.flatten()]))[0, 1]) < 0.1


def test_biases_and_norms_are_left_alone_and_listed() -> None:
    built, before = network(NETWORKS["resnet9"]), network(NETWORKS["resnet9"])
    audit = initialize(built, init(scale=9.0), seed=0)
    assert "head.bias" in audit.untouched and "stem.1.weight" in audit.untouched
    for name in audit.untouched:
        assert torch.equal(built.get_parameter(name), before.get_parameter(name))


def test_tied_tensors_are_scaled_once() -> None:
    built = nn.Module()
    built.stem, built.head = nn.Embedding(50, 40), nn.Linear(40, 50, bias=False)
    built.head.weight = built.stem.weight
    audit = initialize(built, init(rule="torch", scale=4.0), seed=0)
    assert [d.tensor for d in audit.drawn] == ["stem.weight"]
    assert audit.drawn[0].measured_std == pytest.approx(4.0, rel=0.1)


def test_an_undone_request_is_an_error() -> None:
    built = nn.Module()
    built.stem = nn.Linear(50, 50, bias=False)
    frozen = built.stem.weight
    frozen.copy_ = lambda noise: frozen  # type: ignore[method-assign]  # a fault, on purpose
    with pytest.raises(RuntimeError, match=r"stem\.weight has std .* off by more than sampling"):
        initialize(built, init(scale=3.0), seed=0)


def test_groups() -> None:
    assert [group_of(n) for n in ("stem.0.weight", "body.2.x", "head.bias")] == [
        "stem",
        "body",
        "head",
    ]
