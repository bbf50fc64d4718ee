"""Rates of alignment and limits under a weak teacher: known values, the ODE, drawn pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from initmem.theory.alignment import (
    alignment,
    drift,
    duration,
    limit_cosine,
    noise_loss,
    noise_start,
    pairwise_accuracy,
    rate,
    relu_coefficients,
    squared_projection,
)
from initmem.theory.diagonal import Array
from initmem.theory.exponent import Reward, hermite, label_coefficients

H2, H4 = label_coefficients(Reward(2, 2.0)).t_K, label_coefficients(Reward(4, 3.0)).t_K


@pytest.mark.parametrize("bias", [0.0, 1.5, -0.5])
def test_relu_coefficients(bias: float) -> None:
    expected = [
        quad(lambda z, k=k: (z - bias) * hermite(z, k)[k] * norm.pdf(z), bias, 12)[0]
        for k in range(7)
    ]
    np.testing.assert_allclose(relu_coefficients(bias, 6), expected, atol=1e-9)


def test_rates() -> None:
    biases = [0.0, 1.0, 1.5]
    assert [rate(H2[2], b) for b in biases] == pytest.approx([0.2104, 0.1276, 0.0683], abs=5e-5)
    h4 = [rate(H4[2], b, output=-1.0) for b in biases]
    assert h4 == pytest.approx([0.1270, 0.0770, 0.0412], abs=5e-5)


def test_drift_of_the_first_orders() -> None:
    assert drift(H2, 1.5, 1e-3) == pytest.approx(rate(H2[2], 1.5) * 1e-3, rel=1e-5)
    first, second = np.eye(3)[1:]
    assert drift(first, 0.7, 0.0) == pytest.approx(norm.sf(0.7))
    np.testing.assert_allclose(drift(second, 1.5, [0.6]), rate(1.0, 1.5) * 0.6 * (1 - 0.36))


@pytest.mark.parametrize(
    ("reward", "t_K", "bias", "output"),
    [(Reward(2, 2.0), H2, 1.0, 1.0), (Reward(4, 3.0), H4, 0.5, -1.0)],
)
def test_drawn_gradients(reward: Reward, t_K: Array, bias: float, output: float) -> None:
    """Of pairs with drawn labels, along theta - m w and along a direction of noise alone."""
    rng, m, pairs = np.random.default_rng(0), 0.6, 400_000
    z_2P, other_2P, noise_2P = rng.standard_normal((3, 2, pairs))  # theta, in its plane, outside
    margin_P = reward(z_2P[0]) - reward(z_2P[1])
    label_P = (rng.random(pairs) < 1 / (1 + np.exp(-margin_P))) - 0.5
    input_2P = m * z_2P + math.sqrt(1 - m**2) * other_2P
    sides_2P = np.array([[1], [-1]]) * (input_2P > bias)
    gradient_P = output * label_P * (sides_2P * (z_2P - m * input_2P)).sum(0)
    se = gradient_P.std() / math.sqrt(pairs)
    expected = drift(t_K, bias, m, output)
    assert abs(gradient_P.mean() - expected) < 4 * se < 0.15 * expected
    square = np.mean((label_P * (sides_2P * noise_2P).sum(0)) ** 2)
    assert square == pytest.approx(norm.sf(bias) / 2, rel=0.02)


def test_higher_orders_stop_h4_at_a_large_bias() -> None:
    stuck = brentq(lambda m: drift(H4, 1.5, m, output=-1.0), 0.3, 0.9)
    assert stuck == pytest.approx(0.7691, abs=1e-4)
    assert (drift(H4, 1.0, np.linspace(0.01, 0.99, 50), output=-1.0) > 0).all()


def test_alignment_solves_its_equation() -> None:
    c, t, step = 0.07, np.linspace(0, 100, 11), 1e-4
    for m0 in (0.2, -0.05, 0.9):
        m = alignment(t, m0, c)
        slope = (alignment(t + step, m0, c) - alignment(t - step, m0, c)) / (2 * step)
        np.testing.assert_allclose(slope, c * m * (1 - m**2), atol=1e-10)
        assert m[0] == m0
    np.testing.assert_allclose(duration(alignment(30.0, [0.2, 0.5], c), [0.2, 0.5], c), 30)
    assert alignment(50.0, [0.0, 1.0], c).tolist() == [0, 1]


def test_an_off_target_neuron_is_captured_by_the_time_the_target_is_learned() -> None:
    c = rate(H2[2], 1.5)
    done = duration(0.9, 128**-0.5, c)
    assert c * done == pytest.approx(math.log(0.9 / math.sqrt(0.19) * math.sqrt(127)), rel=1e-12)
    assert alignment(done, 0.2, c) == pytest.approx(0.98, abs=2e-3)


def test_noise_is_a_start() -> None:
    """Against the variance of the linear steps themselves."""
    c, bias, lr, batch, steps = 0.07, 1.5, 0.01, 16, 8000
    noise, square = lr**2 * norm.sf(bias) / 2 / batch, 0.0
    for _ in range(steps):
        square = (1 + lr * c) ** 2 * square + noise
    expected = noise_start(lr, batch, bias, c) * math.exp(c * lr * steps)
    assert math.sqrt(square) == pytest.approx(expected, rel=4e-3)
    assert noise_loss(steps * lr, lr, batch, bias, 9) == pytest.approx(9 * steps * noise / 2)


def test_limit_of_localized_training() -> None:
    assert limit_cosine(0.6, 1 / 8) == pytest.approx(0.905, abs=5e-4)
    assert squared_projection(0.6, 1 / 8) == pytest.approx(0.44)
    assert limit_cosine(0.6, 1.0) == 0.6 and limit_cosine(0.6, 0.0) == 1


def test_pairwise_accuracy() -> None:
    np.testing.assert_allclose(pairwise_accuracy([0, 1, -1, 0.5]), [0.5, 1, 1, 5 / 9])
    assert pairwise_accuracy(0.6) == pytest.approx(0.584, abs=5e-4)
    rng, pairs, m = np.random.default_rng(2), 200_000, 0.6
    z_2P, across_2P = rng.standard_normal((2, 2, pairs))
    score_2P = m * z_2P + math.sqrt(1 - m**2) * across_2P
    right_P = (score_2P[0] ** 2 > score_2P[1] ** 2) == (z_2P[0] ** 2 > z_2P[1] ** 2)
    se = right_P.std() / math.sqrt(pairs)
    assert abs(right_P.mean() - pairwise_accuracy(m)) < 4 * se
