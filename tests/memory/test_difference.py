"""The difference of two cells, seed by seed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from initmem.memory.difference import difference
from tests.memory.rows import of_table


def test_what_seeds_share_cancels() -> None:
    """Seed 2 loses 8 points at the last value in both cells: neither memory is sure, but that one
    is 2 points larger is."""
    noise_AS = np.array([[0.1, -0.2, 0.0, 0.1], [0.0, 0.1, -0.1, 0.2], [0.0, 0.0, -8.0, 0.0]])
    one_AS = np.array([[97.0], [96.0], [90.0]]) + noise_AS
    other_AS = np.array([[97.0], [96.0], [92.0]]) + noise_AS
    other_AS[2] += [0.1, -0.1, 0.1, -0.1]
    found = difference(of_table(one_AS), of_table(other_AS))
    assert found is not None
    each_S = 2 + np.array([0.1, -0.1, 0.1, -0.1])
    half = t.ppf(0.975, 3) * each_S.std(ddof=1) / 2
    assert (found.mean, found.seeds) == (pytest.approx(2), 4)
    assert (found.best, found.worst) == (1.0, 3.0)
    assert (found.low, found.high) == (pytest.approx(2 - half), pytest.approx(2 + half))
    assert found.p < 0.001
    back = difference(of_table(other_AS), of_table(one_AS))
    assert back is not None and back.mean == pytest.approx(-2) and back.p == found.p


def test_a_seed_that_is_lost_in_one_cell_is_left_out() -> None:
    one_AS = np.array([[97.0, 96.5, 97.2], [90.0, 91.0, np.nan]])
    other_AS = np.array([[97.0, 97.0, 97.0], [95.0, 94.0, 96.0]])
    found = difference(of_table(one_AS), of_table(other_AS))
    assert found is not None
    assert found.seeds == 2 and found.mean == pytest.approx(((7 - 2) + (5.5 - 3)) / 2)


def test_without_two_common_seeds_there_is_nothing_to_say() -> None:
    whole_AS = np.array([[97.0, 96.0], [90.0, 91.0]])
    lost_AS = np.array([[97.0, np.nan], [90.0, 91.0]])
    gone_AS = np.array([[97.0, 96.0], [np.nan, np.nan]])
    assert difference(of_table(whole_AS), of_table(lost_AS)) is None
    assert difference(of_table(whole_AS), of_table(gone_AS)) is None
