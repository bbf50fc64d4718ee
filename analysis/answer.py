"""The run in words: one sentence with its numbers, and what it does not say."""

from __future__ import annotations

import pandas as pd

from analysis import regularization, style
from analysis.tables import Run
from initmem.memory import STATES
from initmem.study import plan

FEW = 3
"""Correlations that are named one by one."""


def sentence(run: Run, correlations: pd.DataFrame) -> str:
    """Where memory is highest and lowest, what that is called, and its rank correlation with
    lr x L2; with no memory in any cell, why there is none."""
    measured = run.cells.dropna(subset=["memory"]).sort_values("memory", kind="stable")
    if measured.empty:
        rows = run.cells[[*STATES, "missing"]].sum()
        counts = ", ".join(f"{n} {state}" for state, n in rows[rows > 0].items())
        return f"No cell has a memory: too few of its replicas are trained ({counts})."
    low, high = measured.iloc[0], measured.iloc[-1]
    bounds = style.censored(measured)
    if len(measured) == 1:
        alone = "" if len(run.cells) == 1 else "; no other cell has one"
        return f"Memory is {_points(run, high)}{alone}: {verdicts(run)}."
    said = "As far as the budget tells, memory" if bounds.any() else "Memory"
    said += f" is highest, {_points(run, high)}, and lowest, {_points(run, low)}"
    return f"{said}: {verdicts(run)}{_correlated(correlations)}."


def verdicts(run: Run) -> str:
    """How many cells remember, and how many do not."""
    counts = run.cells["verdict"].value_counts()
    words = {
        "remembers": ("remembers", "remember"),
        "erased": ("is erased", "are erased"),
        "undecided": ("is undecided", "are undecided"),
        "not trained": ("is not trained", "are not trained"),
        "censored": ("is censored", "are censored"),
        "unfinished": ("is unfinished", "are unfinished"),
    }
    said = ", ".join(
        f"{counts[name]} {one if counts[name] == 1 else many}"
        for name, (one, many) in words.items()
        if name in counts
    )
    return f"of {len(run.cells)} cells {said}" if len(run.cells) > 1 else f"the cell {said[2:]}"


def _points(run: Run, cell: pd.Series) -> str:
    arm = run.arms[cell["arm"]]
    point = style.listed({field: cell[field] for field in run.study.ranges})
    place = f", at {', '.join(filter(None, [arm, point]))}" if arm or point else ""
    trained, values = cell["trained_values"], cell["values"]
    part = f" (over {trained} of {values} values of {run.study.memory_axis})"
    ends = "" if pd.isna(cell["low"]) else f" (95% {style.interval(cell)})"
    least = "at least " if style.censored(cell) else ""
    memory = f"{least}{cell['memory']:.1f} {run.measure.unit}"
    return f"{memory}{ends}{place}{part if trained < values else ''}"


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
    """What the sentence rests on, and must not be read as."""
    values, seeds = len(run.study.axes[run.study.memory_axis]), run.study.seeds
    means = f"{values} means over {seeds} {'seeds' if seeds > 1 else 'seed'} each"
    said = (
        f"Memory is the largest minus the smallest of {means}, one for each value of "
        f"{run.study.memory_axis}. Such a spread of a few noisy means is above zero even where "
        "nothing is remembered"
    )
    known = run.cells.dropna(subset=["floor"])
    if known.empty:
        undecided = f"{said}; how far above, only more seeds can tell, so no cell is decided."
        return f"{undecided}{_censored(run)}"
    floor, sigma, threshold = known["floor"].median(), known["sigma"].median(), run.study.threshold
    unit = run.measure.unit
    return (
        f"{said}: with the noise that there is between seeds here, {sigma:.2g} {unit} (median of "
        f"the cells), {floor:.1f} {unit} are to be expected. A cell remembers if its spread is "
        f"beyond chance (p < 0.05) and at least {threshold:g} {unit}, and is erased if the 90% "
        f"interval ends below {threshold:g}.{_undecided(run)}{_censored(run)}"
    )


def _censored(run: Run) -> str:
    """How much of the run is but a lower bound."""
    cells = run.cells[style.censored(run.cells)]
    if cells.empty:
        return ""
    replicas, hidden = int(cells["censored"].sum()), (cells["verdict"] == "censored").sum()
    return (
        f" {replicas} trained replicas, of {len(cells)} of {len(run.cells)} cells, did not get "
        f"there in the steps that they were trained for, and count as log2 of those: memory of "
        f"such a cell is a lower bound, or, where the fastest value of {run.study.memory_axis} is "
        f"among them ({hidden} of the cells, censored), unknown."
    )


def _undecided(run: Run) -> str:
    cells = run.cells[run.cells["verdict"] == "undecided"]
    more = cells["more_seeds"].dropna()
    if cells.empty:
        return ""
    if more.empty:
        return " No affordable number of seeds would decide the undecided ones."
    fewest, most = f"{more.min():.0f}", f"{more.max():.0f}"
    seeds = fewest if fewest == most else f"{fewest} to {most}"
    part = "" if len(more) == len(cells) else f" {len(more)} of"
    plural = "s" if seeds != "1" else ""
    return (
        f" About {seeds} more seed{plural} would decide{part} the undecided, if their spread "
        "stays as it is."
    )


def progress(run: Run) -> str:
    """How much of the study is there."""
    there = len(run.rows)
    if there == run.planned:
        return f"All {run.planned} planned replicas are there.{_early(run)}"
    said = f"{there} of {run.planned} planned replicas are there; the numbers are of those."
    return said + _early(run)


def _early(run: Run) -> str:
    if not run.ended:
        return ""
    fewest, most = min(run.ended.values()), max(run.ended.values())
    after = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    part = f" in {len(run.ended)} of {len(run.arms)} arms" if len(run.arms) > 1 else ""
    return (
        f" The search ended early{part}, after {after} of at most {plan.draws(run.study)} draws: "
        f"the band of the frontier was narrow enough ({run.study.search.stop_when})."
    )
