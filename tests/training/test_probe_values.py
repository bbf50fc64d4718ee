"""What each probe says, against cases that are known by hand."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from initmem.data.dataset import Split
from initmem.data.load import load
from initmem.study.recipe import Recipe
from initmem.training.probes import read
from initmem.training.probes.answers import groups
from initmem.training.probes.attention import first_share
from initmem.training.probes.curvature import hessian, top_eigenvalue, trace
from initmem.training.probes.hidden import radial_shares
from initmem.training.probes.looking import matrices
from initmem.training.probes.weights import (
    condensation,
    cosines,
    packed_cosines,
    ranks,
    singular_values,
)
from initmem.training.replica import Training
from tests.tiny import recipe

ALL_RANKS = ("effective_rank", "participation_ratio", "stable_rank")
MODULAR = {"name": "modular", "p": 7}
TOKENS = {"name": "token_mlp", "embedding": 4, "width": 8}


def begun(of: Recipe) -> Training:
    return Training(of, 0, load(of.data, Path("data")), torch.device("cpu"))


def values(training: Training) -> dict[tuple[str, str], float]:
    return {(r["quantity"], r["where"]): r["value"] for r in read(training)}


def rotated(s: list[float], rows: int, columns: int) -> Tensor:
    """A matrix with these singular values."""
    generator = torch.Generator().manual_seed(0)
    left, right = (
        torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64))[0]
        for n in (rows, columns)
    )
    return left[:, : len(s)] @ torch.tensor(s, dtype=torch.float64).diag() @ right[: len(s)]


def signs(count: int, stream: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(stream)
    return 2.0 * torch.randint(2, (count,), generator=generator) - 1


def test_radius() -> None:
    training = begun(recipe(model={"bias": True}, probes={"radius": True}))
    stem, head = training.network.stem, training.network.head
    with torch.no_grad():
        for parameter in training.network.parameters():
            parameter.zero_()
        stem.bias.fill_(3)
        head.weight[0, 0], head.weight[1, 1], head.bias[1] = 1, -2, 10
    # h = (3, ..., 3), logits = (3, 4, 0, ...), weights 1 and -2
    assert values(training) == {
        ("radius", "hidden.0.pre"): 3,
        ("weight_norm", "all"): pytest.approx(math.sqrt(5)),
        ("logit_norm", "validation"): pytest.approx(5),
    }


def test_radial_share_of_known_directions() -> None:
    torch.manual_seed(0)
    h, g = torch.randn(2, 1000, 1000)
    assert radial_shares(h, g).mean().item() == pytest.approx(1, abs=0.15)
    h, g = torch.randn(2, 20, 3, 50)
    unit = h / h.norm(dim=-1, keepdim=True)
    along, across = -2e-30 * h, g - (g * unit).sum(-1, keepdim=True) * unit
    torch.testing.assert_close(radial_shares(h, along), torch.full((60,), 50.0).double())
    assert radial_shares(h, across).max() < 1e-10
    torch.testing.assert_close(radial_shares(h, along + across * 0), radial_shares(9 * h, along))
    g[0], h[1, 0] = 0, 0
    assert radial_shares(h, g).shape == (56,), "where either is 0, there is no share"
    assert radial_shares(h, 0 * g).mean().isnan()


def test_radial_share_is_of_the_gradient_of_the_task() -> None:
    of = recipe(model={"depth": 1}, probes={"radial_share": True})
    training = begun(of)
    found, head = values(training), training.network.head.weight.detach().double()
    for batch, split in (("train", training.data.train), ("validation", training.data.validation)):
        h = (training.prepared(split.inputs).flatten(1) @ training.network.stem.weight.T).double()
        errors = (h.relu() @ head.T).softmax(1) - torch.eye(10)[split.targets]
        expected = radial_shares(h.detach(), (errors @ head * (h > 0)).detach()).mean().item()
        assert found["radial_share", f"hidden.0.pre/{batch}"] == pytest.approx(expected, rel=1e-4)
    common: dict[str, Any] = {"data": MODULAR, "model": TOKENS, "probes": {"radial_share": True},
                              "optim": {"batch": 8}}  # fmt: skip
    with_penalty = begun(recipe(**common, penalty={"name": "radial", "strength": 5.0}))
    assert values(with_penalty) == values(begun(recipe(**common)))
    with torch.no_grad():
        training.network.head.weight.zero_()
    assert all(math.isnan(share) for share in values(training).values())


@pytest.mark.parametrize(
    ("s", "expected"),
    [
        ([2.0, 2.0, 2.0], [3, 3, 3]),
        ([5.0], [1, 1, 1]),
        ([3.0, 1.0, 0.0], [4 / 3**0.75, 1.6, 10 / 9]),
    ],
)
def test_ranks_of_known_singular_values(s: list[float], expected: list[float]) -> None:
    found = singular_values(rotated(s, 6, 4))
    assert found[: len(s)].tolist() == pytest.approx(s, abs=1e-12)
    assert list(ranks(found)) == list(ALL_RANKS)
    assert list(ranks(found).values()) == pytest.approx(expected)
    assert all(math.isnan(rank) for rank in ranks(0 * found).values())
    assert singular_values(torch.tensor([[1.0, math.nan]])).isnan().tolist() == [True]


def test_rank_of_weights_and_of_hidden_vectors() -> None:
    training = begun(recipe(data=MODULAR, model=TOKENS, optim={"batch": 8}, probes={"rank": True}))
    with torch.no_grad():
        training.network.stem.weight.fill_(1)  # all inputs are the same
        training.network.body[1].weight.copy_(rotated([3, 1], 8, 8))
    found = values(training)
    assert found["effective_rank", "stem.weight"] == pytest.approx(1)
    assert found["stable_rank", "body.1.weight"] == pytest.approx(10 / 9)
    assert found["participation_ratio", "body.1.weight"] == pytest.approx(1.6, rel=1e-5)
    assert found["effective_rank", "hidden.1.pre"] == pytest.approx(1, abs=1e-4)
    layers = ["stem.weight", "body.0.weight", "body.1.weight", "head.weight"]
    assert list(found) == [
        *((rank, name) for name in layers for rank in ALL_RANKS),
        *(("effective_rank", f"hidden.{layer}.pre") for layer in (0, 1)),
    ]


def test_kernels_are_flattened_and_a_fused_qkv_is_three() -> None:
    found = matrices(nn.Sequential(nn.Conv2d(2, 5, 3), nn.BatchNorm2d(5)))
    assert {name: tuple(matrix.shape) for name, matrix in found.items()} == {"0.weight": (5, 18)}
    of = recipe(data=MODULAR, model={"name": "transformer", "width": 8}, optim={"batch": 8})
    network = begun(of).network
    found, qkv = matrices(network), network.body[0].qkv.weight
    for place, part in enumerate("qkv"):
        assert torch.equal(found[f"body.0.qkv.weight/{part}"], qkv[8 * place : 8 * place + 8])
    whole = np.frombuffer(packed_cosines(network), np.int8).reshape(8, 8)
    queries = cosines(found["body.0.qkv.weight/q"])
    assert np.array_equal(whole, np.rint(100 * queries.numpy()))


def network_of(rows: list[list[float]]) -> nn.Module:
    layer = nn.Linear(len(rows[0]), len(rows), bias=False)
    layer.weight = nn.Parameter(torch.tensor(rows))
    return nn.Sequential(nn.Embedding(3, 2), layer)


@pytest.mark.parametrize(
    ("rows", "mean", "share"),
    [
        ([[1, 0], [5, 5], [-2, 0], [0, 0]], (1 + math.sqrt(2)) / 3, 1),
        ([[1, 0], [0, 1], [3, 4]], 1.4 / 3, 1 / 3),
        ([[0, 0], [1, 1]], math.nan, math.nan),
        ([[math.nan, 1], [1, 1]], math.nan, math.nan),
    ],
)
def test_condensation(rows: list[list[float]], mean: float, share: float) -> None:
    rows = [[float(x) for x in row] for row in rows]
    found: Any = condensation(SimpleNamespace(network=network_of(rows)))  # type: ignore[arg-type]  # all it reads
    assert found["mean_abs_cosine", "1.weight"] == pytest.approx(mean, nan_ok=True)
    assert found["share_alike", "1.weight"] == pytest.approx(share, nan_ok=True)


def test_packed_cosines() -> None:
    packed = packed_cosines(network_of([[1.0, 0.0], [1.0, 1.0], [0.0, -2.0], [0.0, 0.0]]))
    assert np.frombuffer(packed, np.int8).reshape(4, 4).tolist() == [
        [100, 71, 0, 0],
        [71, 100, -71, 0],
        [0, -71, 100, 0],
        [0, 0, 0, 0],
    ]
    assert len(packed_cosines(network_of([[1.0, float(k)] for k in range(65)]))) == 64 * 64


def test_hessian_of_a_linear_softmax_regression() -> None:
    """H = mean over examples of (diag(p) - p p^T) x (x x^T), by Kronecker."""
    torch.manual_seed(0)
    x, network = torch.randn(700, 3), nn.Linear(3, 4, bias=False)
    split = Split(x, torch.randint(4, (700,)))
    training: Any = SimpleNamespace(
        network=network, data=SimpleNamespace(train=split), prepared=lambda x: x, seed=1
    )
    found = hessian(training)
    x, targets = x[:512].double(), split.targets[:512]
    logits = x @ network.weight.detach().double().T
    p = logits.softmax(1)
    spread = p.diag_embed() - p[:, :, None] * p[:, None, :]
    H = sum(torch.kron(a, torch.outer(b, b)) for a, b in zip(spread, x, strict=True)) / 512
    loss = -logits.log_softmax(1)[range(512), targets].mean().item()
    assert found["loss", "train"] == pytest.approx(loss)
    top = torch.linalg.eigvalsh(H)[-1].item()
    assert found["top_eigenvalue", "train"] == pytest.approx(top, rel=1e-4)
    error = found["trace_error", "train"]
    variance = 2 * (H.square().sum() - H.diag().square().sum())  # of v^T H v for random signs
    assert error == pytest.approx(math.sqrt(variance / 40), rel=0.4)
    assert abs(found["trace", "train"] - H.trace().item()) < 3 * error
    assert hessian(training) == found and network.weight.grad is None


def test_trace_of_matrices_known_by_hand() -> None:
    diagonal = torch.tensor([1.0, -4.0, 9.0])
    assert trace(lambda v: diagonal * v, (signs(3, k) for k in range(5))) == (6, 0)
    # v^T A v = 2 v_1 v_2 is 2 or -2
    value, error = trace(lambda v: v.flip(0), [torch.tensor([1.0, s]) for s in (1, 1, 1, -1)])
    assert value == 1 and error == pytest.approx(1)


def test_the_top_eigenvalue_is_the_largest_by_its_value() -> None:
    spectrum = torch.tensor([-9.0, 0.0, 1.0, 1.5, *[0.5] * 60])
    assert top_eigenvalue(lambda v: spectrum * v, signs(64)) == pytest.approx(1.5, rel=1e-5)
    assert top_eigenvalue(lambda v: spectrum[:2] * v, signs(2)) == pytest.approx(0, abs=1e-6)
    assert top_eigenvalue(lambda v: 0 * v, signs(64)) == 0
    assert math.isnan(top_eigenvalue(lambda v: math.inf * v, signs(64)))
    two = torch.tensor([3.0, 0.0]).repeat(32)  # where Lanczos ends, and draws a new vector
    assert len({top_eigenvalue(lambda v: two * v, signs(64)) for _ in range(5)}) == 1
    dense = torch.linspace(0, 1, 3000) ** 0.1
    assert math.isnan(top_eigenvalue(lambda v: dense * v, signs(3000), restarts=1))


def test_sink() -> None:
    model = {"name": "transformer", "width": 8, "depth": 2, "heads": 2}
    training = begun(recipe(data=MODULAR, model=model, optim={"batch": 8}, probes={"sink": True}))
    with torch.no_grad():
        training.network.body[1].qkv.weight[:8] = 0  # queries: attention is uniform
    found = values(training)
    assert list(found) == [("share", "body.0"), ("share", "body.1")]
    assert found["share", "body.1"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert found["share", "body.0"] != pytest.approx(5 / 12)


def test_share_of_the_first_position_by_hand() -> None:
    """Two heads of width 4, whose scores of the second position are ln 3 and 0, and 0 and 0."""
    query, key = torch.zeros(1, 2, 2, 4), torch.zeros(1, 2, 2, 4)  # [B, L, H, K]
    query[0, 1, 0], key[0, 0, 0] = 1, math.log(3) / 2  # 4 * ln 3 / 2 / sqrt(4)
    qkv = torch.cat([part.flatten(2) for part in (query, key, torch.ones_like(key))], dim=2)
    assert first_share(qkv, heads=2).item() == pytest.approx((3 / 4 + 1 / 2) / 2)


def test_groups() -> None:
    targets = torch.tensor([[0, 1], [1, 1]])
    logits = torch.tensor([[[3.0, 1.0], [0.0, 0.0]], [[2.0, 0.0], [0.0, 5.0]]])
    data = SimpleNamespace(validation=Split(torch.arange(2), targets), groups={})
    training: Any = SimpleNamespace(data=data, forward=lambda inputs: logits[inputs])

    def loss(*gaps: float) -> float:
        """Of the right logits over the wrong ones."""
        return sum(math.log1p(math.exp(-gap)) for gap in gaps) / len(gaps)

    assert groups(training) == pytest.approx(
        {("loss", "all"): loss(2, 0, -2, 5), ("accuracy", "all"): 50}
    )
    data.groups = {
        "first": torch.tensor([[True, False], [True, False]]),
        "last": torch.tensor([[False, False], [False, True]]),
        "none": torch.zeros(2, 2, dtype=torch.bool),
    }
    found = groups(training)
    assert [found["loss", name] for name in ("first", "last")] == pytest.approx(
        [loss(2, -2), loss(5)]
    )
    assert [found["accuracy", name] for name in ("first", "last")] == [50, 100]
    assert math.isnan(found["loss", "none"]) and math.isnan(found["accuracy", "none"])
