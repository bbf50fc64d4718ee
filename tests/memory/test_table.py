"""The table of cells."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from initmem.memory import cells
from initmem.memory.table import permuted
from tests.memory.rows import of_table, rows


def table(count: int = 3, seeds: int = 3, spread: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    truth_A = np.linspace(0, spread, 4)[:, None]
    made = [of_table(truth_A + rng.normal(80, 1, (4, seeds)), f"c{k}") for k in range(count)]
    return pd.DataFrame([row for cell in made for row in cell])


def test_a_line_a_cell_with_its_uncertainty() -> None:
    found = cells(table(spread=9.0))
    assert list(found["cell"]) == ["c0", "c1", "c2"] and set(found["verdict"]) == {"remembers"}
    first = found.iloc[0]
    assert first["low"] < first["memory"] < first["high"] and first["p"] < 0.01
    assert first["p_permuted"] < 0.05 and 0.5 < first["sigma"] < 2 and first["more_seeds"] == 0
    assert (first["highest_at"], first["lowest_at"], first["values"]) == (4.0, 1.0, 4)
    assert (first["interpolated"], first["n"], first["seeds"]) == (12, 12, 3)
    assert first["optim.lr"] == 0.1 and "init.scale" not in found


def test_noise_is_pooled_over_an_arm_or_over_arms_of_one_cell() -> None:
    frame = table(count=6)
    whole = cells(frame)
    alone = cells(frame.assign(arm=frame["cell"]))
    same = whole.drop(columns="arm")
    pd.testing.assert_frame_equal(alone.drop(columns="arm"), same)
    halves = cells(frame.assign(arm=frame["cell"].isin(["c0", "c1", "c2"]).map(str)))
    assert (halves["df"] != whole["df"]).all()


def test_any_column_is_a_measure() -> None:
    frame = table()
    frame["steps_to_generalize"] = frame["init.scale"] * 100 + frame["seed"]
    found = cells(frame, "steps_to_generalize", threshold=50)
    assert found["memory"].tolist() == pytest.approx([300.0] * 3)
    assert set(found["verdict"]) == {"remembers"}


def test_an_untrained_cell_is_nan_not_zero() -> None:
    found = cells(pd.DataFrame(rows((1.0, 0, "failed", None), (2.0, 0, "failed", None))))
    assert np.isnan(found["memory"].iloc[0]) and found["failed"].iloc[0] == 2
    assert found["verdict"].iloc[0] == "not trained" and found["untrained"].iloc[0] == [1.0, 2.0]


def test_permutations_within_seeds() -> None:
    """Of 2 values and 4 seeds there are 16; two of them are as extreme as all high, all low."""
    assert permuted(np.array([[1.0, 2, 3, 4], [9, 8, 7, 6]])) == pytest.approx(2 / 16)
    assert permuted(np.array([[1.0, 2, np.nan], [9, 8, 7]])) == pytest.approx(2 / 4)
    assert np.isnan(permuted(np.array([[1.0], [9.0]])))


def test_more_seeds_narrow_the_intervals() -> None:
    few, many = cells(table(seeds=3)), cells(table(seeds=12))
    width = [(found["high"] - found["memory"]).mean() for found in (few, many)]
    assert 0.35 < width[1] / width[0] < 0.6, "by about the root of four"
