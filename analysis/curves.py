"""Accuracy over the steps of training: a panel a cell, a colour a value of the memory axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis import style
from analysis.differences import labels
from analysis.generalization import of_tokens
from analysis.tables import Run

MOST = 6
"""Panels."""
SETS = {
    "validation": ("validation_accuracy", "-"),
    "training": ("train_accuracy", "--"),
    "out of distribution": ("ood_accuracy", ":"),
}
"""Name -> its name in a curve, and how its lines are drawn."""


def chosen(run: Run, cells: list[str], most: int) -> list[str]:
    """At most that many of the cells: evenly from the first to generalize to the last (by the mean
    of the steps that its networks took or, if they did not generalize, had), in the order of the
    study."""
    if len(cells) <= most:
        return cells
    rows = run.rows[run.rows["cell"].isin(cells)]
    steps = rows["steps_to_validation"].fillna(rows["total_steps"]).groupby(rows["cell"]).mean()
    order = steps.reindex(cells).sort_values(kind="stable").index
    picked = {order[i] for i in np.linspace(0, len(order) - 1, most).round().astype(int)}
    return [cell for cell in cells if cell in picked]


def having(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """The rows whose list in this column is there and not empty."""
    there = rows[column].map(lambda found: found is not None and len(found) > 0)
    return rows[there.astype(bool)]


def table(run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of token data -> curves of single networks, and their medians over seeds; both empty
    where there are none.

    curves: panel (label of the cell), value (of the memory axis), place (its position among the
    values, 0 to 1), set (of SETS), seed, step, accuracy, axis (the memory axis), and share (asked
    for by the study, in percent). medians: panel, value, place, set, step, accuracy; a network
    that ended early keeps its last accuracy in them.
    """
    rows = having(of_tokens(run), "curve")
    kept = chosen(run, list(rows["cell"].unique()), MOST)
    axis, names = run.study.memory_axis, labels(run)
    values = run.study.axes[axis]
    lines = []
    used = ["cell", axis, "seed", "curve", "steps_to.validation"]
    for row in rows.loc[rows["cell"].isin(kept), used].to_dict("records"):
        points = pd.DataFrame(list(row["curve"]))
        for name, (column, _) in SETS.items():
            if points.get(column, pd.Series(dtype=float)).isna().all():
                continue
            lines.append(
                pd.DataFrame({"step": points["step"], "accuracy": points[column].astype(float)})
                .assign(panel=names[row["cell"]], value=row[axis], set=name, seed=row["seed"])
                .assign(place=values.index(row[axis]) / max(1, len(values) - 1), axis=axis)
                .assign(share=100 * row["steps_to.validation"])
            )
    if not lines:
        return pd.DataFrame(), pd.DataFrame()
    curves = pd.concat(lines, ignore_index=True)
    return curves, over_seeds(curves, ["panel", "value", "place", "set"], "accuracy")


def over_seeds(lines: pd.DataFrame, keys: list[str], column: str) -> pd.DataFrame:
    """The median over seeds at each step, and the smallest and largest as low and high; a network
    that ended early keeps its last value."""
    found = []
    key: Any
    for key, group in lines.groupby(keys, sort=False):
        wide = group.pivot(index="step", columns="seed", values=column).sort_index().ffill()
        middle = pd.DataFrame(
            {column: wide.median(axis=1), "low": wide.min(axis=1), "high": wide.max(axis=1)}
        )
        found.append(middle.reset_index().assign(**dict(zip(keys, key, strict=True))))
    return pd.concat(found, ignore_index=True)


def draw(curves: pd.DataFrame, medians: pd.DataFrame) -> Figure:
    """What `table` gives, if it has curves."""
    with matplotlib.rc_context(style.RC):
        return _draw(curves, medians)


def _draw(curves: pd.DataFrame, medians: pd.DataFrame) -> Figure:
    panels = list(curves["panel"].unique())
    known = curves.drop_duplicates("place").sort_values("place")
    foot = 0.3 + legend_height(len(known))
    drawn, axes = style.panels(panels, 2.7, foot, "step", "accuracy (%)")
    style.span(axes[0].xaxis, max(1, curves["step"].min()), curves["step"].max(), True)
    axes[0].set_ylim(-3, 103)
    for axis, label in zip(axes, panels, strict=True):
        axis.axhline(curves["share"].iloc[0], color=style.PALE, lw=0.5, ls=(0, (1, 3)))
        _lines(
            axis,
            curves[curves["panel"] == label],
            {"lw": 0.6, "alpha": 0.3},
            ["value", "set", "seed"],
        )
        _lines(axis, medians[medians["panel"] == label], {"lw": 1.6}, ["value", "set"])
    sets = [name for name in SETS if (curves["set"] == name).any()]
    handles = [
        Line2D([], [], color=style.INK, ls=SETS[name][1], lw=1.6, label=name) for name in sets
    ]
    handles += [Line2D([], [], color=style.INK, lw=0.6, alpha=0.5, label="a seed")]
    legend(drawn, known, handles)
    return drawn


def _lines(axis: Axes, lines: pd.DataFrame, looks: dict[str, Any], keys: list[str]) -> None:
    for _, line in lines.groupby(keys, sort=False):
        name, place = line["set"].iloc[0], line["place"].iloc[0]
        axis.plot(line["step"], line["accuracy"], color=colour(place), ls=SETS[name][1], **looks)


def colour(place: float) -> Any:
    """Of a value of the memory axis, by its position among the values."""
    return style.SETTING(place)


def legend_height(values: int) -> float:
    """Inches of the lines that `legend` needs for these values."""
    return 0.2 * -(-values // 6)


def legend(drawn: Figure, known: pd.DataFrame, handles: Sequence[Artist]) -> None:
    """Below the figure: `handles` in the first line, then which colour is which value. known: a
    line a value, with axis, value and place."""
    axis = known["axis"].iloc[0]
    values = [
        Line2D([], [], color=colour(line["place"]), lw=2.2, label=style.number(line["value"]))
        for line in known.to_dict("records")
    ]
    below = drawn.legend(
        handles=handles, loc="outside lower right", ncols=len(handles), fontsize=8
    )
    drawn.add_artist(below)
    drawn.legend(
        handles=values,
        loc="outside lower left",
        ncols=6,
        fontsize=8,
        title=axis,
        title_fontsize=8,
        alignment="left",
    )
