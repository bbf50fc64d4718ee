"""Memory of the function: networks can agree in accuracy and differ in what they say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from initmem.memory.measures import TRAINED
from initmem.memory.paired import Array

PREDICTIONS = "selected.test_predictions"
RESAMPLES = 999


def disagreement(
    rows: Iterable[Mapping[str, Any]],
    predictions: str = PREDICTIONS,
    states: tuple[str, ...] = TRAINED,
) -> dict[str, float]:
    """How much more the predicted classes of a cell's networks differ between values of the
    memory axis than between seeds at one value.

    Both are percents of the test examples, averaged over pairs of networks with different seeds,
    so that only the value tells the two kinds of pair apart. Returns function_within: between
    seeds at one value; function_memory: what different values add to it; function_p: of a
    permutation of values within seeds (nothing is remembered: values are names only). nan where
    a kind of pair is missing.
    """
    networks = [
        (row[row["memory_axis"]], row["seed"], np.frombuffer(row[predictions], np.uint8))
        for row in rows
        if row["state"] in states and row[predictions]
    ]
    value_N = np.array([value for value, _, _ in networks])
    seed_N = np.array([seed for _, seed, _ in networks])
    said_NE = np.array([said for _, _, said in networks])
    nothing = {"function_within": np.nan, "function_memory": np.nan, "function_p": np.nan}
    if len(set(value_N)) < 2 or len(set(seed_N)) < 2:
        return nothing
    differ_NN = np.array([100 * (said_NE != one).mean(axis=1) for one in said_NE])
    within, added = _added(differ_NN, value_N, seed_N)
    if not np.isfinite(added):
        return nothing
    rng = np.random.default_rng(0)
    shuffled = [_added(differ_NN, _within_seeds(value_N, seed_N, rng), seed_N)[1]
                for _ in range(RESAMPLES)]  # fmt: skip
    p = (1 + np.sum(np.array(shuffled) >= added - 1e-9)) / (1 + RESAMPLES)
    return {"function_within": within, "function_memory": added, "function_p": float(p)}


def _added(differ_NN: Array, value_N: Any, seed_N: Any) -> tuple[float, float]:
    other_seed = seed_N[:, None] != seed_N[None, :]
    same_value = value_N[:, None] == value_N[None, :]
    within, between = differ_NN[other_seed & same_value], differ_NN[other_seed & ~same_value]
    if not len(within) or not len(between):
        return np.nan, np.nan
    return float(within.mean()), float(between.mean() - within.mean())


def _within_seeds(value_N: Any, seed_N: Any, rng: np.random.Generator) -> Any:
    shuffled = value_N.copy()
    for seed in set(seed_N.tolist()):
        shuffled[seed_N == seed] = rng.permutation(value_N[seed_N == seed])
    return shuffled
