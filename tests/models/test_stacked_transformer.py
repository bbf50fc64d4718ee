"""The stacked Transformer against the module it restates, and one replica against others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from initmem.models import stacked_transformer
from initmem.models.stacked_transformer import Parameters, transformer
from initmem.models.transformer import Transformer
from initmem.study.model_section import Transformer as Section

VOCABULARY, LENGTH, CLASSES = 7, 3, 5
POST = {"norm_at": "post", "activation": "relu", "positions": "none"}
GATED = {"gated": True, "head_width": 3, "mlp": 11}
VARIANTS = [
    *({name: value} for name, value in {**POST, **GATED, "norm_eps": 0.1}.items()),
    {**POST, **GATED, "norm": "rms", "norm_eps": 0.1},
]


@pytest.fixture(autouse=True)
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """One thread, or as many as the test is parametrized with."""
    before = torch.get_num_threads()
    torch.set_num_threads(getattr(request, "param", 1))
    yield
    torch.set_num_threads(before)


def section(**fields: Any) -> dict[str, Any]:
    given = {"name": "transformer", "heads": 2, "width": 8, **fields}
    return Section.model_validate(given).model_dump()


def networks(R: int, fields: dict[str, Any]) -> list[Transformer]:
    torch.manual_seed(0)
    made = [Transformer(VOCABULARY, LENGTH, CLASSES, fields) for _ in range(R)]
    for network in made:
        for p in network.parameters():  # nothing at 0 or 1, as norms begin
            torch.nn.init.normal_(p, std=0.3)
    return made


def stacked(made: Sequence[Transformer]) -> Parameters:
    named = [dict(network.named_parameters()) for network in made]
    return {n: torch.stack([p[n].detach() for p in named]).requires_grad_() for n in named[0]}


def sequences(R: int, B: int) -> Tensor:
    """Half of them end in one token, half in any."""
    tokens_RBL = torch.randint(0, VOCABULARY, (R, B, LENGTH))
    tokens_RBL[:, : B // 2, -1] = VOCABULARY - 1
    return tokens_RBL


@pytest.mark.parametrize("B", [9, 40])
@pytest.mark.parametrize("R", [1, 2, 3])
@pytest.mark.parametrize("norm", ["none", "layer", "rms"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_logits_and_gradients_are_the_modules(depth: int, norm: str, R: int, B: int) -> None:
    assert stacked_transformer._tabled(VOCABULARY, LENGTH, B) == (B == 40)
    agree(section(depth=depth, norm=norm), R, B)


@pytest.mark.parametrize("B", [9, 40])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("fields", VARIANTS, ids=lambda f: "-".join(f))
def test_so_are_those_of_every_variant(fields: dict[str, Any], depth: int, B: int) -> None:
    agree(section(depth=depth, **fields), 2, B)


def agree(fields: dict[str, Any], R: int, B: int) -> None:
    made = [network.double() for network in networks(R, fields)]
    parameters, tokens_RBL = stacked(made), sequences(R, B)
    logits_RCB = transformer(parameters, tokens_RBL, fields)
    slopes_RCB = torch.randn_like(logits_RCB)
    gradients = torch.autograd.grad(logits_RCB, list(parameters.values()), slopes_RCB)
    for r, network in enumerate(made):
        logits_CB = network(tokens_RBL[r]).T
        expected = torch.autograd.grad(logits_CB, list(network.parameters()), slopes_RCB[r])
        assert_near(logits_RCB[r], logits_CB)
        for actual, wanted in zip(gradients, expected, strict=True):
            assert_near(actual[r], wanted)


def assert_near(actual: Tensor, expected: Tensor) -> None:
    assert actual.shape == expected.shape
    assert (actual - expected).abs().max() <= 1e-12 * expected.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("B", [9, 777])
@pytest.mark.parametrize(
    "given", [{"norm": "none"}, {"depth": 2}, {"depth": 2, **POST, **GATED}], ids=str
)
@pytest.mark.parametrize("threads", [1, 2], indirect=True)
def test_a_replica_has_the_same_bits_in_any_company(
    given: dict[str, Any], B: int, dtype: torch.dtype
) -> None:
    """A width, a batch and threads that leave remainders to vectorized loops."""
    fields = section(width=20, **given)
    parameters, tokens_RBL = stacked(networks(5, fields)), sequences(5, B)
    slopes_CB = torch.randn(CLASSES, B) / B

    def first(replicas: list[int], neighbours: float = 1.0) -> list[Tensor]:
        """What replica 0 gives among these, the others' parameters multiplied."""
        chosen = {n: p.detach()[replicas] for n, p in parameters.items()}
        at = replicas.index(0)
        for p in chosen.values():
            p[:at] *= neighbours
            p[at + 1 :] *= neighbours
            p.requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            logits_RCB = transformer(chosen, tokens_RBL[replicas], fields)
        logits_RCB.backward(slopes_CB.to(logits_RCB.dtype).expand_as(logits_RCB))
        gradients = [p.grad[at] for p in chosen.values() if p.grad is not None]
        return [logits_RCB[at].detach(), *gradients]

    alone = first([0])
    assert len(alone) == 1 + len(parameters)
    for company in (
        first([0, 1]),
        first([2, 0, 4]),
        first([3, 1, 2, 4, 0]),
        first([1, 0, 2], neighbours=float("nan")),
    ):
        assert all(torch.equal(a, b) for a, b in zip(alone, company, strict=True))


def test_bfloat16_is_near_float32() -> None:
    fields = section(width=32, norm="none", gated=True)
    made = networks(2, fields)
    tokens_RBL = sequences(2, 100)
    exact = transformer(stacked(made), tokens_RBL, fields)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = transformer(stacked(made), tokens_RBL, fields)
    assert rounded.dtype == torch.bfloat16
    assert (rounded - exact).abs().max() < 0.02 * exact.abs().max()
