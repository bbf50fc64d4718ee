"""A table of rows -> a table of cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import permutation_test

from initmem.memory.estimate import THRESHOLD, Estimate, estimates
from initmem.memory.measures import MEASURE, STATES, TRAINED, named
from initmem.memory.paired import Array, Paired, paired
from initmem.memory.predictions import PREDICTIONS, disagreement

if TYPE_CHECKING:
    import pandas as pd

RESAMPLES = 9999
SECTIONS = ("data.", "model.", "init.", "optim.", "penalty.", "pretrain.", "random_labels.")
"""Of a recipe, as columns begin: those of its fields that a cell can differ in."""
OF_WHOLE = ("memory", "memory_final", "memory_interpolated", "floor", "p", "p_permuted", "low",
            "high", "more_seeds", "highest_at", "lowest_at")  # fmt: skip
"""Columns that only a cell with rows at every value of the axis has."""

Line = dict[str, Any]


def cells(
    rows: pd.DataFrame,
    measure: str = MEASURE,
    *,
    threshold: float = THRESHOLD,
    states: tuple[str, ...] = TRAINED,
    axis_values: int | None = None,
) -> pd.DataFrame:
    """The cells of a table of rows, a line each, by arm and draw.

    measure: a name in `measures`, or any column of numbers; threshold: in its unit; axis_values:
    how many values the memory axis has. A cell that has rows at fewer gets no memory and the
    verdict `unfinished`: a spread over fewer values is smaller for that alone. Columns:

    - arm, cell, draw, and the columns of the recipe that are the same for the whole cell
    - memory: the spread; highest_at, lowest_at: the values that attain it; mean: over the values;
      values, trained_values, untrained: of the memory axis; n: replicas used; seeds
    - sigma, df: noise between replicas, pooled over the arm (over all arms, where each is a single
      cell), and its degrees of freedom; error:
      standard error of the spread; floor: the spread to expect of nothing; p; p_permuted: the
      same without assuming normal noise; low, high: simultaneous 95% interval; verdict;
      more_seeds (all: `estimate.Estimate`)
    - memory_final: of the final predictor; memory_interpolated: over interpolated replicas alone
    - censored, for steps alone: replicas that are measured by a lower bound. Where there are any,
      memory, low and mean are lower bounds, and high is inf; where the smallest mean has one,
      there is no memory, and the verdict is `censored`
    - function_memory, function_within, function_p (see `predictions.disagreement`)
    - validation: mean selected validation accuracy; a count for each state
    """
    import pandas as pd

    of = named(measure)
    lines: list[Line] = []
    lone = (rows.groupby("arm")["cell"].nunique() == 1).all()
    pools = [rows] if lone else [of_arm for _, of_arm in rows.groupby("arm", sort=False)]
    for pooled in pools:
        groups = [group for _, group in pooled.groupby(["arm", "cell"], sort=False)]
        replicas: list[list[Line]] = [_records(group) for group in groups]
        tables = [paired(cell, measure, states) for cell in replicas]
        step = _resolution(tables)
        for group, cell, estimate in zip(
            groups, replicas, estimates(tables, threshold, step), strict=True
        ):
            counts = group["state"].value_counts()
            line: Line = {
                "arm": cell[0]["arm"],
                "cell": cell[0]["cell"],
                "draw": cell[0]["draw"],
                **_numbers(estimate),
                "memory_final": _exact(paired(cell, of.final, states)) if of.final else np.nan,
                "memory_interpolated": _exact(paired(cell, measure, ("interpolated",))),
                **(disagreement(cell, states=states) if PREDICTIONS in group else {}),
                "validation": paired(cell, "selected.validation_accuracy", states).mean,
                **({"censored": estimate.table.censored} if of.steps else {}),
                **{state: int(counts.get(state, 0)) for state in STATES},
                **_shared(group),
            }
            if line["values"] < (axis_values or 0):
                line |= {**dict.fromkeys(OF_WHOLE, np.nan), "verdict": "unfinished"}
            lines.append(line)
    return pd.DataFrame(lines)


def _numbers(estimate: Estimate) -> Line:
    table = estimate.table
    line: Line = {
        **table.summary,
        "memory": _spread(table),
        "mean": table.mean,
        "untrained": list(table.untrained),
        "seeds": table.seeds,
        "sigma": estimate.sigma,
        "error": estimate.spread_error if table.whole else np.nan,
        "df": estimate.df,
        "verdict": estimate.verdict,
    }
    numbers = dict.fromkeys(("floor", "p", "p_permuted", "low", "high", "more_seeds"), np.nan)
    if table.whole:
        low, high = estimate.interval()
        numbers = {
            "floor": estimate.floor,
            "p": estimate.p,
            "p_permuted": permuted(table.measured_AS),
            "low": low,
            "high": high,
            "more_seeds": estimate.more_seeds,
        }
    return line | numbers


def permuted(measured_AS: Array) -> float:
    """p-value of the spread when values change places within each seed, over the seeds that are
    measured at every value; nan below two of them. All permutations where they are few."""
    whole_AS = measured_AS[:, np.isfinite(measured_AS).all(axis=0)]
    if whole_AS.shape[1] < 2:
        return np.nan

    def spread(*samples: Array, axis: int) -> Array:
        return np.ptp(np.stack([sample.mean(axis=axis) for sample in samples]), axis=0)

    test = permutation_test(
        tuple(whole_AS),
        spread,
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        alternative="greater",
        rng=np.random.default_rng(0),
    )
    return float(test.pvalue)


def _resolution(tables: list[Paired]) -> float:
    """The smallest step of the measure that is seen in an arm."""
    seen = np.unique(np.concatenate([table.measured_AS.ravel() for table in tables]))
    steps = np.diff(seen[np.isfinite(seen)])
    return float(steps[steps > 1e-9].min(initial=np.inf)) if (steps > 1e-9).any() else 0.0


def _spread(table: Paired) -> float:
    return table.spread if table.whole else np.nan


def _exact(table: Paired) -> float:
    return np.nan if table.censored else _spread(table)


def _records(group: pd.DataFrame) -> list[Line]:
    return [
        {str(name): value for name, value in line.items()} for line in group.to_dict("records")
    ]


def _shared(group: pd.DataFrame) -> Line:
    fields = [str(c) for c in group if str(c).startswith(SECTIONS)]
    fields += ["eval_every", "precision", "memory_axis", "total_steps"]
    return {name: group[name].iloc[0] for name in fields if group[name].nunique(dropna=False) == 1}
