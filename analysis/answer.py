"""The run in words: one sentence with its numbers, and what it does not say."""

from __future__ import annotations

import pandas as pd

from analysis import regularization, style
from analysis.tables import Run
from initmem.memory import STATES

FEW = 3
"""Correlations that are named one by one."""


def sentence(run: Run, correlations: pd.DataFrame) -> str:
    """Where memory is highest and lowest, and its rank correlation with lr x L2; with no memory
    in any cell, why there is none."""
    measured = run.cells.dropna(subset=["memory"]).sort_values("memory", kind="stable")
    if measured.empty:
        rows = run.cells[[*STATES, "missing"]].sum()
        counts = ", ".join(f"{n} {state}" for state, n in rows[rows > 0].items())
        return f"No cell has a memory: too few of its replicas are trained ({counts})."
    low, high = measured.iloc[0], measured.iloc[-1]
    if len(measured) == 1:
        alone = "" if len(run.cells) == 1 else "; no other cell has one"
        return f"Memory is {_points(run, high)}{alone}."
    said = f"Memory is highest, {_points(run, high)}, and lowest, {_points(run, low)}"
    return said + _correlated(correlations) + "."


def _points(run: Run, cell: pd.Series) -> str:
    arm = run.arms[cell["arm"]]
    point = style.listed({field: cell[field] for field in run.study.ranges})
    place = f", at {', '.join(filter(None, [arm, point]))}" if arm or point else ""
    trained, values = cell["trained_values"], cell["values"]
    part = f" (over {trained} of {values} values of {run.study.memory_axis})"
    return f"{cell['memory']:.1f} points{place}{part if trained < values else ''}"


def _correlated(correlations: pd.DataFrame) -> str:
    if correlations.empty:
        return ""
    if len(correlations) > FEW:
        least, most = correlations["correlation"].min(), correlations["correlation"].max()
        each = f"between {least:.2f} and {most:.2f} in {len(correlations)} arms"
        return f"; its rank correlation with lr x L2 is {each}"
    said = []
    for _, line in correlations.iterrows():
        where = f" for {line['panel']}" if line["panel"] else ""
        said.append(f"{regularization.interval(line)}{where}")
    return f"; its rank correlation with lr x L2 is {', and '.join(said)}"


def caveat(run: Run) -> str:
    """What the sentence must not be read as."""
    values, seeds = len(run.study.axes[run.study.memory_axis]), run.study.seeds
    means = f"{values} means over {seeds} {'seeds' if seeds > 1 else 'seed'} each"
    return (
        f"Memory is the largest minus the smallest of {means}, one for each value of "
        f"{run.study.memory_axis}. Such a spread of a few noisy means is above zero even where "
        "nothing is remembered: a small memory is no proof of any, and the highest and lowest of "
        "many are partly luck."
    )


def progress(run: Run) -> str:
    """How much of the study is there."""
    there = len(run.rows)
    if there == run.planned:
        return f"All {run.planned} planned replicas are there."
    return f"{there} of {run.planned} planned replicas are there; the numbers are of those."
