"""Shapes, registries and the structure that initialization relies on."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from initmem.models import BUILDERS, build
from initmem.study.recipe import variants
from initmem.training.initialize import group_of


def make(name: str, shape: tuple[int, ...], **fields: object) -> nn.Module:
    section = variants("model")[name].model_validate({"name": name, **fields})
    return build(section, shape, 5, 9 if len(shape) == 1 else 0)


def test_every_recipe_name_has_a_builder() -> None:
    assert set(BUILDERS) == set(variants("model"))


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_every_model_gives_logits_and_has_three_groups(name: str) -> None:
    tokens = variants("model")[name].kind == "tokens"  # type: ignore[attr-defined]  # each has one
    network = make(name, (3,) if tokens else (3, 16, 16), width=24)
    x = torch.zeros(2, 3, dtype=torch.int64) if tokens else torch.randn(2, 3, 16, 16)
    assert network(x).shape == (2, 5)
    groups = {group_of(n) for n, _ in network.named_parameters()}
    assert groups == ({"stem", "head"} if name == "mlp" else {"stem", "body", "head"})


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


def test_the_transformer_is_causal_and_reads_order() -> None:
    network = make("transformer", (4,), width=8, heads=2, depth=2)
    a = torch.tensor([[1, 2, 3, 4]])
    hidden = network.stem(a)
    before = network.body(hidden)[:, :2]
    hidden[:, 3] += 1.0
    torch.testing.assert_close(network.body(hidden)[:, :2], before)
    assert not torch.allclose(network(a), network(a.flip(1)))


@pytest.mark.parametrize(("norm", "kind"), [("layer", nn.LayerNorm), ("rms", nn.RMSNorm)])
def test_norms_of_transformers(norm: str, kind: type[nn.Module]) -> None:
    network = make("transformer", (3,), width=8, norm=norm, depth=2)
    assert sum(isinstance(m, kind) for m in network.modules()) == 5
