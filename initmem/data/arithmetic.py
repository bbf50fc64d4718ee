"""Arithmetic modulo p as a classification of sequences, computed and never read."""

from __future__ import annotations

import torch

from initmem.data.dataset import Dataset, assemble, draw
from initmem.study.data_section import Modular


def modular(data: Modular) -> Dataset:
    """Sequences (a, b, =), the token of `=` being p, with the class a op b mod p.

    All pairs a, b in 0 .. p-1; to divide, a times the inverse of b, which is never 0.
    """
    p = data.p
    a, b = torch.cartesian_prod(
        torch.arange(p), torch.arange(1 if data.operation == "divide" else 0, p)
    ).unbind(1)
    if data.operation == "add":
        answer = a + b
    elif data.operation == "subtract":
        answer = a - b
    elif data.operation == "multiply":
        answer = a * b
    else:
        answer = a * torch.tensor([0, *(pow(k, -1, p) for k in range(1, p))])[b]
    sequences = torch.stack([a, b, torch.full_like(a, p)], dim=1)
    train, validation, test = draw(sequences, answer % p, data.sizes(), data.split)
    return assemble("tokens", p, p + 1, train, validation, test)
