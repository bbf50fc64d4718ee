"""Tasks: what is drawn, what cannot be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from initmem.theory.diagonal import Init
from initmem.theory.tasks import Task, design, finetuning, single


def test_draw_shares_what_it_is_to_share() -> None:
    pretrained_D, target_D = Task(0.2, 0.3, 0.5).draw(100, np.random.default_rng(0))
    assert np.count_nonzero(pretrained_D == 1.0) == np.count_nonzero(pretrained_D) == 20
    assert np.count_nonzero(target_D) == 30
    assert np.count_nonzero(target_D * pretrained_D) == 15


def test_target_is_of_size_one() -> None:
    _, target_D = Task(0.1, 0.2, 0.0).draw(100_000, np.random.default_rng(0))
    assert np.square(target_D).mean() == pytest.approx(1, abs=0.03)


def test_a_seed_draws_the_same_and_a_smaller_design_is_the_head_of_a_larger() -> None:
    one, two = (np.random.default_rng(3) for _ in range(2))
    task = Task(0.5, 0.1, 1.0)
    np.testing.assert_array_equal(task.draw(50, one), task.draw(50, two))
    large_ND = design(40, 50, one)
    np.testing.assert_array_equal(large_ND[:10], design(10, 50, two))
    assert large_ND.std() == pytest.approx(1 / math.sqrt(50), rel=0.05)


def test_groups() -> None:
    mixture = finetuning(Task(0.2, 0.5, 0.1), Init(0.3, 0.5, 2.0))
    np.testing.assert_allclose(mixture.mass_G, [0.05, 0.15, 0.45, 0.35])
    np.testing.assert_allclose(mixture.variance_G, [2, 0, 2, 0])
    on, off = 0.9 * (1 + math.sqrt(1 + 1 / 0.09)) + 4, 1.8 + 4
    np.testing.assert_allclose(mixture.root_G, [on, on, off, off])


def test_groups_after_pretraining_on_some_examples() -> None:
    task, init = Task(0.2, 0.1, 1.0), Init(0.3)
    mixture = finetuning(task, init, 0.4)
    assert mixture.mass_G.sum() == pytest.approx(1)
    assert mixture.mass_G @ (mixture.variance_G > 0) == pytest.approx(0.1)
    assert mixture.root_G.min() >= 4 * init.c


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((0.0, 0.1, 0.5), r"rho_pt: must be in \(0, 1\], got 0"),
        ((0.1, 1.1, 0.5), r"rho_ft: must be in \(0, 1\], got 1.1"),
        ((0.1, 0.1, -0.1), r"omega: must be in \[0, 1\], got -0.1"),
        ((0.1, 0.4, 0.5), "omega: omega rho_ft = 0.2 must be at most rho_pt = 0.1.*got 0.5"),
        ((0.4, 0.8, 0.0), "omega: .* rho_ft = 0.8 must be at most 1 - rho_pt = 0.6.*got 0"),
        ((0.1, 0.1, 0.5, 0.0), "amplitude: must be finite and not 0, got 0"),
    ],
)
def test_no_task(fields: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Task(*fields)


def test_whole_supports_are_tasks() -> None:
    assert len(finetuning(Task(0.1, 0.9, 0.0), Init(1.0)).mass_G) == 2
    assert finetuning(Task(1.0, 1.0, 1.0), Init(1.0)).mass_G.tolist() == [1.0]


def test_too_small_to_draw_or_to_pretrain() -> None:
    with pytest.raises(ValueError, match=r"d: too small.* 0 and 0 features, 0 of them.* got 4"):
        Task(0.1, 0.1, 0.5).draw(4, np.random.default_rng(0))
    with pytest.raises(ValueError, match="alpha_pt: must be above 0, got 0"):
        finetuning(Task(0.1, 0.1, 0.5), Init(1.0), 0.0)
    with pytest.raises(ValueError, match=r"rho: must be in \(0, 1\], got 2"):
        single(2.0, Init(1.0))
