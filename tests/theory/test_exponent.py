"""Hermite coefficients of labelled rewards: the table of values, limits that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss

from initmem.theory import exponent
from initmem.theory.channel import NotConverged
from initmem.theory.exponent import (
    Coefficients,
    Reward,
    hermite,
    information_exponent,
    label_coefficients,
    raw_coefficients,
    sign_change,
    transformed,
)

# t_2 by link and amplitude, by 6,001 nodes.
AMPLITUDES = [0.3, 1.0, 2.0, 3.0, 10.0]
TABLE = {
    2: [0.1351, 0.2954, 0.3729, 0.4030, 0.4419],
    4: [-0.0221, -0.1105, -0.1897, -0.2251, -0.2647],
    6: [-0.0094, -0.0020, 0.0345, 0.0583, 0.0905],
}


def test_polynomials() -> None:
    z = np.array([-2.0, 0.0, 1.5])
    square, fourth = (z**2 - 1) / math.sqrt(2), (z**4 - 6 * z**2 + 3) / math.sqrt(24)
    np.testing.assert_allclose(hermite(z, 4)[:, [0, 1, 2, 4]].T, [z**0, z, square, fourth])
    assert hermite(1.0, 2).tolist() == [1, 1, 0]
    nodes, weights = hermegauss(30)
    values = hermite(nodes, 12)
    np.testing.assert_allclose(
        (values.T * weights) @ values / weights.sum(), np.eye(13), atol=1e-11
    )


@pytest.mark.parametrize("link", TABLE)
def test_table(link: int) -> None:
    found = [label_coefficients(Reward(link, amplitude)) for amplitude in AMPLITUDES]
    assert [round(one.t_K[2], 4) for one in found] == TABLE[link]
    assert all(one.error <= 1e-10 for one in found)
    assert all(np.abs(one.t_K[1::2]).max() < 1e-15 and abs(one.t_K[0]) < 1e-14 for one in found)
    assert [information_exponent(one) for one in found] == [2] * 5
    assert information_exponent(raw_coefficients(Reward(link, 3.0))) == link


@pytest.mark.parametrize(("link", "amplitude", "error"), [(2, 1.0, 0.0), (6, 10.0, 1.4e-3)])
def test_another_rule(link: int, amplitude: float, error: float) -> None:
    """200 Gauss-Hermite nodes: they are right where T is not steep."""
    reward, (z_N, weight_N) = Reward(link, amplitude), hermegauss(200)
    weight_N = weight_N / weight_N.sum()
    label_N = np.tanh((reward(z_N)[:, None] - reward(z_N)) / 2) @ weight_N
    found = label_coefficients(reward).t_K[2]
    other = (weight_N * label_N) @ hermite(z_N, 2)[:, 2]
    assert abs(other - found) == pytest.approx(error, rel=0.02, abs=1e-7)
    if not error:
        np.testing.assert_allclose(transformed(reward, reward(z_N)), label_N, atol=1e-6)


@pytest.mark.parametrize("link", [2, 4, 6])
def test_small_amplitude(link: int) -> None:
    """T = r/2 - (r^3 + 3 A^2 r - E r^3) / 24, then orders of A^5 E h^5 h_2 / 240."""
    z, weights = hermegauss(40)
    h_NK, a = hermite(z, 6), 3e-4
    three, five = (h_NK[:, [link]] ** [3, 5]).T @ (h_NK[:, 2] * weights / weights.sum())
    expected = (a / 2 - a**3 / 8 if link == 2 else 0) - a**3 * three / 24
    found = label_coefficients(Reward(link, a)).t_K[2]
    assert abs(found - expected) < a**5 * five / 120 < 0.05 * abs(expected)


def test_large_amplitude() -> None:
    """T tends to P(|z'| < |z|) - P(|z'| > |z|), and E |z^2 - z'^2| = 4 / pi."""
    gaps = [math.sqrt(2) / math.pi - label_coefficients(Reward(2, a)).t_K[2] for a in (10, 30)]
    assert 0 < 5 * gaps[1] < gaps[0] < 0.01


def test_sign_change() -> None:
    amplitude = sign_change(6, 2, 1.0, 1.1)
    assert amplitude == pytest.approx(1.05489415, abs=2e-8)
    assert information_exponent(label_coefficients(Reward(6, amplitude))) == 4
    with pytest.raises(ValueError, match="different signs"):
        sign_change(4, 2, 0.3, 10.0)


def test_not_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exponent, "FINE", 512)
    with pytest.raises(NotConverged, match=r"still change by 2\..e-04 at 512 intervals"):
        label_coefficients(Reward(6, 10.0))


def test_no_exponent() -> None:
    with pytest.raises(ValueError, match="information exponent: t_1 to t_40 are all 0"):
        information_exponent(Coefficients(np.array([1.0] + [0.0] * 40), 0.0))


def test_no_reward() -> None:
    with pytest.raises(ValueError, match="link: must be from 1 to 40, got 0"):
        Reward(0, 1.0)
    with pytest.raises(ValueError, match="amplitude: must be above 0 and finite, got inf"):
        Reward(2, math.inf)
