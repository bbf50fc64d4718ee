"""Medians of censored times, their intervals and ratios."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import CensoredData, ecdf

from analysis import survival
from analysis.survival import Times


def times(steps: list[int], censored: list[int] | None = None) -> Times:
    """With the places of those that are censored; seeds count from 0."""
    seen_N = np.ones(len(steps), dtype=bool)
    seen_N[censored or []] = False
    return Times(np.array(steps), seen_N, np.arange(len(steps)))


@pytest.mark.parametrize(
    ("steps", "censored", "median", "least"),
    [
        ([500, 100, 300], [], 300, 300),
        ([100, 200, 300, 400], [], 200, 200),
        ([900, 900, 900, 100, 200], [0, 1, 2], np.inf, 900),
        ([900, 900, 100, 200], [0, 1], 200, 200),
        # Survival by hand: 4/5 at 100, then of three at risk 8/15 at 300 and 4/15 at 400.
        ([100, 200, 300, 400, 500], [1], 400, 300),
        # Ended at the time of an event: still at risk there.
        ([100, 100, 200, 300], [1], 200, 100),
        # The one event comes last, after four ends: fewer than half generalized.
        ([150, 150, 150, 150, 800], [0, 1, 2, 3], np.inf, 150),
    ],
)
def test_the_median_of_censored_times(
    steps: list[int], censored: list[int], median: float, least: float
) -> None:
    assert survival.median(times(steps, censored)) == (median, least)


def test_the_median_is_where_the_kaplan_meier_curve_crosses_a_half() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        steps = rng.integers(1, 9, size=7)
        seen_N = rng.random(7) < 0.7
        curve = ecdf(CensoredData.right_censored(steps, ~seen_N)).sf
        half = curve.quantiles[curve.probabilities <= 0.5 + 1e-12]
        found, least = survival.median(Times(steps, seen_N, np.arange(7)))
        expected = half[0] if len(half) and seen_N.sum() >= 3.5 else np.inf
        assert found == expected and least <= found


def test_nothing_has_no_median() -> None:
    assert np.isnan(survival.median(times([]))).all()
    assert np.isnan(survival.interval(times([]))).all()


@pytest.mark.parametrize(
    ("size", "expected"),
    [(4, (np.nan,) * 3), (5, (1, 5, 0.9375)), (8, (2, 7, 238 / 256)), (10, (2, 9, 1002 / 1024))],
)
def test_the_interval_is_the_narrowest_that_covers_enough(
    size: int, expected: tuple[float, ...]
) -> None:
    found = survival.interval(times(list(range(size, 0, -1))))
    assert found == pytest.approx(expected, nan_ok=True)


def test_the_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    samples = rng.exponential(size=(1500, 8)) * 1000
    ends = [survival.interval(times(list(sample.astype(int))))[:2] for sample in samples]
    inside = [low <= 1000 * np.log(2) <= high for low, high in ends]
    assert np.mean(inside) == pytest.approx(238 / 256, abs=0.02)


def test_censoring_opens_the_interval_at_its_upper_end() -> None:
    assert survival.interval(times([100, 900, 300, 200, 400], [1]))[:2] == (100, np.inf)
    # Ended early at 50, it may be anywhere from there on.
    assert survival.interval(times([100, 50, 300, 200, 400], [1]))[:2] == (50, np.inf)


def test_a_ratio_of_constant_times_is_sure() -> None:
    found = survival.ratio(times([800, 800, 800]), times([200, 200, 200]))
    assert (found.value, found.bound, found.low, found.high, found.seeds) == (4, "", 4, 4, 3)


def test_seeds_are_drawn_in_pairs() -> None:
    """Slow seeds are slow in both: seed by seed the ratio is 2, and so it is in each resample."""
    slow = [100, 300, 900, 2700, 8100]
    found = survival.ratio(times([2 * step for step in slow]), times(slow))
    assert (found.value, found.low, found.high) == (2, 2, 2)
    shuffled = Times(np.array(slow)[::-1], np.ones(5, dtype=bool), np.arange(5)[::-1])
    assert survival.ratio(times([2 * step for step in slow]), shuffled) == found


def test_a_seed_of_one_group_alone_is_left_out() -> None:
    found = survival.ratio(times([800, 800, 800, 1]), times([200, 200, 200]))
    assert (found.value, found.seeds) == (4, 3)


def test_a_censored_reference_gives_a_lower_bound() -> None:
    late, soon = times([900] * 5, [0, 1, 2, 3, 4]), times([100] * 5)
    found = survival.ratio(late, soon)
    assert (found.value, found.bound, found.low, found.high) == (9, "at least", 9, np.inf)
    found = survival.ratio(soon, late)
    assert found.bound == "at most" and found.value == pytest.approx(1 / 9)
    assert found.low == 0 and found.high == pytest.approx(1 / 9)
    assert np.isnan(survival.ratio(late, late).value)


def test_one_seed_has_a_ratio_and_no_interval() -> None:
    found = survival.ratio(times([800]), times([200]))
    assert found.value == 4 and np.isnan([found.low, found.high]).all()
    assert survival.ratio(times([800]), times([])).seeds == 0
