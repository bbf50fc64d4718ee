"""Disagreement between networks, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from initmem.memory.predictions import disagreement
from tests.memory.rows import Rows, rows


def cell(said: dict[tuple[float, int], list[int]]) -> Rows:
    made = rows(*((scale, seed, "interpolated", 90.0) for scale, seed in said))
    for row, classes in zip(made, said.values(), strict=True):
        row["selected.test_predictions"] = bytes(classes)
    return made


def test_what_values_add_to_what_seeds_differ_in() -> None:
    of = cell({(1.0, 0): [0, 0, 0, 0], (1.0, 1): [0, 0, 0, 1],
               (2.0, 0): [1, 1, 0, 0], (2.0, 1): [1, 1, 0, 1]})  # fmt: skip
    found = disagreement(of)
    assert found["function_within"] == 25.0
    assert found["function_memory"] == pytest.approx(75.0 - 25.0)


def test_equal_accuracy_hides_it_and_permutation_finds_it() -> None:
    rng = np.random.default_rng(0)
    base = {1.0: rng.integers(0, 9, 200), 2.0: rng.integers(0, 9, 200)}
    said = {}
    for scale in base:
        for seed in range(5):
            noisy = base[scale].copy()
            noisy[rng.integers(0, 200, 20)] = 9
            said[scale, seed] = noisy.tolist()
    found = disagreement(cell(said))
    assert found["function_memory"] > 50 and found["function_p"] < 0.1
    same = disagreement(cell({(a, s): said[1.0, s] for a in (1.0, 2.0) for s in range(5)}))
    assert same["function_memory"] == pytest.approx(0) and same["function_p"] > 0.5


def test_one_seed_says_nothing() -> None:
    found = disagreement(cell({(1.0, 0): [0, 1], (2.0, 0): [1, 1]}))
    assert all(map(math.isnan, found.values()))
