"""Arithmetic as sequences of tokens, modulo p or digit by digit; computed and never read."""

from __future__ import annotations

import torch
from torch import Tensor

from initmem.data.dataset import Dataset, Split, assemble_tokens, draw, sample
from initmem.study.token_data import Addition, Modular


def modular(data: Modular) -> Dataset:
    """Sequences (a, b, =), the token of `=` being p, with the class a op b mod p.

    All pairs a, b in 0 .. p-1; to divide, a times the inverse of b, which is never 0.
    """
    p = data.p
    a, b = torch.cartesian_prod(
        torch.arange(p), torch.arange(1 if data.operation == "divide" else 0, p)
    ).unbind(1)
    parts = [a, b, torch.full_like(a, p)] if data.equals else [a, b]
    answers = _answer(a, b, p, data.operation) % p
    splits = draw(torch.stack(parts, dim=1), answers, data.sizes(), data.split)
    return assemble_tokens(data, splits)


def _answer(a: Tensor, b: Tensor, p: int, operation: str) -> Tensor:
    if operation == "add":
        return a + b
    if operation == "subtract":
        return a - b
    if operation == "multiply":
        return a * b
    inverse = torch.tensor([0, *(pow(k, -1, p) for k in range(1, p))])
    if operation == "divide":
        return a * inverse[b]
    return torch.where(b % 2 == 1, a * inverse[b], a - b)


PLUS, EQUALS = 10, 11


def addition(data: Addition) -> Dataset:
    """Texts a+b=c without their last character, [N, 3 digits + 2], and the digits of c
    [N, digits + 1]; tokens 0 .. 9 are digits, then + and =.

    Pairs (a, b) are distinct. `ood`: with `square`, at most as many as the test set. Validation
    `groups` are the digits of c, 1 the most significant.
    """
    numbers = 10**data.digits
    middle = data.square * (numbers // 5)
    low, outer = 2 * (numbers // 5), numbers - middle
    drawn = sample(numbers**2 - middle**2, sum(data.sizes()), data.split, "split")
    # Pairs whose first number is no middle one, then those whose second is none.
    first, k = drawn < outer * numbers, drawn - outer * numbers
    a = torch.where(first, _past(drawn // numbers, low, middle), low + k // outer)
    b = torch.where(first, drawn % numbers, _past(k % outer, low, middle))
    inputs, targets = _text(a, b, data)
    splits = [
        Split(*part)
        for part in zip(inputs.split(data.sizes()), targets.split(data.sizes()), strict=True)
    ]
    ood = None
    if middle:
        square = sample(middle**2, min(data.test, middle**2), data.split, "ood")
        ood = Split(*_text(low + square // middle, low + square % middle, data))
    digit_T = torch.arange(data.answers())
    if data.order == "reversed":
        digit_T = digit_T.flip(0)
    groups = {
        f"digit {d + 1}": (digit_T == d).expand(data.validation, -1) for d in range(data.answers())
    }
    return assemble_tokens(data, splits, ood, groups=groups)


def _past(k: Tensor, low: int, middle: int) -> Tensor:
    """The k-th number that is none of the `middle` ones from `low` on."""
    return k + middle * (k >= low)


def _text(a: Tensor, b: Tensor, data: Addition) -> tuple[Tensor, Tensor]:
    c = _digits(a + b, data.answers())
    if data.order == "reversed":
        c = c.flip(1)
    plus, equals = torch.full((len(a), 1), PLUS), torch.full((len(a), 1), EQUALS)
    parts = [_digits(a, data.digits), plus, _digits(b, data.digits), equals, c[:, :-1]]
    return torch.cat(parts, dim=1), c


def _digits(numbers: Tensor, count: int) -> Tensor:
    return numbers[:, None] // 10 ** torch.arange(count - 1, -1, -1) % 10
