"""Arithmetic modulo p as a classification of sequences, computed and never read."""

from __future__ import annotations

import torch
from torch import Tensor

from initmem.data.dataset import Dataset, assemble_tokens, draw
from initmem.study.token_data import Modular


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
