"""The sizes told before a study starts, against the networks and files they are about."""

from __future__ import annotations

import base64
import io
import zlib
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from initmem.models import build
from initmem.study import size
from initmem.study.data_section import IMAGES
from initmem.study.objective_section import Probes
from initmem.study.random_labels_section import Heads
from initmem.study.recipe import Recipe, variants
from initmem.study.token_data import Modular
from initmem.training.checkpoint import pack
from initmem.training.random_labels import RandomLabels
from tests.diagonal import DESCENT, EXACT, diagonal
from tests.pairs import planted

MODELS = [
    *({"name": "resnet9", "width": 4, "norm": norm} for norm in ("none", "batch", "group")),
    *({"name": f"resnet{n}", "width": 4, "norm": "batch"} for n in (20, 56, 110)),
    {"name": "resnet18", "width": 4, "norm": "group"},
    {"name": "resnet20", "width": 6, "norm": "none", "downsample": "average"},
    {"name": "mlp", "width": 16, "depth": 1},
    {"name": "mlp", "width": 16, "depth": 3, "bias": True},
    *(
        {"name": "transformer", "width": 16, "depth": 2, "norm": n}
        for n in ("none", "layer", "rms")
    ),
    {"name": "transformer", "width": 16, "norm_at": "post", "norm": "rms", "mlp": 5},
    {"name": "transformer", "width": 16, "gated": True, "head_width": 3, "positions": "none"},
    {"name": "transformer", "width": 16, "tied": True},
    {"name": "nanogpt", "width": 12},
    {"name": "vit", "width": 16, "patch": 2},
    {"name": "vit", "width": 16, "gated": True, "head_width": 3, "positions": "none"},
    {"name": "vit", "width": 16, "norm_at": "post", "norm": "rms", "mlp": 5},
    {"name": "token_mlp", "width": 16, "depth": 1, "embedding": 3},
    {"name": "token_mlp", "width": 16, "depth": 3, "bias": False},
]


def _recipe(model: dict[str, Any], data: str = "digits", optim: str = "sgd") -> Recipe:
    tokens = variants("model")[model["name"]].kind == "tokens"  # type: ignore[attr-defined]  # each has one
    modular = {"name": "modular", "p": 11, "equals": not model.get("tied")}
    return Recipe.model_validate(
        {
            "data": modular if tokens else {"name": data},
            "model": model,
            "init": {"rule": "kaiming"},
            "optim": {"name": optim, "lr": 0.1, "steps": 1000, "batch": 32},
            "eval_every": 100,
        }
    )


def _network(recipe: Recipe) -> torch.nn.Module:
    if isinstance(recipe.data, Modular):
        length, vocabulary, classes = recipe.data.shape()
        return build(recipe.model, (length,), classes, vocabulary)
    shape, classes = IMAGES[recipe.data.name], len(recipe.data.labels())
    return build(recipe.model, shape, classes, 0)


@pytest.mark.parametrize("model", MODELS, ids=lambda m: "-".join(str(v) for v in m.values()))
def test_parameters_are_the_networks(model: dict[str, Any]) -> None:
    recipe = _recipe(model)
    tensors = list(_network(recipe).parameters())
    assert sorted(n for _, n in size.tensors(recipe)) == sorted(t.numel() for t in tensors)
    assert size.parameters(recipe) == sum(t.numel() for t in tensors)


@pytest.mark.parametrize(
    ("model", "data"),
    [
        ({"name": "resnet9", "width": 8}, "digits"),
        ({"name": "resnet9", "width": 16}, "cifar10"),
        ({"name": "resnet56", "width": 16}, "cifar10"),
        ({"name": "mlp", "width": 64, "depth": 3}, "fashion_mnist"),
        ({"name": "transformer", "width": 64}, "modular"),
        ({"name": "transformer", "width": 64, "gated": True, "mlp": 32}, "modular"),
        ({"name": "token_mlp"}, "modular"),
        ({"name": "vit", "width": 32}, "cifar100"),
        ({"name": "vit", "width": 16, "depth": 1, "patch": 1, "mlp": 8}, "digits"),
    ],
)
def test_operations_are_about_those_of_the_network(model: dict[str, Any], data: str) -> None:
    """Within a third: who trains alone is a matter of a size, not of a tenth of it."""
    recipe = _recipe(model, data)
    tokens = recipe.data.name == "modular"
    shape = (3,) if tokens else IMAGES[data]
    inputs = torch.zeros(recipe.batch, *shape, dtype=torch.int64 if tokens else torch.float32)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        _network(recipe)(inputs).sum().backward()
    assert 0.67 < size.operations(recipe) / counter.get_total_flops() < 1.5


@pytest.mark.parametrize("data", list(IMAGES))
@pytest.mark.parametrize("name", ["resnet9", "resnet18", "resnet20", "mlp", "vit"])
def test_parameters_for_every_data_set(name: str, data: str) -> None:
    recipe = _recipe({"name": name, "width": 4}, data)
    assert size.parameters(recipe) == sum(t.numel() for t in _network(recipe).parameters())


