"""Measures other than test accuracy, and replicas that are measured by a lower bound."""

from __future__ import annotations

import math
import typing
from typing import Any

import numpy as np
import pandas as pd
import pytest

from initmem.memory import cells
from initmem.memory.difference import difference
from initmem.memory.measures import MEASURES, named
from initmem.memory.noise import errors
from initmem.memory.paired import Paired, fit, paired, spread
from initmem.memory.surface import means, sided
from initmem.records.rows import SCHEMA
from initmem.study.spec import Study
from tests.memory.rows import Rows, rows

STEPS = "steps_to_validation"


def stepped(table: dict[float, list[int | None]], budget: int = 1024, cell: str = "c") -> Rows:
    """Interpolated replicas by scale and seed that took so many steps; None did not get there."""
    made: Rows = []
    for scale, each in table.items():
        for seed, steps in enumerate(each):
            (row,) = rows((scale, seed, "interpolated", 90.0), cell=cell)
            made.append({**row, "steps": budget, STEPS: steps})
    return made


def line(of: Rows, **more: Any) -> dict[Any, Any]:
    (found,) = cells(pd.DataFrame(of), STEPS, **more).to_dict("records")
    return found


def test_a_study_can_name_them_and_rows_have_them() -> None:
    assert set(MEASURES) == set(typing.get_args(Study.model_fields["measure"].annotation))
    for measure in MEASURES.values():
        assert {measure.column, measure.final or measure.column} <= set(SCHEMA.names)
        assert named(measure.search).column in SCHEMA.names


def test_the_value_of_a_row() -> None:
    row = {"state": "plateaued", "steps": 500, STEPS: 64, "selected.ood_accuracy": 41.5}
    of = named(STEPS)
    assert of.value(row) == 6.0 and not of.censored(row)
    late = {**row, STEPS: None}
    assert of.value(late) == math.log2(500) and of.censored(late)
    assert of.censored({**late, STEPS: math.nan})
    undertrained = {**late, "state": "undertrained"}
    assert math.isnan(of.value(undertrained)) and not of.censored(undertrained)
    assert named("ood_accuracy").value(row) == 41.5
    assert math.isnan(named("ood_accuracy").value({**row, "selected.ood_accuracy": None}))
    assert not named("ood_accuracy").censored({**row, "selected.ood_accuracy": None})


def test_memory_of_steps_is_in_doublings() -> None:
    found = line(stepped({1.0: [32, 64], 2.0: [128, 256], 3.0: [64, 128]}))
    assert found["memory"] == 2.0 and found["mean"] == 6.5 and found["censored"] == 0
    assert (found["highest_at"], found["lowest_at"]) == (2.0, 1.0)
    assert found["memory_interpolated"] == 2.0 and math.isnan(found["memory_final"])
    assert "censored" not in cells(pd.DataFrame(stepped({1.0: [2], 2.0: [4]})))


def test_late_replicas_at_the_slow_end_make_a_lower_bound() -> None:
    fast: dict[float, list[int | None]] = {1.0: [31, 32, 34], 2.0: [31, 34, 33]}
    found = line(stepped({**fast, 3.0: [900, None, None]}))
    known = (math.log2(900) + 20) / 3 - math.log2(31 * 32 * 34) / 3
    assert found["memory"] == pytest.approx(known) and found["censored"] == 2
    assert found["low"] < known and found["high"] == math.inf
    assert found["verdict"] == "remembers" and math.isnan(found["memory_interpolated"])
    alone = line(stepped(fast))
    assert (found["sigma"], found["df"]) == (alone["sigma"], alone["df"]), "bounds have no noise"


def test_late_replicas_at_the_fast_end_say_nothing() -> None:
    for fast in ([None, None], [8, None]):
        found = line(stepped({1.0: fast, 2.0: [512, 600], 3.0: [512, None]}, budget=256))
        assert found["verdict"] == "censored" and math.isnan(found["memory"])
        assert (
            found["censored"] == sum(y is None for y in fast) + 1 and found["trained_values"] == 3
        )
    nobody = stepped({1.0: [None, None], 2.0: [None, None]})
    assert line(nobody)["verdict"] == "censored" and line(nobody)["mean"] == 10.0
    assert spread(nobody, STEPS)["memory"] is None and spread(nobody, STEPS)["censored"] == 4
    last = line(stepped({1.0: [1024, 1024], 2.0: [None, None]}))
    assert last["memory"] == 0.0 and last["high"] != 0.0, "who got there last is as fast as any"


