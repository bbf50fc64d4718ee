"""What is said of a cell, and how surely."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import studentized_range

from initmem.memory.estimate import Estimate, estimates, mean_range, quantile, resolves
from initmem.memory.noise import pool
from initmem.memory.paired import fit


def tables(cells: int, values: int, seeds: int, spread: float = 0.0, seed: int = 0) -> np.ndarray:
    truth_A = np.linspace(0, spread, values)[:, None]
    return truth_A + np.random.default_rng(seed).normal(size=(cells, values, seeds))


def test_expected_ranges_of_normal_numbers() -> None:
    """d2, from tables of quality control."""
    assert [round(mean_range(k), 3) for k in (2, 3, 4, 5, 10)] == [1.128, 1.693, 2.059, 2.326,
                                                                   3.078]  # fmt: skip


def test_one_cell_is_the_studentized_range_of_its_own_table() -> None:
    (y_AS,) = tables(1, 4, 3)
    (estimate,) = estimates([fit(y_AS)])
    residual = y_AS - y_AS.mean(0) - y_AS.mean(1, keepdims=True) + y_AS.mean()
    sigma = math.sqrt((residual**2).sum() / 6)
    spread = np.ptp(y_AS.mean(1))
    assert (estimate.sigma, estimate.df) == (pytest.approx(sigma), 6)
    assert estimate.p == pytest.approx(studentized_range.sf(spread * 3**0.5 / sigma, 4, 6))
    half = studentized_range.ppf(0.95, 4, 6) * sigma / 3**0.5
    low, high = estimate.interval()
    assert (low, high) == (pytest.approx(max(0, spread - half)), pytest.approx(spread + half))
    assert estimate.floor == pytest.approx(2.0588 * sigma / 3**0.5, rel=1e-4)


def test_the_noise_of_an_arm_is_pooled() -> None:
    """Cells of equal noise share it: their own estimates differ by luck alone."""
    made = [fit(y) for y in tables(12, 4, 3)]
    together, alone = estimates(made), [estimates([table])[0] for table in made]
    assert {e.df for e in alone} == {6} and all(30 < e.df <= 72 for e in together)
    assert np.std([e.sigma for e in together]) < 0.5 * np.std([e.sigma for e in alone])
    mean = np.sqrt(np.mean([e.sigma**2 for e in alone]))
    assert all(0.7 * mean < e.sigma < 1.3 * mean for e in together)


def test_cells_of_unequal_noise_keep_their_own() -> None:
    noise_C = np.array([0.2, 5.0] * 6)[:, None, None]
    found = estimates([fit(y) for y in noise_C * tables(12, 6, 5)])
    assert max(e.sigma for e in found[::2]) < 0.5 and min(e.sigma for e in found[1::2]) > 3
    assert found[0].noise.df < 10


def test_cells_without_a_second_seed_have_a_spread_and_nothing_more() -> None:
    (estimate,) = estimates([fit(np.array([[90.0], [95.0], [80.0]]))])
    assert estimate.table.spread == pytest.approx(15) and estimate.verdict == "undecided"
    told = [estimate.sigma, estimate.floor, estimate.p, *estimate.interval(), estimate.more_seeds]
    assert all(map(math.isnan, told))


def test_noise_of_nothing_is_that_of_rounding() -> None:
    still = fit(np.array([[90.0, 90.0], [90.5, 90.5]]))
    assert estimates([still], resolution=0.5)[0].sigma == pytest.approx(0.5 / 12**0.5)
    assert pool(np.array([0.0]), np.array([4])).variance == 0


def verdict(*y_AS: list[float], threshold: float = 2.0) -> Estimate:
    return estimates([fit(np.array(y_AS, dtype=float))], threshold)[0]


def test_verdicts() -> None:
    assert verdict([90, 90.5, 90.2], [80, 80.4, 80.1], [85, 85.6, 85.1]).verdict == "remembers"
    assert verdict([90, 90.5, 90.2], [90.1, 90.4, 90.2]).verdict == "erased"
    assert verdict([90, 94, 89], [86, 88, 95]).verdict == "undecided"
    assert verdict([90, 90.5, 90.2], [91, 91.5, 91.3]).verdict == "erased", "below the threshold"
    assert fit(np.array([[90.0, 91.0]]), [1.0], [2.0, 4.0]).whole is False


def test_more_seeds_decide() -> None:
    """With the seeds it asks for, and the same spread and noise, the cell is decided; with one
    less it is not."""
    rng = np.random.default_rng(3)
    for spread in (1.0, 3.0):
        y_AS = rng.normal(size=(2, 4))
        y_AS -= y_AS.mean(axis=1, keepdims=True) - np.array([[0.0], [spread]])
        estimate = estimates([fit(y_AS)])[0]
        assert estimate.verdict == "undecided"
        more = int(estimate.more_seeds)
        assert estimate._decided(4 + more) and not estimate._decided(4 + more - 1)


def test_twice_the_seeds_narrow_the_interval_by_the_root_of_two() -> None:
    """Nothing changes but their number: each seed is there twice."""
    y_AS = tables(1, 4, 5, spread=5)[0]
    once, twice = fit(y_AS), fit(np.hstack([y_AS, y_AS]))
    assert twice.spread == pytest.approx(once.spread)
    few, many = estimates([once])[0], estimates([twice])[0]
    width = [e.interval()[1] - e.table.spread for e in (few, many)]
    by_theory = (quantile(0.95, 4, 27) / quantile(0.95, 4, 12)) * (many.sigma / few.sigma) / 2**0.5
    assert width[1] / width[0] == pytest.approx(by_theory) and by_theory < 0.75


def test_missing_seeds_widen_the_interval() -> None:
    y_AS = tables(1, 4, 5, spread=5)[0]
    y_AS[2, 1:] = np.nan
    (estimate,) = estimates([fit(y_AS)])
    balanced = estimate.sigma / 5**0.5
    assert estimate.error > 1.5 * balanced


def test_what_a_study_will_resolve() -> None:
    floor, far, near = resolves(values=4, seeds=4, cells=10, sigma=1.0)
    assert floor == pytest.approx(2.0588 / 2, rel=1e-4)
    assert far == pytest.approx(studentized_range.ppf(0.95, 4, 90) / 2)
    assert near == pytest.approx(studentized_range.ppf(0.9, 4, 90) / 2)
    assert resolves(4, 16, 10, 1.0)[0] == pytest.approx(floor / 2)
    assert math.isnan(resolves(4, 1, 10, 1.0)[1])
