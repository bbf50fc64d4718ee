"""The paired table and its fit, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from initmem.memory import spread
from initmem.memory.paired import fit, paired
from tests.memory.rows import rows

NAN = np.nan

WHOLE = rows(
    (1.0, 0, "interpolated", 95.0),
    (1.0, 1, "interpolated", 97.0),
    (2.0, 0, "interpolated", 90.0),
    (2.0, 1, "plateaued", 92.0),
    (4.0, 0, "interpolated", 80.0),
    (4.0, 1, "interpolated", 84.0),
)


def test_spread_of_seed_means() -> None:
    assert spread(WHOLE) == {
        "memory": pytest.approx(14.0), "highest_at": 1.0, "lowest_at": 4.0,
        "mean": pytest.approx((96 + 91 + 82) / 3), "values": 3, "trained_values": 3, "n": 6,
    }  # fmt: skip


def test_the_noise_is_what_values_and_seeds_leave() -> None:
    table = paired(WHOLE)
    residual = np.array([1, -1, 1, -1, -2, 2]) / 3  # of the differences 2, 2, 4 by half
    assert table.df == 2 and table.mean_square == pytest.approx(residual @ residual / 2)
    assert table.contrast_AA == pytest.approx(np.ones((3, 3)) - np.eye(3))


def test_a_missing_seed_does_not_pass_for_memory() -> None:
    """Seed 1 is 10 points better everywhere, and missing at one value."""
    table = fit(np.array([[80.0, 90.0], [80.0, 90.0], [80.0, NAN]]))
    assert table.mean_A == pytest.approx([85, 85, 85]) and table.spread == pytest.approx(0)
    assert table.df == 1 and table.contrast_AA[0, 1] == pytest.approx(1)
    assert table.contrast_AA[0, 2] == pytest.approx(1.75), "less is known of the third"


def test_values_without_a_common_seed_are_compared_without_pairing() -> None:
    table = fit(np.array([[80.0, 82.0, NAN, NAN], [NAN, NAN, 90.0, 94.0]]))
    assert table.mean_A == pytest.approx([81, 92]) and table.df == 2
    assert table.mean_square == pytest.approx((1 + 1 + 4 + 4) / 2)


@pytest.mark.parametrize("state", ["undertrained", "diverged", "failed"])
def test_untrained_replicas_are_never_mixed_in(state: str) -> None:
    mixed = [*WHOLE, *rows((1.0, 2, state, 0.0), (2.0, 2, state, None))]
    assert spread(mixed) == pytest.approx(spread(WHOLE))


def test_interpolated_alone_leaves_plateaued_out() -> None:
    assert paired(WHOLE, states=("interpolated",)).n == 5


def test_no_memory_where_fewer_than_half_the_values_are_trained() -> None:
    one = rows((1.0, 0, "interpolated", 95.0), (2.0, 0, "diverged", None))
    assert spread(one)["memory"] is None
    two_of_five = rows(
        (1.0, 0, "interpolated", 95.0), (2.0, 0, "interpolated", 90.0),
        *((v, 0, "diverged", None) for v in (3.0, 4.0, 5.0)),
    )  # fmt: skip
    assert spread(two_of_five)["memory"] is None
    assert paired(two_of_five).untrained == [3.0, 4.0, 5.0]
    assert spread(two_of_five[:4])["memory"] == pytest.approx(5.0)


def test_nothing_at_all() -> None:
    assert spread(rows((1.0, 0, "failed", None)))["mean"] is None
    assert paired([]).n == 0
