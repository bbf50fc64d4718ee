"""Modular arithmetic against brute force in Python's integers."""

from __future__ import annotations

import pytest
import torch

from initmem.data.arithmetic import modular
from initmem.study.token_data import Modular

P = 11


def answers(operation: str, a: int, b: int, c: int) -> bool:
    """Whether c is a op b mod P, by the definition of each operation."""
    return {
        "add": (a + b - c) % P == 0,
        "subtract": (a - b - c) % P == 0,
        "multiply": (a * b - c) % P == 0,
        "divide": (c * b - a) % P == 0,
    }[operation]


@pytest.mark.parametrize("operation", ["add", "subtract", "multiply", "divide"])
def test_all_pairs_once_each_with_its_answer(operation: str) -> None:
    section = Modular.model_validate(
        {"name": "modular", "p": P, "operation": operation, "train_fraction": 0.4}
    )
    data = modular(section)
    splits = (data.train, data.validation, data.test)
    assert tuple(len(split.targets) for split in splits) == section.sizes()
    inputs = torch.cat([split.inputs for split in splits]).tolist()
    targets = torch.cat([split.targets for split in splits]).tolist()
    first = 1 if operation == "divide" else 0
    pairs = [(a, b, P) for a in range(P) for b in range(first, P)]
    assert sorted(tuple(row) for row in inputs) == pairs
    for (a, b, _), c in zip(inputs, targets, strict=True):
        assert 0 <= c < P and answers(operation, a, b, c)


def test_what_a_transformer_needs_to_know() -> None:
    data = modular(Modular(name="modular", p=P))
    assert (data.kind, data.shape, data.classes, data.vocabulary) == ("tokens", (3,), P, P + 1)
    assert data.train.inputs.dtype == data.train.targets.dtype == torch.int64
    assert data.prepare(data.train.inputs) is data.train.inputs
    assert data.to("cpu").hash == data.hash


def test_the_split_follows_its_seed() -> None:
    first = modular(Modular(name="modular", p=P))
    assert first.hash == modular(Modular(name="modular", p=P)).hash
    other = modular(Modular(name="modular", p=P, split=1))
    assert first.hash != other.hash
    assert not torch.equal(first.train.inputs, other.train.inputs)
