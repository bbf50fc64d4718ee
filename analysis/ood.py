"""Out of distribution: by reasoning or by symmetry, and what a study does not show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from analysis.differences import labels
from analysis.generalization import APART
from analysis.style import number
from analysis.tables import Run

HALF = 50.0
"""Percent of the answers from which a way of answering is said to be that of a network."""
PREDICTORS = ("selected", "final")
WAYS = {"reasoning": "ood_accuracy", "symmetric": "symmetric_accuracy"}
WORDS = {"reasoning": "by reasoning", "symmetric": "by symmetry"}


def table(run: Run) -> pd.DataFrame:
    """A line a cell and value of the memory axis, over networks that did not diverge or fail.
    Columns: id (of the cell), cell (label), value, n (seeds), fitted (of them), seen (mean test
    accuracy of the selected predictor, in distribution), for each of PREDICTORS and WAYS
    mean, low and high (95%, Student's t over seeds, within 0 to 100; nan where
    seeds do not differ), as in
    selected.reasoning, selected.reasoning.low; best: the mean of each seed's best over training by
    reasoning, which is selected on what it reports. Empty without a set out of distribution."""
    axis, names = run.study.memory_axis, labels(run)
    rows = run.rows[run.rows["selected.ood_accuracy"].notna() & ~run.rows["state"].isin(APART)]
    lines = []
    for cell, of_cell in rows.groupby("cell", sort=False):
        for value in run.study.axes[axis]:
            group = of_cell[of_cell[axis] == value]
            if group.empty:
                continue
            line: dict[str, Any] = {"id": cell, "cell": names[str(cell)], "value": value}
            line |= {"n": len(group), "seen": group["selected.test_accuracy"].mean()}
            line["fitted"] = int(group["steps_to_train"].notna().sum())
            for predictor in PREDICTORS:
                for way, column in WAYS.items():
                    name = f"{predictor}.{way}"
                    line[name], line[f"{name}.low"], line[f"{name}.high"] = mean_of(
                        group[f"{predictor}.{column}"].dropna().to_numpy(float)
                    )
            best = [_best(curve) for curve in group["curve"] if curve is not None]
            line["best"] = float(np.mean(best)) if best else np.nan
            lines.append(line)
    return pd.DataFrame(lines)


def mean_of(value_S: np.ndarray, most: float = 100.0) -> tuple[float, float, float]:
    """Mean over seeds and its 95% interval (Student's t), within 0 to `most`; nan for the ends
    where seeds do not differ."""
    size = len(value_S)
    mean = value_S.mean() if size else np.nan
    if size < 2 or np.ptp(value_S) == 0:
        return float(mean), np.nan, np.nan
    reach = student.ppf(0.975, size - 1) * value_S.std(ddof=1) / np.sqrt(size)
    return float(mean), float(max(0.0, mean - reach)), float(min(most, mean + reach))


def _best(curve: Any) -> float:
    return max(point["ood_accuracy"] for point in curve)


def texts(run: Run, table: pd.DataFrame) -> pd.DataFrame:
    """The table as it is read; without the column of cells where there is one."""
    lines = pd.DataFrame(
        {
            "cell": table["cell"],
            run.study.memory_axis: table["value"].map(number),
            "n": table["n"].astype(str),
            "fitted": table["fitted"].astype(str),
            "seen pairs, selected": table["seen"].map(_percent),
        }
    )
    each: list[Any] = table.to_dict("records")
    for predictor in PREDICTORS:
        for way in WAYS:
            if table[f"{predictor}.{way}"].notna().any():
                lines[f"{way}, {predictor}"] = [
                    _interval(line, f"{predictor}.{way}") for line in each
                ]
    lines["best over training"] = [_percent(line["best"]) for line in each]
    return lines if table["cell"].nunique() > 1 else lines.drop(columns="cell")


def _interval(line: Any, name: str) -> str:
    if pd.isna(line[f"{name}.low"]):
        return _percent(line[name])
    return f"{line[name]:.1f} ({line[f'{name}.low']:.1f} to {line[f'{name}.high']:.1f})"


def _percent(value: float) -> str:
    return "-" if pd.isna(value) else f"{value:.1f}"


def said(run: Run, table: pd.DataFrame) -> list[str]:
    """Which values answer out of distribution, and how; what the study does not show; and what
    others would report."""
    axis = run.study.memory_axis
    known = [way for way in WAYS if table[f"selected.{way}"].notna().any()]
    return [
        *_answered(axis, table, known),
        *_unsure(axis, table, known),
        *_unfitted(axis, table),
        *_best_is_none(axis, table),
    ]


def _answered(axis: str, table: pd.DataFrame, known: list[str]) -> list[str]:
    reached = {way: table[table[f"selected.{way}"] >= HALF] for way in known}
    asked = "half of the out-of-distribution answers"
    none = f"No value of {axis} reaches {asked}"
    if any(map(len, reached.values())):
        return [
            f"{_places(axis, found, f'selected.{way}')} {_verb(found)} {asked} {WORDS[way]}."
            if len(found)
            else f"No value of {axis} reaches half {WORDS[way]}."
            for way, found in reached.items()
        ]
    if "symmetric" not in known:
        return [f"{none}: this study does not show reasoning at any."]
    which = f"which of the two {_subject(axis)} prefers"
    return [f"{none}, neither by reasoning nor by symmetry: this study does not show {which}."]


def _unsure(axis: str, table: pd.DataFrame, known: list[str]) -> list[str]:
    """Where the interval of a mean holds a half, more seeds could turn it."""
    if table["n"].max() < 2:
        return ["A single seed has no interval."]
    found = pd.Series(False, index=table.index)
    for way in known:
        name = f"selected.{way}"
        found |= (table[f"{name}.low"] <= HALF) & (table[f"{name}.high"] >= HALF)
    return [f"More seeds may turn this at {_places(axis, table[found])}."] if found.any() else []


def _unfitted(axis: str, table: pd.DataFrame) -> list[str]:
    late = table[table["fitted"] < table["n"] / 2]
    if late.empty:
        return []
    return [
        f"At {_places(axis, late)} fewer than half of the networks fit their training set: not "
        "fitted is not memorized."
    ]


def _best_is_none(axis: str, table: pd.DataFrame) -> list[str]:
    known: list[Any] = table.dropna(subset=["best"]).to_dict("records")
    if not known:
        return []
    top = max(known, key=lambda line: line["best"])
    return [
        "All this is of validation-selected predictors. The best over training on the "
        f"out-of-distribution set, which papers report, would be {top['best']:.1f}% by reasoning "
        f"(at {_place(axis, top)}); it is no result here, for it selects on what it reports."
    ]


def _subject(axis: str) -> str:
    return (
        "a small initialization" if axis in ("init.scale", "init.gamma") else f"a value of {axis}"
    )


def _place(axis: str, line: Any) -> str:
    where = f"{line['cell']}, " if line["cell"] else ""
    return f"{where}{axis} {number(line['value'])}"


def _places(axis: str, lines: pd.DataFrame, column: str = "") -> str:
    """The lines by name, with the mean in a column; of many, their number."""
    if len(lines) > 4:
        return f"{len(lines)} combinations of cell and {axis}"
    each = [
        _place(axis, line) + (f" ({line[column]:.1f}%)" if column else "")
        for line in lines.to_dict("records")
    ]
    return " and ".join(each)


def _verb(lines: pd.DataFrame) -> str:
    return "reaches" if len(lines) == 1 else "reach"