def test_a_lower_bound_is_never_erased_nor_decided_by_seeds_while_small() -> None:
    steps = {1.0: [500, 501, 502, 503], 2.0: [503, 502, 501, 500], 3.0: [500, 502, 501, None]}
    found = line(stepped(steps, budget=504), threshold=9.0)
    assert found["verdict"] == "undecided" and math.isnan(found["more_seeds"])
    early = {**steps, 3.0: [500, 502, 501, 503]}
    assert line(stepped(early), threshold=9.0)["verdict"] == "erased"


def test_a_replica_that_stopped_early_is_known_for_its_own_steps() -> None:
    made = stepped({1.0: [600, 700], 2.0: [None, None]})
    found = line([{**row, "steps": 16} if row[STEPS] is None else row for row in made])
    assert found["verdict"] == "censored", "16 steps are no proof of slowness"


def test_a_difference_with_a_lower_bound_is_not_told() -> None:
    first = stepped({1.0: [8, 9], 2.0: [100, 120], 3.0: [20, 30]})
    second = stepped({1.0: [8, 9], 2.0: [100, None], 3.0: [20, 30]})
    third = stepped({1.0: [8, 9], 2.0: [200, 900], 3.0: [20, None]}, budget=64)
    assert difference(first, second, STEPS) is None
    found = difference(third, first, STEPS)
    assert found is not None and (found.best, found.worst) == (2.0, 1.0)
    assert found.mean == pytest.approx(math.log2(200 * 900 / 100 / 120) / 2)


def test_accuracy_out_of_distribution_has_its_own_final_predictor() -> None:
    made = rows(*((scale, seed, "interpolated", 90.0) for scale in (1.0, 2.0) for seed in (0, 1)))
    ood = [{**row, "selected.ood_accuracy": 40 * row["init.scale"] + row["seed"],
            "final.ood_accuracy": 10 * row["init.scale"]} for row in made]  # fmt: skip
    (found,) = cells(pd.DataFrame(ood), "ood_accuracy").to_dict("records")
    assert (found["memory"], found["memory_final"], found["mean"]) == (40.0, 10.0, 60.5)


def test_the_noise_of_a_mean_is_what_seeds_differ_by() -> None:
    """Seed means 1, 5 and 9: variance 16, of their mean 16 / 3."""
    table = fit(np.array([[0.0, 5, 10], [2, 5, 8]]))
    assert table.mean == 5.0 and table.mean_noise == pytest.approx((16.0, 2, 1 / 3))
    assert np.isnan(fit(np.array([[1.0], [2.0]])).mean_noise[0])
    late = paired(stepped({1.0: [2, 8], 2.0: [None, None]}), STEPS)
    assert late.mean_noise == pytest.approx((2.0, 1, 0.5)), "of the value without a bound"


def test_means_of_cells_with_their_errors() -> None:
    tables: list[Paired] = [fit(np.array([[0.0, 4], [0, 4]])), fit(np.array([[9.0, 7], [9, 7]]))]
    untrained = fit(np.empty((0, 2)), [], [1.0, 2.0])
    mean_N, error_N = means([tables[0], untrained, tables[1]])
    assert mean_N[[0, 2]].tolist() == [2.0, 8.0] and np.isnan([mean_N[1], error_N[1]]).all()
    same = errors(np.array([8.0, 2.0]), np.array([1, 1]), np.array([0.5, 0.5]))
    assert error_N[[0, 2]].tolist() == same.tolist() and (same > 0.9).all()


def test_a_bound_below_the_level_does_not_tell_the_side() -> None:
    found = sided(np.array([1.0, 3, 1, 3]), np.array([True, True, False, False]), 2.0)
    assert np.isnan(found[0]) and found[1:].tolist() == [3.0, 1.0, 3.0]
