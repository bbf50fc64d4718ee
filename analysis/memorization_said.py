"""What the tables of `memorization.py` say, as tables that are read and in sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import permutation_test, rankdata

from analysis.differences import labels
from analysis.memorization import PREDICTORS, STRENGTH, left_out
from analysis.style import chance, listed, number
from analysis.tables import Run

FEWEST = 6
"""Points below which no correlation, and cells below which no interval of one, is told."""
RESAMPLES = 999


def said(run: Run, strengths: pd.DataFrame, points: pd.DataFrame, both: pd.DataFrame) -> list[str]:
    """The tables `effects`, `against` and `cells` in sentences, then what is in none of them."""
    return [
        *(_effect(line) for line in strengths.to_dict("records")),
        *_correlated(points, both),
        *(_counted(run, both) if STRENGTH != run.study.memory_axis else []),
        *(_erased(both) if STRENGTH in run.study.ranges else []),
        *_left(run, both),
    ]


def _left(run: Run, both: pd.DataFrame) -> list[str]:
    """Networks and cells that are not in the tables."""
    lost, missing = left_out(run), run.planned - len(run.rows)
    ours = run.rows.loc[run.rows["random_labels.name"] == "heads", "cell"].unique()
    kept = list(both["cell"]) if len(both) else []
    apart = run.cells[run.cells["cell"].isin(ours) & ~run.cells["cell"].isin(kept)]
    verdicts = listed(apart["verdict"].value_counts().to_dict())
    sentences = {
        f"{_count(lost, 'network that diverged or failed', 'networks that diverged or failed')} "
        "left out.": lost,
        f"{_count(missing, 'planned network')} without a row.": missing,
        f"{len(apart)} of {len(ours)} cells lack one of the two spreads to compare (verdicts on "
        f"memory: {verdicts}).": len(apart),
    }
    return [text for text, count in sentences.items() if count]


def _count(number: int, one: str, more: str = "") -> str:
    return f"{number} {one} is" if number == 1 else f"{number} {more or one + 's'} are"


def _effect(line: Any) -> str:
    where = f"{line['panel']}: s" if line["panel"] else "S"
    if not line["n"]:
        return f"{where}trength {number(line['strength'])} has no network to hold against 0."
    fell = f"takes memorization from {line['before']:.0f}% to {line['after']:.0f}%"
    more = []
    if pd.notna(line["memorization.low"]):
        ends = f"{line['memorization.low']:+.1f} to {line['memorization.high']:+.1f}"
        more.append(f"{line['memorization.verdict']}, {ends}")
    if pd.notna(line["control"]):
        more.append(f"{line['control']:.0f}% by fresh heads")
    fell += f" ({'; '.join(more)})" if more else ""
    late = f" ({line['undertrained']} networks undertrained)" if line["undertrained"] else ""
    parts = []
    for name in PREDICTORS:
        between = ""
        if pd.notna(line[f"{name}.low"]):
            between = f", {line[f'{name}.low']:+.1f} to {line[f'{name}.high']:+.1f}"
        change = f"{line[f'{name}.difference']:+.1f} points{between}"
        parts.append(f"{name} predictor {line[f'{name}.verdict']} ({change})")
    return (
        f"{where}trength {number(line['strength'])} {fell}; {', '.join(parts)}; "
        f"n = {line['n']} {line['unit']}s{late}."
    )


def _correlated(points: pd.DataFrame, both: pd.DataFrame) -> list[str]:
    """Within panels, and within numbers of labels, for others are not comparable."""
    sentences = []
    keys: Any
    for keys, group in points.groupby(["panel", "labels"], sort=False):
        panel, count = keys
        if len(group) >= FEWEST:
            found = _rank(group, "memorization", "accuracy")
            where = listed({"random_labels.n": count}) if points["labels"].nunique() > 1 else ""
            where = (
                panel if "random_labels.n" in panel else ", ".join(filter(None, [panel, where]))
            )
            sentences.append(
                f"{where}: over" * bool(where) + "Over" * (not where) + " cells and values of the "
                f"memory axis memorization and test accuracy have rank correlation {found}."
            )
    each = both.groupby("random_labels.n") if "random_labels.n" in both else [(None, both)]
    for count, group in each:
        if len(group) >= FEWEST:
            where = f" with {number(count)} labels" if len(group) < len(both) else ""
            found = _rank(group, "memory", "change")
            sentences.append(
                f"Over cells{where} memory and the spread of memorization have rank correlation "
                f"{found}."
            )
    return sentences


def _ranked(value_N: np.ndarray) -> np.ndarray:
    """Ranks of mean 0 and deviation 1; zeros, of values that are all the same."""
    rank_N = rankdata(value_N) - (len(value_N) + 1) / 2
    return rank_N / (rank_N.std() or 1.0)


def _rank(points: pd.DataFrame, x: str, y: str, held: str | None = None) -> str:
    """Spearman's correlation of two columns, that with `held` taken out of both where there is
    one, with its 95% interval (bootstrap over cells), a permutation p-value and n."""

    def ranks(value_NK: np.ndarray) -> np.ndarray:
        rank_KN = [_ranked(value_N) for value_N in value_NK.T]
        if held is None:
            return np.array(rank_KN)
        base_N = rank_KN.pop()
        rest_KN = [
            rank_N - (rank_N @ base_N) / (base_N @ base_N or 1) * base_N for rank_N in rank_KN
        ]
        return np.array([_ranked(rest_N.round(9)) for rest_N in rest_KN])

    def correlation(value_NK: np.ndarray) -> float:
        x_N, y_N = ranks(value_NK)
        return float((x_N * y_N).mean())

    value_NK = points[[x, y, *([held] if held else [])]].to_numpy(float)
    x_N, y_N = ranks(value_NK)
    if not x_N.any() or not y_N.any():
        return f"none: one of them is constant (n = {len(points)})"

    def statistic(x: np.ndarray, axis: int = -1) -> np.ndarray:
        return (x * y_N).mean(axis=axis)

    p = permutation_test((x_N,), statistic, permutation_type="pairings", vectorized=True,
                         n_resamples=9999, rng=np.random.default_rng(0)).pvalue  # fmt: skip
    between, cells = _between(points["cell"], value_NK, correlation), points["cell"].nunique()
    count = f"{len(points)}" + f" points of {cells} cells" * (cells < len(points))
    return f"{correlation(value_NK):+.2f} ({between}p {chance(float(p))}, n = {count})"


def _between(
    cell: pd.Series, value_NK: np.ndarray, statistic: Callable[[np.ndarray], float]
) -> str:
    """Percentiles of a statistic over draws of whole cells, whose points are not independent."""
    places = [np.flatnonzero(cell == name) for name in cell.unique()]
    if len(places) < FEWEST:
        return ""
    rng = np.random.default_rng(0)
    drawn = [
        statistic(
            value_NK[
                np.concatenate([places[k] for k in rng.integers(0, len(places), len(places))])
            ]
        )
        for _ in range(RESAMPLES)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return f"{low:+.2f} to {high:+.2f}, "


def _counted(run: Run, both: pd.DataFrame) -> list[str]:
    """Cells by their two verdicts; of a single one, its two spreads."""
    axis = run.study.memory_axis
    if len(both) < 2:
        names = labels(run)
        return [
            (f"{names[line['cell']]}: over" if names[line["cell"]] else "Over")
            + f" {axis} memorization spreads by {line['change']:.1f} points "
            f"({line['change_low']:.1f} to {line['change_high']:.1f}), {run.measure.noun} by "
            f"{line['memory']:.1f} ({line['low']:.1f} to {line['high']:.1f}), n = {line['seeds']} "
            "seeds."
            for line in both.to_dict("records")
        ]
    unsure = (both["verdict"] == "undecided") | (both["change_verdict"] == "undecided")
    remembers = (both["verdict"] == "remembers") & ~unsure
    changes = both["change_verdict"] == "remembers"
    others = ~remembers & ~unsure
    return [
        f"Of {int(remembers.sum())} cells whose accuracy depends on {axis}, memorization does in "
        f"{int((remembers & changes).sum())}; of {int(others.sum())} whose accuracy does not, in "
        f"{int((others & changes).sum())}; undecided in one of the two: {int(unsure.sum())}."
    ]


def _erased(both: pd.DataFrame) -> list[str]:
    """Rank correlation of memory with strength, that with L2 taken out where it is searched."""
    if not len(both):
        return []
    held = "optim.l2" if both["optim.l2"].nunique() > 1 else None
    found = _rank(both, STRENGTH, "memory", held)
    thirds = both.sort_values(STRENGTH)["memory"]
    few = max(1, len(thirds) // 3)
    low, high = thirds.iloc[:few], thirds.iloc[-few:]
    return [
        f"Memory has rank correlation {found} with the strength{' at held L2' if held else ''}: a "
        f"median of {low.median():.1f} points in the third of the cells with the least, "
        f"{high.median():.1f} in that with the most."
    ]


def texts(table: pd.DataFrame) -> pd.DataFrame:
    """`memorization.against` as it is read, the means over cells of a panel."""
    lines = []
    for (panel, _), group in table.groupby(["panel", "place"], sort=False):
        line = {"": panel, group["axis"].iloc[0]: number(group["value"].iloc[0])}
        line |= {"cells": str(len(group)), "networks": str(group["n"].sum())}
        for name in ("memorization", "accuracy"):
            text, one = f"{group[name].mean():.1f}", group.iloc[0]
            if len(group) == 1 and pd.notna(one[f"{name}.low"]):
                text += f" ({one[f'{name}.low']:.1f} to {one[f'{name}.high']:.1f})"
            line[{"accuracy": "test accuracy"}.get(name, name) + " (%)"] = text
        lines.append(line)
    made = pd.DataFrame(lines)
    return made if table["panel"].nunique() > 1 else made.drop(columns="")
