"""Shapes, registries and the structure that initialization relies on."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from initmem.models import BUILDERS, build
from initmem.models.taps import taps
from initmem.study.recipe import variants
from initmem.training.initialize import group_of
from initmem.training.random_labels import pooled

SMALL = {"width": 8, "heads": 2, "depth": 2}
VARIANTS = [
    {},
    {"norm": "none", "head_width": 3},
    {"norm_at": "post", "activation": "relu", "mlp": 5},
    {"norm": "rms", "gated": True, "positions": "none"},
]
"""Of the Transformer, and of the ViT."""


def make(name: str, shape: tuple[int, ...], answers: int = 1, **fields: object) -> nn.Module:
    torch.manual_seed(0)
    section = variants("model")[name].model_validate({"name": name, **fields})
    return build(section, shape, 5, 9 if len(shape) == 1 else 0, answers)


def sequences(length: int) -> torch.Tensor:
    """Nine of them: whatever holds for one of them may do so by chance."""
    return torch.randint(0, 9, (9, length))


def test_every_recipe_name_has_a_builder() -> None:
    assert set(BUILDERS) == set(variants("model"))


def test_a_diagonal_network_is_linear_in_its_inputs() -> None:
    network = make("diagonal", (3,))
    values = {"stem.plus": [1, 2, 3], "stem.minus": [1, 1, 0],
              "head.plus": [5, 0.5, 2], "head.minus": [2, 4, 7]}  # fmt: skip
    network.load_state_dict({n: torch.tensor(v, dtype=torch.float64) for n, v in values.items()})
    x_BD = torch.tensor([[1.0, 0.0, 0.0], [1.0, 10.0, 100.0]], dtype=torch.float64)
    assert network(x_BD).tolist() == [3, 3 - 30 + 600]
    assert {group_of(name) for name, _ in network.named_parameters()} == {"stem", "head"}


def test_a_two_layer_network_prefers_by_its_thresholds() -> None:
    network = make("two_layer", (2,), neurons=2, off=1, threshold=1.0, sign=-1, output=0.6)
    network.load_state_dict({"stem.weight": torch.tensor([[2.0, 0.0], [0.0, 3.0]]),
                             "body.weight": torch.tensor([[-1.0, 1.0]])})  # fmt: skip
    pairs_B2D = torch.tensor([[[1.0, 1.0], [0.0, 0.0]], [[0.2, 3.0], [-4.0, 0.1]]])
    differences = [-(1 + 2), -(8 + 1.8) + 3.1]
    torch.testing.assert_close(network(pairs_B2D), torch.tensor(differences))
    turned_DR = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    torch.testing.assert_close(network(pairs_B2D.flip(2), turned_DR), torch.tensor(differences))
    assert network.slope == pytest.approx(0.2)
    assert {group_of(name) for name, _ in network.named_parameters()} == {"stem", "body"}


@pytest.mark.parametrize("name", sorted(set(BUILDERS) - {"diagonal", "two_layer"}))
def test_every_model_gives_logits_and_has_three_groups(name: str) -> None:
    tokens = variants("model")[name].kind == "tokens"  # type: ignore[attr-defined]  # each has one
    network = make(name, (3,) if tokens else (3, 16, 16), width=24)
    x = torch.zeros(2, 3, dtype=torch.int64) if tokens else torch.randn(2, 3, 16, 16)
    assert network(x).shape == (2, 5)
    groups = {group_of(n) for n, _ in network.named_parameters()}
    assert groups == ({"stem", "head"} if name == "mlp" else {"stem", "body", "head"})


@pytest.mark.parametrize("name", sorted(set(BUILDERS) - {"diagonal", "two_layer"}))
def test_layers_are_modules_of_these_widths_in_order(name: str) -> None:
    section = variants("model")[name].model_validate({"name": name, "width": 24})
    tokens = variants("model")[name].kind == "tokens"  # type: ignore[attr-defined]  # each has one
    network = make(name, (3,) if tokens else (3, 16, 16), width=24)
    seen: dict[str, int] = {}
    for layer in section.layers():  # type: ignore[attr-defined]  # of a model
        network.get_submodule(layer).register_forward_hook(
            lambda _module, _inputs, y, layer=layer: seen.update({layer: pooled(y).shape[1]})
        )
    network(torch.zeros(2, 3, dtype=torch.int64) if tokens else torch.randn(2, 3, 16, 16))
    assert list(seen.items()) == list(section.layers().items())  # type: ignore[attr-defined]  # likewise
    assert list(seen.values())[-1] == network.get_submodule("head").weight.shape[1]


@pytest.mark.parametrize(
    ("name", "layers"), [("resnet20", 20), ("resnet56", 56), ("resnet110", 110)]
)
def test_depth_of_the_cifar_family(name: str, layers: int) -> None:
    network = make(name, (3, 32, 32), width=4)
    weighted = [m for m in network.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(weighted) == layers


def test_resnet20_has_the_published_size() -> None:
    """0.27 M parameters (arXiv 1512.03385, table 6)."""
    network = make("resnet20", (3, 32, 32))
    assert round(sum(p.numel() for p in network.parameters()) / 1e6, 2) == 0.27


def test_resnet18_has_the_published_layers_and_size() -> None:
    """18 layers and 11.2 M parameters (arXiv 1512.03385), beside the three 1x1 shortcuts."""
    network = make("resnet18", (3, 32, 32), width=64)
    weighted = [m for m in network.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(weighted) == 18 + 3
    assert round(sum(p.numel() for p in network.parameters()) / 1e6, 1) == 11.2
    assert network.body(network.stem(torch.randn(1, 3, 32, 32))).shape == (1, 512, 4, 4)


def test_resnet9_halves_twice_by_stride_or_average() -> None:
    for downsample in ("stride", "average"):
        network = make("resnet9", (1, 8, 8), width=4, downsample=downsample)
        features = network.body(network.stem(torch.randn(2, 1, 8, 8)))
        assert features.shape == (2, 32, 2, 2)
    strides = [m.stride[0] for m in network.modules() if isinstance(m, nn.Conv2d)]
    assert set(strides) == {1}


@pytest.mark.parametrize(("norm", "kind"), [("batch", nn.BatchNorm2d), ("group", nn.GroupNorm)])
def test_norms_of_resnets(norm: str, kind: type[nn.Module]) -> None:
    count = {n: sum(isinstance(m, kind) for m in make("resnet9", (1, 8, 8), norm=n).modules())
             for n in (norm, "none")}  # fmt: skip
    assert count == {norm: 7, "none": 0}


def test_a_subsampled_shortcut_is_the_strided_convolution() -> None:
    network = make("resnet9", (1, 8, 8), width=4)
    block = network.body[1]
    x = torch.randn(2, 8, 8, 8)
    weight = block.shortcut[1].weight
    torch.testing.assert_close(block.shortcut(x), nn.functional.conv2d(x, weight, stride=2))


def test_parameter_free_shortcuts_pad_with_zeros() -> None:
    network = make("resnet20", (3, 16, 16), width=4)
    block = network.body[3]
    x = torch.randn(2, 4, 16, 16)
    y = block.shortcut(x)
    assert torch.equal(y[:, :4], x[:, :, ::2, ::2]) and not y[:, 4:].any()


@pytest.mark.parametrize("fields", VARIANTS, ids=str)
def test_transformers_are_causal_and_read_order(fields: dict[str, object]) -> None:
    network = make("transformer", (4,), 4, **SMALL, **fields)
    a = sequences(4)
    b = a.clone()
    b[:, 3] = (a[:, 3] + 1) % 9
    assert network(a).shape == (9, 4, 5)
    assert torch.equal(network(a)[:, :3], network(b)[:, :3])
    assert not torch.isclose(network(a)[:, 3], network(b)[:, 3]).all(dim=1).any()
    network.answers = 1
    different = a[(a[:, 0] != a[:, 1])]
    swapped = different[:, [1, 0, 2, 3]]
    assert not torch.isclose(network(different), network(swapped)).all(dim=1).any()


def test_without_positions_a_layer_reads_order_through_causality_alone() -> None:
    """The last position sees all others, as a set; a second layer reads who saw whom."""
    a = sequences(4)
    for depth, blind in ((1, True), (2, False)):
        network = make("transformer", (4,), **{**SMALL, "depth": depth}, positions="none")
        same = torch.isclose(network(a), network(a[:, [1, 0, 2, 3]]), atol=1e-6).all(dim=1)
        assert same.all() == blind


@pytest.mark.parametrize("fields", VARIANTS, ids=str)
def test_answers_are_those_of_the_last_positions(fields: dict[str, object]) -> None:
    one, two = (make("transformer", (4,), n, **SMALL, **fields) for n in (1, 2))
    a = sequences(4)
    assert two(a).shape == (9, 2, 5) and one(a).shape == (9, 5)
    torch.testing.assert_close(two(a)[:, -1], one(a))
    torch.testing.assert_close(two(a)[:, 0], one(a[:, :3]))


def test_names_of_the_plain_transformer() -> None:
    block = ["norm1.weight", "norm1.bias", "qkv.weight", "out.weight",
             "norm2.weight", "norm2.bias", "up.weight", "down.weight"]  # fmt: skip
    names = [n for n, _ in make("transformer", (4,), **{**SMALL, "depth": 1}).named_parameters()]
    stem = ["stem.tokens.weight", "stem.positions.weight"]
    norm = ["body.1.weight", "body.1.bias"]
    assert names == [*stem, *(f"body.0.{n}" for n in block), *norm, "head.weight"]


def test_a_gate_multiplies_what_the_heads_give() -> None:
    gated = make("transformer", (4,), **SMALL, gated=True).body[0]
    x_BLD = torch.randn(2, 4, 8)
    gate_BLI = torch.sigmoid(x_BLD @ gated.gate.weight.T)
    nn.init.eye_(gated.out.weight)
    with_gate, gated.gate = gated.attend(x_BLD), None
    torch.testing.assert_close(with_gate, gated.attend(x_BLD) * gate_BLI)


def cut(x_BCHW: torch.Tensor) -> list[torch.Tensor]:
    """The four quarters of images of 8x8 pixels, row by row."""
    return [half for row in x_BCHW.split(4, 2) for half in row.split(4, 3)]


def glued(quarters: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([torch.cat(quarters[:2], 3), torch.cat(quarters[2:], 3)], 2)


@pytest.mark.parametrize("fields", VARIANTS, ids=str)
def test_patches_of_a_vit_move_with_their_positions(fields: dict[str, object]) -> None:
    network = make("vit", (3, 8, 8), **SMALL, **fields).double()
    x_BCHW, order = torch.randn(5, 3, 8, 8, dtype=torch.float64), [2, 0, 3, 1]
    moved_BCHW = glued([cut(x_BCHW)[place] for place in order])
    logits_BC = network(x_BCHW)
    stays = torch.isclose(network(moved_BCHW), logits_BC).all(dim=1)
    torch.testing.assert_close(network(x_BCHW.to(memory_format=torch.channels_last)), logits_BC)
    if fields.get("positions") == "none":
        assert stays.all()
        return
    assert not stays.any()
    positions_LD = network.stem.positions.weight
    positions_LD.data = positions_LD.data[order]
    torch.testing.assert_close(network(moved_BCHW), logits_BC)


def test_a_patch_is_embedded_by_its_own_pixels() -> None:
    network = make("vit", (3, 8, 8), **SMALL)
    x_BCHW = torch.randn(2, 3, 8, 8)
    weight_DP, places_LD = network.stem.patches.weight, network.stem.positions.weight
    for place, quarter in enumerate(cut(x_BCHW)):
        expected_BD = quarter.flatten(1) @ weight_DP.T + places_LD[place]
        torch.testing.assert_close(network.stem(x_BCHW)[:, place], expected_BD)


@pytest.mark.parametrize("fields", VARIANTS, ids=str)
def test_each_patch_of_a_vit_attends_to_all(fields: dict[str, object]) -> None:
    x_BLD = torch.randn(1, 4, 8)
    for name, sees in (("vit", torch.ones(4, 4)), ("transformer", torch.ones(4, 4).tril())):
        block = make(name, (4,) if name == "transformer" else (3, 8, 8), **SMALL, **fields).body[0]
        slopes_LDLD = torch.autograd.functional.jacobian(lambda x, b=block: b(x)[0], x_BLD)[
            :, :, 0
        ]
        assert torch.equal((slopes_LDLD.abs().sum((1, 3)) > 1e-9).float(), sees)


def test_a_vit_answers_from_the_mean_over_patches() -> None:
    network = make("vit", (3, 8, 8), **SMALL)
    seen: dict[str, torch.Tensor] = {}
    network.residual.register_forward_hook(lambda _tap, _x, h: seen.update(residual=h))
    logits_BC = network(torch.randn(2, 3, 8, 8))
    assert seen["residual"].shape == (2, 4, 8)
    mean_BD = network.body[-1](seen["residual"]).mean(1)
    torch.testing.assert_close(mean_BD @ network.head.weight.T, logits_BC)


def test_norms_after_are_of_the_residual() -> None:
    network = make("transformer", (4,), 4, **SMALL, norm_at="post", norm_eps=1e-9)
    residual_BLD = network.body(network.stem(sequences(4)))
    torch.testing.assert_close(residual_BLD.mean(-1), torch.zeros(9, 4), atol=1e-5, rtol=0)
    torch.testing.assert_close(residual_BLD.square().mean(-1), torch.ones(9, 4))


def test_what_taps_see() -> None:
    network = make("transformer", (4,), 2, **SMALL, activation="relu", mlp=6)
    seen: dict[str, torch.Tensor] = {}
    for site in ("pre", "post", "residual"):
        for name, tap in taps(network, site).items():
            tap.register_forward_hook(lambda _tap, _x, h, name=name: seen.update({name: h}))
    logits = network(sequences(4))
    layers = [f"body.{i}.hidden" for i in (0, 1)]
    assert list(taps(network, "last")) == ["body.1.hidden.pre"]
    assert set(seen) == {"residual", *(f"{n}.{site}" for n in layers for site in ("pre", "post"))}
    for name in layers:
        assert seen[f"{name}.pre"].shape == (9, 4, 6) and (seen[f"{name}.pre"] < 0).any()
        assert torch.equal(seen[f"{name}.post"], seen[f"{name}.pre"].relu())
    assert seen["residual"].shape == (9, 2, 8)
    torch.testing.assert_close(network.head(network.body[-1](seen["residual"])), logits)


def test_nanogpt_has_the_parameters_of_nanogpt() -> None:
    """10,646,784 is what nanoGPT says of vocabulary 65 and length 256: tokens, which also read
    out, blocks and gains of norms, without positions. Ours has these, positions, shifts of norms,
    and a readout of its own."""
    section = variants("model")["nanogpt"].model_validate({"name": "nanogpt"})
    network = build(section, (256,), 65, 65, answers=256)
    norms, width = 2 * 6 + 1, 384
    blocks = 6 * (4 * width**2 + 8 * width**2)
    assert 65 * width + blocks + norms * width == 10_646_784
    ours = 10_646_784 + 256 * width + norms * width + 65 * width
    assert sum(p.numel() for p in network.parameters()) == ours == 10_775_040


@pytest.mark.parametrize(("norm", "kind"), [("layer", nn.LayerNorm), ("rms", nn.RMSNorm)])
def test_norms_of_transformers(norm: str, kind: type[nn.Module]) -> None:
    for fields, count in (({}, 5), ({"norm_at": "post"}, 4)):
        network = make("transformer", (3,), **SMALL, norm=norm, norm_eps=1e-3, **fields)
        norms = [m for m in network.modules() if isinstance(m, kind)]
        assert [m.eps for m in norms] == [1e-3] * count
    default = make("transformer", (3,), **SMALL, norm=norm).body[0].norm1
    assert default.eps == kind(8).eps
