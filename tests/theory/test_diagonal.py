"""The implicit bias: penalties, starts, states after pretraining."""

from __future__ import annotations

import numpy as np
import pytest

from initmem.theory.diagonal import (
    Init,
    dependence,
    order,
    penalty,
    penalty_curvature,
    penalty_slope,
)

ROOTS = [1e-9, 1e-3, 0.7, 4.0, 1e6]
INITS = [Init(1e-3), Init(0.05, -0.99), Init(2.0, 0.6, 0.5), Init(1e-6, 1.0), Init(0.3, -1, 1)]


def test_penalty_is_the_papers_formula() -> None:
    beta, root = np.array([-3.0, 0.5, 2.0]), 0.8
    t = 2 * beta / root
    expected = root / 4 * (1 - np.sqrt(1 + t**2) + t * np.arcsinh(t))
    np.testing.assert_allclose(penalty(beta, root), expected, rtol=1e-14)


@pytest.mark.parametrize("root", ROOTS)
def test_derivatives(root: float) -> None:
    beta = np.array([-2.0, 0.3, 1.0])
    h = 1e-5
    slope = (penalty(beta + h, root) - penalty(beta - h, root)) / (2 * h)
    np.testing.assert_allclose(penalty_slope(beta, root), slope, rtol=1e-6)
    curvature = (penalty_slope(beta + h, root) - penalty_slope(beta - h, root)) / (2 * h)
    np.testing.assert_allclose(penalty_curvature(beta, root), curvature, rtol=1e-6)


def test_large_root_is_l2() -> None:
    beta = np.array([0.0, 1e-8, 1.0, -7.0])
    np.testing.assert_allclose(penalty(beta, 1e12), beta**2 / 2e12, rtol=1e-12)
    np.testing.assert_array_equal(order(beta, 1e12), 2.0)


def test_small_root_is_l1_up_to_half_a_logarithm() -> None:
    root = 1e-200
    ratio = penalty([-4.0, 1.0], root) / np.log(4 * np.array([4.0, 1.0]) / root)
    np.testing.assert_allclose(ratio, [2.0, 0.5], rtol=3e-3)
    assert 1 < order(1.0, root) < 1.003


def test_zero_costs_nothing_and_is_lazy() -> None:
    assert penalty(0.0, 1e-300) == 0
    assert order(0.0, 1e-300) == 2
    assert dependence(1.0, 0.0, Init(1.0)) == 0


@pytest.mark.parametrize("init", INITS)
def test_order_and_dependence_are_the_logarithmic_derivatives(init: Init) -> None:
    beta, pretrained, h = 0.7, 1.3, 1e-5

    def logq(beta: float, pretrained: float) -> float:
        return float(np.log(penalty(beta, init.finetuning_root(pretrained))))

    up, down = np.exp(h), np.exp(-h)
    ell = (logq(beta * up, pretrained) - logq(beta * down, pretrained)) / (2 * h)
    dep = (logq(beta, pretrained * up) - logq(beta, pretrained * down)) / (2 * h)
    assert order(beta, init.finetuning_root(pretrained)) == pytest.approx(ell, abs=1e-7)
    assert dependence(-beta, -pretrained, init) == pytest.approx(dep, abs=1e-7)


@pytest.mark.parametrize("init", INITS)
def test_state_after_pretraining(init: Init) -> None:
    beta = np.array([-20.0, -0.3, 0.0, 1e-7, 1.0])
    first, second, third, fourth = init.pretrained_weights(beta)
    exact = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(first * third - second * fourth, beta, **exact)
    np.testing.assert_allclose(first**2 - third**2, init.c * init.lam, **exact)
    np.testing.assert_allclose(second**2 - fourth**2, init.c * init.lam, **exact)
    np.testing.assert_allclose(first * second + third * fourth, init.c, **exact)
    of_state = 2 * (first + second) ** 2 + init.gam**2
    np.testing.assert_allclose(init.finetuning_root(beta), of_state, **exact)


def test_state_at_the_start() -> None:
    weights = Init(0.5, -0.6).pretrained_weights(0.0)
    np.testing.assert_allclose(np.square(weights), [0.1, 0.1, 0.4, 0.4])


def test_pretraining_does_not_see_lam() -> None:
    assert Init(0.3, 0.9).pretraining_root == Init(0.3, -0.9).pretraining_root == 0.6


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((0.0,), "c: must be above 0 and finite, got 0"),
        ((float("nan"),), "c: must be above 0 and finite, got nan"),
        ((1.0, 1.5), r"lam: must be in \[-1, 1\], got 1.5"),
        ((1.0, 0.0, -1.0), "gam: must be at least 0 and finite, got -1"),
        ((1.0, -1.0), "lam: -1 needs gam above 0.*try -0.99999, got lam -1 with gam 0"),
    ],
)
def test_no_start(fields: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Init(*fields)
