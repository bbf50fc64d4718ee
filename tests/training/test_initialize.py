"""The init scale that is asked for is the one that is there."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from initmem.models import build
from initmem.study.init_section import FixedRule, GammaRule
from initmem.study.recipe import Recipe
from initmem.training.initialize import SIGMAS, fan_in, group_of, initialize, redraw
from tests.tiny import recipe

NETWORKS = {
    "resnet9": recipe(model={"name": "resnet9", "width": 8}),
    "resnet20": recipe(model={"name": "resnet20", "width": 4, "norm": "group"}),
    "mlp": recipe(model={"name": "mlp", "width": 64, "depth": 2, "bias": True}),
    "transformer": recipe(
        data={"name": "modular", "p": 7}, model={"name": "transformer", "width": 32}
    ),
    "gated": recipe(
        data={"name": "modular", "p": 7},
        model={"name": "transformer", "width": 32, "depth": 3, "gated": True, "head_width": 6},
    ),
    "vit": recipe(
        model={"name": "vit", "width": 32, "depth": 3, "gated": True, "head_width": 6, "patch": 2}
    ),
}
ATTENTIVE = pytest.mark.parametrize("of", ["gated", "vit"])
QUERIES_KEYS = 2 * 4 * 6
"""Rows of qkv of these two that are no values."""


def network(of: Recipe) -> nn.Module:
    torch.manual_seed(0)
    images = of.data.kind == "image"
    return build(of.model, (1, 8, 8) if images else (3,), 7, 0 if images else 8)


def init(**fields: object) -> FixedRule | GammaRule:
    kind = GammaRule if fields.get("rule") == "gamma" else FixedRule
    return kind.model_validate({"rule": "kaiming", **fields})


GAMMA = init(rule="gamma", gamma=0.8)


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
    audit = initialize(built, GAMMA, seed=0)
    assert audit.drawn[0].asked_std == pytest.approx(100**-0.8)
    of = {d.tensor: d.asked_std for d in initialize(network(NETWORKS["gated"]), GAMMA, 0).drawn}
    inputs = {"qkv": 32, "gate": 32, "out": 24, "up": 32, "down": 128}
    wanted = {f"body.{i}.{n}.weight": d for i in range(3) for n, d in inputs.items()}
    wanted |= {"stem.tokens.weight": 32, "stem.positions.weight": 32, "head.weight": 32}
    assert of == {name: pytest.approx(d**-0.8) for name, d in wanted.items()}


PARTS = [
    ("qk", {"qkv.weight": slice(QUERIES_KEYS)}),
    ("vo", {"qkv.weight": slice(QUERIES_KEYS, None), "gate.weight": slice(None),
            "out.weight": slice(None)}),
    ("mlp", {"up.weight": slice(None), "down.weight": slice(None)}),
]  # fmt: skip


@ATTENTIVE
@pytest.mark.parametrize("rule", ["kaiming", "lecun", "torch", "gamma"])
@pytest.mark.parametrize(("factor", "parts"), PARTS, ids=[factor for factor, _ in PARTS])
def test_a_factor_multiplies_its_part_and_nothing_else(
    factor: str, parts: dict[str, slice], rule: str, of: str
) -> None:
    one, two = network(NETWORKS[of]), network(NETWORKS[of])
    before = initialize(one, init(rule=rule), seed=5)
    after = initialize(two, init(rule=rule, **{factor: 2.0}), seed=5)
    for name, weight in one.named_parameters():
        rows = parts.get(name.partition(".")[2].partition(".")[2], slice(0))
        expected = weight.detach().clone()
        expected[rows] *= 2
        assert torch.equal(two.get_parameter(name), expected), name
    stds = {d.tensor: (d.asked_std, d.measured_std) for d in before.drawn}
    for drawn in after.drawn:
        if "[" not in drawn.tensor:
            times = 2 if drawn.tensor.partition(".")[2].partition(".")[2] in parts else 1
            wanted = tuple(times * std for std in stds[drawn.tensor])
            assert (drawn.asked_std, drawn.measured_std) == wanted


def test_parts_with_a_std_of_their_own_are_audited_apart() -> None:
    built = network(NETWORKS["gated"])
    audit = initialize(built, init(scale=3.0, qk=0.5, vo=2.0, body=0.1), seed=1)
    lines = {d.tensor: d for d in audit.drawn}
    qkv = built.get_parameter("body.0.qkv.weight").detach()
    parts = qkv.split([QUERIES_KEYS, QUERIES_KEYS // 2])
    for part, factor, rows in zip(("qk", "v"), (0.5, 2.0), parts, strict=True):
        line = lines[f"body.0.qkv.weight[{part}]"]
        assert (line.group, line.count) == ("body", rows.numel())
        assert line.asked_std == pytest.approx(0.3 * factor * math.sqrt(2 / 32))
        assert line.measured_std == pytest.approx(rows.square().mean().sqrt().item(), rel=1e-5)
    assert "body.0.qkv.weight" not in lines
    drawn = [n for n, _ in built.named_parameters() if n not in audit.untouched]
    assert sorted(audit.tensors) == sorted(drawn) and len(lines) == len(drawn) + 3
    together = initialize(network(NETWORKS["gated"]), init(qk=2.0, vo=2.0), seed=1)
    assert [d.tensor for d in together.drawn] == audit.tensors


@ATTENTIVE
@pytest.mark.parametrize("rule", ["gamma", "torch"])
def test_what_is_added_to_the_residual_is_divided_by_the_root_of_its_depth(
    rule: str, of: str
) -> None:
    plain, deep = network(NETWORKS[of]), network(NETWORKS[of])
    initialize(plain, init(rule=rule), seed=5)
    initialize(deep, init(rule=rule, residual="depth"), seed=5)
    for name, weight in plain.named_parameters():
        added = name.endswith(("out.weight", "down.weight"))
        expected = weight / math.sqrt(6) if added else weight
        torch.testing.assert_close(deep.get_parameter(name), expected, rtol=1e-6, atol=0)


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


@pytest.mark.parametrize("rule", ["torch", "kaiming"])
def test_tied_tensors_are_drawn_once(rule: str) -> None:
    fields = {"name": "transformer", "width": 32, "tied": True}
    of = recipe(data={"name": "modular", "p": 50, "equals": False}, model=fields)
    built = build(of.model, (2,), 50, 50)
    audit = initialize(built, init(rule=rule, scale=4.0, head=9.0), seed=0)
    tokens = next(d for d in audit.drawn if d.tensor == "stem.tokens.weight")
    assert built.head.weight is built.stem.tokens.weight
    assert "head.weight" not in [*audit.tensors, *audit.untouched]
    assert tokens.measured_std == pytest.approx(4.0 * (1 if rule == "torch" else 0.25), rel=0.1)


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


@pytest.mark.parametrize("kappa", [0.25, 4.0])
def test_kappa_moves_scale_between_early_layers_and_the_readout(kappa: float) -> None:
    of = recipe(model={"name": "mlp", "width": 64, "depth": 3})
    one, two = network(of), network(of)
    initialize(one, init(scale=2.0), seed=5)
    audit = initialize(two, init(scale=2.0, kappa=kappa), seed=5)
    for name, weight in one.named_parameters():
        factor = 1 / kappa if group_of(name) == "head" else kappa ** (1 / 3)
        torch.testing.assert_close(two.get_parameter(name), factor * weight)
        drawn = next(d for d in audit.drawn if d.tensor == name)
        base = math.sqrt((1 if group_of(name) == "head" else 2) / weight[0].numel())
        assert drawn.asked_std == pytest.approx(2.0 * factor * base)
    x_BCHW = torch.rand(5, 1, 8, 8)
    torch.testing.assert_close(two(x_BCHW), one(x_BCHW))


@pytest.mark.parametrize("name", ["resnet9", "gated", "vit"])
def test_kappa_holds_the_product_over_all_tensors(name: str) -> None:
    stds = [
        [d.asked_std for d in initialize(network(NETWORKS[name]), init(kappa=k), seed=0).drawn]
        for k in (1.0, 0.1)
    ]
    plain, early = (math.prod(of_all) for of_all in stds)
    assert early == pytest.approx(plain) and stds[1][-1] == pytest.approx(10 * stds[0][-1])


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("rule", ["kaiming", "gamma", "torch"])
def test_a_readout_is_redrawn_at_its_own_scale(name: str, rule: str) -> None:
    built, other = network(NETWORKS[name]), network(NETWORKS[name])
    initialize(built, init(rule=rule), seed=1)
    initialize(other, init(rule=rule, scale=9.0, head=5.0, kappa=3.0), seed=1)
    before = {key: value.clone() for key, value in built.state_dict().items()}
    audit = redraw(built, init(rule=rule), 1, 0.5)
    redraw(other, init(rule=rule, scale=9.0, head=5.0, kappa=3.0), 1, 0.5)
    for key, value in built.state_dict().items():
        if not key.startswith("head"):
            assert torch.equal(value, before[key])
    head, first = built.head.weight, before["head.weight"]
    assert torch.equal(head, other.head.weight), "nothing of the first initialization is in it"
    assert abs(torch.corrcoef(torch.stack([head.flatten(), first.flatten()]))[0, 1]) < 0.3
    [drawn] = audit.drawn
    assert (drawn.tensor, drawn.measured_std) == (
        "head.weight[redrawn]",
        pytest.approx(head.square().mean().sqrt().item(), rel=1e-5),
    )
    assert audit.tensors == ["head.weight"]
    assert drawn.asked_std == pytest.approx(0.5 * first.square().mean().sqrt().item(), rel=0.2)


def test_a_readout_of_zeros_is_one() -> None:
    built = network(NETWORKS["mlp"])
    initialize(built, init(), seed=1)
    audit = redraw(built, init(), 1, 0.0)
    assert not built.head.weight.any() and not built.head.bias.any()
    assert [(d.asked_std, d.measured_std) for d in audit.drawn] == [(0.0, 0.0)]
    assert audit.untouched == ["head.bias"]
