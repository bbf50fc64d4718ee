"""The minimizer: its conditions, its limits, and gradient descent, which ends at it."""

from __future__ import annotations

import numpy as np
import pytest

from initmem.theory.diagonal import Array, Init, penalty_slope
from initmem.theory.minimizer import minimizer
from initmem.theory.tasks import Task, design

RNG_SEED, N, D = 5, 12, 30
RATE = 0.004
"""Gradient descent is off the flow in proportion to it, by 6e-4 here."""
INITS = [
    Init(c, lam, gam)
    for c, lam in ((0.05, 0.0), (0.05, 0.9), (0.05, -0.9), (1.0, 0.5))
    for gam in (0.0, 0.5)
]


@pytest.mark.parametrize(
    "init", [Init(1e-3), Init(1e-7, -0.99999), Init(1e-3, 0, 10), Init(0.1, -1, 1e-6)]
)
def test_conditions_of_the_minimum(init: Init) -> None:
    rng = np.random.default_rng(RNG_SEED)
    pretrained_D, target_D = Task(0.2, 0.1, 0.5).draw(200, rng)
    X_ND, root_D = design(60, 200, rng), init.finetuning_root(pretrained_D)
    beta_D = minimizer(X_ND, X_ND @ target_D, root_D)
    assert np.abs(X_ND @ (beta_D - target_D)).max() <= 1e-9 * np.abs(X_ND @ target_D).max()
    fewer_D = minimizer(X_ND[:40], X_ND[:40] @ target_D, root_D)
    from_fewer_D = minimizer(X_ND, X_ND @ target_D, root_D, fewer_D)
    np.testing.assert_allclose(from_fewer_D, beta_D, atol=1e-6)
    slope_D = penalty_slope(beta_D, root_D)
    of_rows_D = X_ND.T @ np.linalg.lstsq(X_ND.T, slope_D)[0]
    np.testing.assert_allclose(of_rows_D, slope_D, atol=1e-9 * np.abs(slope_D).max())


def test_large_root_is_least_norm_and_enough_rows_decide() -> None:
    rng = np.random.default_rng(RNG_SEED)
    X_ND, target_D = design(N, D, rng), rng.standard_normal(D)
    beta_D = minimizer(X_ND, X_ND @ target_D, 1e6)
    np.testing.assert_allclose(beta_D, np.linalg.pinv(X_ND) @ X_ND @ target_D, atol=1e-7)
    square_DD = design(D, D, rng)
    np.testing.assert_allclose(minimizer(square_DD, square_DD @ target_D, 1.0), target_D)
    assert not minimizer(X_ND, np.zeros(N), 1.0).any()


def descend(X_ND: Array, y_N: Array, w_2SD: Array, v_2SD: Array, steps: int) -> None:
    """Gradient descent of |X beta - y|^2 / 2 by w and v, of all settings at once, in place."""
    sign_211 = np.array([1.0, -1.0])[:, None, None]
    for _ in range(steps):
        beta_SD = w_2SD[0] * v_2SD[0] - w_2SD[1] * v_2SD[1]
        push_SD = RATE * (y_N - beta_SD @ X_ND.T) @ X_ND
        moved_2SD = sign_211 * push_SD
        w_2SD[:], v_2SD[:] = w_2SD + moved_2SD * v_2SD, v_2SD + moved_2SD * w_2SD


def test_gradient_descent_of_both_stages_ends_at_it() -> None:
    rng = np.random.default_rng(RNG_SEED)
    first_D, second_D = Task(0.2, 0.2, 0.5).draw(D, rng)
    X_ND, Z_ND = design(N, D, rng), design(N, D, rng)
    y_N, z_N = X_ND @ first_D, Z_ND @ (0.4 * second_D)
    c_S1, lam_S1, gam_S1 = (
        np.array([[getattr(init, name)] for init in INITS]) for name in ("c", "lam", "gam")
    )
    w_2SD = np.sqrt(c_S1 * (1 + lam_S1) / 2) * np.ones((2, 1, D))
    v_2SD = np.sqrt(c_S1 * (1 - lam_S1) / 2) * np.ones((2, 1, D))
    descend(X_ND, y_N, w_2SD, v_2SD, 50_000)
    first_SD = w_2SD[0] * v_2SD[0] - w_2SD[1] * v_2SD[1]
    for init, found_D, w_2D, v_2D in zip(
        INITS, first_SD, w_2SD.swapaxes(0, 1), v_2SD.swapaxes(0, 1), strict=True
    ):
        expected_D = minimizer(X_ND, y_N, init.pretraining_root)
        np.testing.assert_allclose(found_D, expected_D, atol=1e-3)
        state = init.pretrained_weights(expected_D)
        np.testing.assert_allclose([*w_2D, *v_2D], state, atol=3e-3)
    w_2SD[:], v_2SD[:] = w_2SD.sum(0), gam_S1 / np.sqrt(2)
    descend(Z_ND, z_N, w_2SD, v_2SD, 50_000)
    second_SD = w_2SD[0] * v_2SD[0] - w_2SD[1] * v_2SD[1]
    for init, start_D, found_D in zip(INITS, first_SD, second_SD, strict=True):
        expected_D = minimizer(Z_ND, z_N, init.finetuning_root(start_D))
        np.testing.assert_allclose(found_D, expected_D, atol=1e-3)


@pytest.mark.parametrize(
    ("y", "root", "message"),
    [
        (np.ones(3), 1.0, r"y: must have shape \(2,\) as X has 2 rows, got \(3,\)"),
        (np.ones(2), np.array([1.0, 0.0, 1.0]), "root: must be above 0 and finite, got 0"),
        (np.ones(2), np.inf, "root: must be above 0 and finite, got inf"),
    ],
)
def test_no_minimizer(y: Array, root: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        minimizer(np.eye(2, 3), y, root)
