"""How many steps until a network generalizes, and how many times fewer at another value.

A network generalizes at the first evaluation at which a share of the validation set is right
(`steps_to.validation`). One that ended before is censored; one that diverged or failed is
counted apart, for it is not known to be late.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from analysis import style, survival
from analysis.differences import labels
from analysis.survival import Times
from analysis.tables import Run
from initmem.study import plan
from initmem.study.recipe import variants
from initmem.study.spec import word

APART = ("diverged", "failed")
"""States of networks that have no time."""
SHARES = (0.95, 0.99)
"""Of which one is computed beside the share that the study names."""


USED = ["steps_to_validation", "optim.stop_validation", "steps", "total_steps"]


def of_tokens(run: Run) -> pd.DataFrame:
    """The rows whose data are sequences of tokens."""
    kinds = {name: data.kind for name, data in variants("data").items()}  # type: ignore[attr-defined]  # of each
    return run.rows[run.rows["data.name"].map(kinds) == "tokens"]


def groups(run: Run) -> dict[tuple[str, Any], pd.DataFrame]:
    """(cell, value of the memory axis) -> its rows, in the order of the study; of data whose
    answers are right or wrong as a whole, so not of a text."""
    whole = {name for name, data in variants("data").items() if getattr(data, "whole", False)}
    rows = run.rows[run.rows["data.name"].isin(whole)]
    values = run.study.axes[run.study.memory_axis]
    found = {
        (cell, value): of_cell[of_cell[run.study.memory_axis] == value]
        for cell, of_cell in rows.groupby("cell", sort=False)
        for value in values
    }
    return {(str(cell), value): group for (cell, value), group in found.items() if len(group)}


def times(rows: pd.DataFrame, share: float | None = None) -> Times | None:
    """Of the rows of a group, without those APART: steps until the study's share of the
    validation set, or another share, is right. None where a network was ended for what it got
    right (`optim.stop_validation`) before this share, so that nobody knows."""
    rows = rows[~rows["state"].isin(APART)]
    step_N, seen_N = [], []
    for row in rows[[*USED, "curve"]].to_dict("records"):
        step = row["steps_to_validation"] if share is None else _reached(row["curve"], share)
        stop = row["optim.stop_validation"]
        if pd.isna(step) and row["steps"] < row["total_steps"] and pd.notna(stop):
            if _reached(row["curve"], stop) is not None:
                return None
        seen_N.append(pd.notna(step))
        step_N.append(row["steps"] if pd.isna(step) else step)
    return Times(
        np.array(step_N, dtype=int), np.array(seen_N, dtype=bool), rows["seed"].to_numpy(int)
    )


def _reached(curve: Any, share: float) -> int | None:
    """The first evaluation with this share right. A row without a curve reached nothing."""
    points = curve if curve is not None else ()
    reached = (p["step"] for p in points if p["validation_accuracy"] >= 100 * share)
    return next((int(step) for step in reached), None)


def table(run: Run) -> pd.DataFrame:
    """A line a cell and value of the memory axis. Columns: cell; label (of the cell); value;
    share (asked for); n (networks with a time, or censored), generalized, censored, and a count
    for each of APART; fitted (median of steps_to_train, nan where fewer than half fitted); median
    (nan where fewer than half generalized, or it is not known), at_least (what the median is not
    below); low, high and coverage (its interval, see `survival.interval`); first and last
    (smallest and largest time, inf for a censored one); other_share, other_median and
    other_at_least: the same for another share, nan where it is not known."""
    names = labels(run)
    lines = []
    for (cell, value), rows in groups(run).items():
        share = rows["steps_to.validation"].iloc[0]
        other = SHARES[0] if share >= SHARES[1] else SHARES[1]
        known = times(rows)
        states = rows["state"].value_counts()
        line = {"cell": cell, "label": names[cell], "value": value, "share": share}
        line |= _summary(known) | {state: states.get(state, 0) for state in APART}
        line["fitted"] = _fitted(rows)
        beside = times(rows, other)
        line["other_share"] = other
        line["other_median"], line["other_at_least"] = _median(beside)
        lines.append(line)
    return pd.DataFrame(lines)


def _fitted(rows: pd.DataFrame) -> float:
    step_N = rows[~rows["state"].isin(APART)]["steps_to_train"].fillna(np.inf).to_numpy(float)
    found = np.sort(step_N)[(len(step_N) - 1) // 2] if len(step_N) else np.nan
    return float(found) if np.isfinite(found) else np.nan


def _median(known: Times | None) -> tuple[float, float]:
    """nan for a median that is only known not to be below the second number."""
    if known is None:
        return np.nan, np.nan
    median, least = survival.median(known)
    return (median if np.isfinite(median) else np.nan), least


def _summary(known: Times | None) -> dict[str, Any]:
    blank = dict.fromkeys(
        ("median", "at_least", "low", "high", "coverage", "first", "last"), np.nan
    )
    if known is None or not len(known.step_N):
        return {"n": 0, "generalized": 0, "censored": 0, **blank}
    median, least = _median(known)
    low, high, coverage = survival.interval(known)
    seen = int(known.seen_N.sum())
    open_N = np.where(known.seen_N, known.step_N, np.inf)
    return {
        "n": len(open_N), "generalized": seen, "censored": len(open_N) - seen,
        "median": median, "at_least": least, "low": low, "high": high, "coverage": coverage,
        "first": open_N.min(), "last": open_N.max(),
    }  # fmt: skip


def ratios(run: Run) -> pd.DataFrame:
    """Medians against the first listed value, of the memory axis within a cell, and of each other
    axis between cells that differ in nothing else that both have. Columns: field; shared (label
    of what they have in common); reference and other (labels of the two values), and where they
    stand in `table`: reference_cell, reference_value, cell, value; ratio (times fewer steps than
    the reference), bound, low, high (95%) and seeds: see `survival.Ratio`."""
    known = {key: times(rows) for key, rows in groups(run).items()}
    lines = []
    for line in _compared(run):
        a = known.get((line["reference_cell"], line["reference_value"]))
        b = known.get((line["cell"], line["value"]))
        if a is None or b is None:
            continue
        found = survival.ratio(a, b)
        line |= {"ratio": found.value, "bound": found.bound, "low": found.low}
        lines.append(line | {"high": found.high, "seeds": found.seeds})
    return pd.DataFrame(lines)


def _compared(run: Run) -> Iterator[dict[str, Any]]:
    axis, names = run.study.memory_axis, labels(run)
    values = run.study.axes[axis]
    cells: list[Any] = run.cells.to_dict("records")
    for cell in cells:
        for value in values[1:]:
            yield {
                "field": axis, "shared": names[cell["cell"]],
                "reference": style.number(values[0]), "other": style.number(value),
                "reference_cell": cell["cell"], "reference_value": values[0],
                "cell": cell["cell"], "value": value,
            }  # fmt: skip
    arms = {arm.id: arm.values for arm in plan.arms(run.study)}
    for field in (field for field in run.study.axes if field != axis):
        first = run.study.axes[field][0]
        for cell in (cell for cell in cells if arms[cell["arm"]].get(field) == first):
            mine = arms[cell["arm"]]
            for other in cells:
                its = arms[other["arm"]]
                both = (mine.keys() & its.keys()) - {field}
                if its.get(field, first) == first or any(mine[f] != its[f] for f in both):
                    continue
                if any(cell[f] != other[f] for f in run.study.ranges):
                    continue
                more = {f: v for f, v in its.items() if f not in mine}
                point = {f: cell[f] for f in run.study.ranges}
                rest = {f: v for f, v in mine.items() if f != field} | point
                name = ", ".join(filter(None, [_named(its[field]), style.listed(more)]))
                for value in values:
                    yield {
                        "field": field, "shared": style.listed(rest | {axis: value}),
                        "reference": _named(first), "other": name,
                        "reference_cell": cell["cell"], "reference_value": value,
                        "cell": other["cell"], "value": value,
                    }  # fmt: skip


def _named(value: Any) -> str:
    """Of an arm; null is a value of its own, such as a full batch."""
    return word(value) if value is None else style.number(value)
