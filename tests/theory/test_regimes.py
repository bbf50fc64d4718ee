"""The four regimes, by the values and names of the paper's own settings."""

from __future__ import annotations

import numpy as np
import pytest

from initmem.theory.diagonal import Init, dependence, order
from initmem.theory.regimes import REGIMES, corners, regime, regime_map

SETTINGS = [
    (Init(1e-3, 0, 0), 1.887, -0.886, "II"),
    (Init(1e-3, 0.99, 0), 1.963, -0.962, "II"),
    (Init(1e-3, -0.99, 0), 1.230, -0.230, "IV"),
    (Init(1e-3, -0.999999, 1e-6), 1.074, -0.074, "I"),
    (Init(1e-3, 0, 10), 2.000, -0.020, "III"),
    (Init(1.0, 0, 0), 1.974, -0.285, "III"),
]


@pytest.mark.parametrize(("init", "ell", "dep", "name"), SETTINGS)
def test_settings_of_the_paper(init: Init, ell: float, dep: float, name: str) -> None:
    found = order(1.0, init.finetuning_root(1.0)), dependence(1.0, 1.0, init)
    np.testing.assert_allclose(found, [ell, dep], atol=6e-4)
    assert regime(*found) == name
    assert name in REGIMES


def test_corners_weigh_the_point() -> None:
    weights = corners([1.0, 2.0, 2.0, 1.5], [0.0, -1.0, 0.0, -0.25])
    expected = [[1, 0, 0, 0.5], [0, 1, 0, 0.25], [0, 0, 1, 0.25]]
    np.testing.assert_array_equal(weights, expected)


def test_nothing_independent_of_pretraining_is_regime_four() -> None:
    names = regime(np.linspace(1, 2, 21), np.zeros(21)).tolist()
    assert names == ["I"] * 10 + ["III"] * 11


def test_map() -> None:
    found = regime_map(Init(1e-3), ("lam", [-0.99, 0.0]), ("gam", [0.0, 1.0, 10.0]))
    assert found.regime_YX[0, 0] == "IV" and found.regime_YX[1, 0] == "II"
    assert found.regime_YX[:, 2].tolist() == ["III", "III"]
    one = Init(1e-3, 0.0, 1.0)
    assert found.order_YX[1, 1] == order(1.0, one.finetuning_root(1.0))
    assert found.dependence_YX[1, 1] == dependence(1.0, 1.0, one)