@pytest.mark.parametrize("optim", sorted(set(size.SLOTS) - {"exact", "online_sgd"}))
def test_a_checkpoint_is_about_as_large_as_told(optim: str) -> None:
    recipe = _recipe({"name": "resnet9", "width": 8}, optim=optim)
    network = _network(recipe)
    weights = dict(network.named_parameters())
    slots = {
        f"{name}.{i}": tensor
        for name, tensor in weights.items()
        for i in range(1 if optim == "muon" and tensor.ndim > 1 else size.SLOTS[optim])
    }
    file = io.BytesIO()
    copies = {i: {k: v.detach().clone() for k, v in weights.items()} for i in range(2)}
    torch.save([copies, {k: v.detach().clone() for k, v in slots.items()}], file)
    assert size.checkpoint_bytes(recipe) == pytest.approx(len(file.getvalue()), rel=0.1)


def test_a_record_grows_with_test_set_evaluations_and_tensors() -> None:
    small = _recipe({"name": "resnet9", "width": 8})
    assert 5_000 < size.row_bytes(small) < 10_000
    more = small.model_copy(update={"eval_every": 10})
    assert size.row_bytes(more) - size.row_bytes(small) == 90 * size.EVALUATION_BYTES
    probed = small.model_copy(update={"probes": Probes(radius=True, condensation=True, every=200)})
    assert size.readings(probed) == (6, 2 + 2 * 11)
    apart = size.row_bytes(probed) - size.row_bytes(small)
    assert apart == 6 * 24 * size.READING_BYTES + size.COSINES_BYTES
    assert size.checkpoint_bytes(probed) > size.checkpoint_bytes(small) + 5_000
    assert size.row_bytes(_recipe({"name": "resnet9", "width": 8}, "cifar10")) > 15_000
    assert size.row_bytes(_recipe({"name": "resnet110"})) > size.row_bytes(small) + 20_000


@pytest.mark.parametrize("standardize", [True, False])
def test_random_label_heads_count(standardize: bool) -> None:
    plain = _recipe({"name": "resnet9", "width": 8})
    heads = Heads(name="heads", at="stem,body.2", n=50, standardize=standardize, confidence=True)
    recipe = plain.model_copy(update={"random_labels": heads})
    assert size.readings(recipe) == (11, 2 * 5)
    kept = size.row_bytes(recipe) - size.row_bytes(plain) - 110 * size.READING_BYTES
    p_KN = torch.rand(2, 500).half().numpy().tobytes()
    assert kept == pytest.approx(len(base64.b64encode(zlib.compress(p_KN))), rel=0.1)
    layers = recipe.model.layers()
    labels = RandomLabels(heads, layers, _network(recipe), 500, 0)
    for name in labels.names:
        labels.seen[name] = torch.rand(32, layers[name])
    labels.learn(torch.arange(32))
    told = size.checkpoint_bytes(recipe) - size.checkpoint_bytes(plain)
    told -= 110 * size.PACKED_READING_BYTES
    assert told == pytest.approx(len(pack(labels.state())), rel=0.1)


@pytest.mark.parametrize("optim", [EXACT, DESCENT])
def test_of_a_diagonal_network(optim: dict[str, object]) -> None:
    recipe = diagonal(optim)
    network = build(recipe.model, (16,), 1, 0)
    assert size.parameters(recipe) == sum(p.numel() for p in network.parameters()) == 64
    exact = size.NEWTON * 4**2 * 16
    assert size.operations(recipe) == (exact if optim is EXACT else 6 * 4 * 16)
    large = recipe.model_copy(update={"data": recipe.data.model_copy(update={"d": 1000})})
    states = [build(recipe.model, (1000,), 1, 0).state_dict() for _ in range(2)]
    content = pack({"network": states[0], "best": states[1]})
    assert size.checkpoint_bytes(large) == pytest.approx(len(content), rel=0.1)
    assert size.row_bytes(large) < 10_000


def test_of_planted_features() -> None:
    recipe = planted(model={"neurons": 20, "off": 5}, d=300)
    network = build(recipe.model, (300,), 2, 0)
    assert size.parameters(recipe) == sum(p.numel() for p in network.parameters()) == 7500
    inputs = torch.zeros(recipe.batch, 2, 300)
    with FlopCounterMode(display=False) as counter:
        network(inputs).sum().backward()
    assert size.operations(recipe) == counter.get_total_flops()
    assert size.readings(recipe) == (41, 4)
    content = pack(
        {"network": network.state_dict(), "best": build(recipe.model, (300,), 2, 0).state_dict()}
    )
    readings = 4 * 41 * size.PACKED_READING_BYTES
    assert size.checkpoint_bytes(recipe) - readings == pytest.approx(len(content), rel=0.1)
