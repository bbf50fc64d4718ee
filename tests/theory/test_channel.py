"""One coordinate: the proximal map, and averages over it against plain sums over z."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss

from initmem.theory.channel import Averages, Mixture, averages, law, prox
from initmem.theory.diagonal import penalty_slope


@pytest.mark.parametrize("root", [1e-300, 1e-6, 1.0, 1e9])
@pytest.mark.parametrize("g", [1e-8, 0.3, 1e4])
def test_prox_solves_its_equation(g: float, root: float) -> None:
    z = np.array([-50.0, -1e-9, 0.0, 1e-3, 2.0])
    x = prox(z, g, root)
    np.testing.assert_allclose(x + g * penalty_slope(x, root), z, rtol=1e-9)
    assert (np.abs(x) <= np.abs(z)).all() and (x * z >= 0).all()


def test_prox_thresholds_softly_where_the_penalty_is_l1() -> None:
    root, threshold = 1e-200, 0.5
    g = threshold / (np.log(4 * 2.0 / root) / 2)
    np.testing.assert_allclose(prox([2.5, 0.4], g, root), [2.0, 0.0], atol=1e-12)


def plain(mixture: Mixture, s2: float, g: float) -> Averages:
    """By 40,001 points of z, each solved."""
    t = np.linspace(-9, 9, 40_001)
    weight = np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi) * (t[1] - t[0])
    total = np.zeros(3)
    for mass, mean, variance, root in zip(*vars(mixture).values(), strict=True):
        sd = np.sqrt(variance + s2)
        z = mean + sd * t
        slope, up, down = (
            np.gradient(prox(z, g * by, root), z) for by in (1, np.exp(1e-4), np.exp(-1e-4))
        )
        believed = mean + variance / sd**2 * (z - mean)
        square = (believed - prox(z, g, root)) ** 2 + variance * s2 / sd**2
        total += mass * np.array([weight @ v for v in (slope, (up - down) / 2e-4, square)])
    return Averages(*total)


@pytest.mark.parametrize(("s2", "g"), [(2.0, 0.5), (0.01, 0.2), (3.0, 1e-3)])
def test_averages(s2: float, g: float) -> None:
    mixture = Mixture(
        np.array([0.1, 0.2, 0.3, 0.4]),
        np.array([0.0, 1.0, 0.0, 0.0]),
        np.array([5.0, 0.0, 0.0, 0.5]),
        np.array([2.0, 1e-3, 1e-6, 20.0]),
    )
    found = np.ravel(averages(mixture, np.array([s2]), np.array([g])))
    np.testing.assert_allclose(found, plain(mixture, s2, g), rtol=2e-5)


def test_averages_where_gauss_hermite_is_exact() -> None:
    mixture = Mixture(*(np.array([v]) for v in (1.0, 0.3, 2.0, 1.5)))
    t, weight = hermegauss(201)
    z = 0.3 + np.sqrt(2.7) * t
    believed = 0.3 + 2.0 / 2.7 * (z - 0.3)
    square = weight @ (believed - prox(z, 0.4, 1.5)) ** 2 / weight.sum() + 1.4 / 2.7
    found = averages(mixture, np.array([0.7]), np.array([0.4]))
    assert found.square_A.item() == pytest.approx(square, rel=1e-9)


def test_law_of_the_estimates() -> None:
    x_M, weight_M = law(1.0, 0.2, 0.3, 0.4)
    t, weight = hermegauss(201)
    expected = weight @ prox(1 + np.sqrt(0.3) * t, 0.4, 0.2) ** 2 / weight.sum()
    assert weight_M @ x_M**2 == pytest.approx(expected, rel=1e-5)
