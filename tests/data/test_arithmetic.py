"""Modular arithmetic and addition against brute force in Python's integers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from initmem.data.arithmetic import addition, modular
from initmem.data.dataset import Split
from initmem.study.token_data import Addition, Modular

P = 11


def answers(operation: str, a: int, b: int, c: int) -> bool:
    """Whether c is a op b mod P, by the definition of each operation."""
    if operation == "mixed":
        operation = "divide" if b % 2 else "subtract"
    return {
        "add": (a + b - c) % P == 0,
        "subtract": (a - b - c) % P == 0,
        "multiply": (a * b - c) % P == 0,
        "divide": (c * b - a) % P == 0,
    }[operation]


@pytest.mark.parametrize("equals", [True, False])
@pytest.mark.parametrize("operation", ["add", "subtract", "multiply", "divide", "mixed"])
def test_all_pairs_once_each_with_its_answer(operation: str, equals: bool) -> None:
    section = Modular.model_validate(
        {"name": "modular", "p": P, "operation": operation, "train_fraction": 0.4,
         "equals": equals}
    )  # fmt: skip
    data = modular(section)
    splits = (data.train, data.validation, data.test)
    assert tuple(len(split.targets) for split in splits) == section.sizes()
    inputs = torch.cat([split.inputs for split in splits]).tolist()
    targets = torch.cat([split.targets for split in splits]).tolist()
    first = 1 if operation == "divide" else 0
    pairs = [(a, b, *[P] * equals) for a in range(P) for b in range(first, P)]
    assert sorted(tuple(row) for row in inputs) == pairs
    for (a, b, *_), c in zip(inputs, targets, strict=True):
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


def sums(split: Split, section: Addition) -> list[tuple[int, int]]:
    """The pairs of numbers, each text checked character by character."""
    found = []
    for row, answer in zip(split.inputs.tolist(), split.targets.tolist(), strict=True):
        text = "".join("0123456789+="[token] for token in row)
        a, b = (int(number) for number in text[: text.index("=")].split("+"))
        c = f"{a + b:0{section.digits + 1}d}"
        if section.order == "reversed":
            c = c[::-1]
        assert f"{a:0{section.digits}d}+{b:0{section.digits}d}={c}"[:-1] == text
        assert answer == [int(digit) for digit in c]
        found.append((a, b))
    return found


@pytest.mark.parametrize(
    ("digits", "square", "sizes"),
    [(1, False, (60, 20, 20)), (1, True, (70, 20, 6)), (2, False, (50, 10, 10)),
     (2, True, (9000, 300, 300)), (3, True, (50, 10, 40)), (6, True, (90, 20, 20))],
)  # fmt: skip
@pytest.mark.parametrize("order", ["plain", "reversed"])
def test_sums(digits: int, square: bool, sizes: tuple[int, int, int], order: Any) -> None:
    train, validation, test = sizes
    section = Addition(name="addition", digits=digits, order=order, square=square, train=train,
                       validation=validation, test=test)  # fmt: skip
    data = addition(section)
    parts = [sums(split, section) for split in (data.train, data.validation, data.test)]
    assert tuple(len(part) for part in parts) == sizes
    pairs = [pair for part in parts for pair in part]
    assert len(set(pairs)) == len(pairs)
    middle = range(4 * 10**digits // 10, 6 * 10**digits // 10)
    if square:
        assert data.ood is not None and data.symmetric is None
        held = sums(data.ood, section)
        assert len(held) == len(set(held)) == min(test, len(middle) ** 2)
        assert all(a in middle and b in middle for a, b in held)
        assert not any(a in middle and b in middle for a, b in pairs)
    else:
        assert data.ood is None
    if digits == 1:  # all there are
        left = {(a, b) for a in range(10) for b in range(10)}
        assert set(pairs) == {(a, b) for a, b in left if not (square and {a, b} <= {4, 5})}


def test_pairs_are_drawn_from_all_there_are() -> None:
    """Also the first and the last hundredth, of numbers in the middle fifth and beside it."""
    section = Addition(name="addition", digits=6, square=True, train=20_000)
    numbers = torch.tensor(sums(addition(section).train, section)) // 10_000
    for one in numbers.unbind(1):
        counts = torch.bincount(one, minlength=100)
        assert len(counts) == 100 and counts.min() > 100 and counts.max() < 320


def test_the_seed_of_addition_draws_other_pairs() -> None:
    first, other = (Addition(name="addition", square=True, split=split) for split in (0, 1))
    one, two = addition(first), addition(other)
    assert one.hash == addition(first).hash and one.ood is not None and two.ood is not None
    for a, b in ((one.train, two.train), (one.test, two.test), (one.ood, two.ood)):
        shared = set(sums(a, first)) & set(sums(b, other))
        assert len(shared) < 0.1 * len(a.inputs)


def test_validation_digits_are_looked_at_apart() -> None:
    fields = {"name": "addition", "digits": 2, "train": 50, "validation": 10, "test": 10}
    for order, places in (("plain", [0, 1, 2]), ("reversed", [2, 1, 0])):
        groups = addition(Addition.model_validate({**fields, "order": order})).groups
        assert list(groups) == ["digit 1", "digit 2", "digit 3"]
        for group, place in zip(groups.values(), places, strict=True):
            assert group.shape == (10, 3) and group.dtype == torch.bool
            assert group.nonzero()[:, 1].tolist() == [place] * 10
