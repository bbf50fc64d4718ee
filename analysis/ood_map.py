"""Fails, remembers or reasons: what the networks of every cell and value of the memory axis
answer, as the phase maps of arXiv 2405.05409 and 2501.08537 have it."""

from __future__ import annotations

import matplotlib
import pandas as pd
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from analysis import style
from analysis.tables import Run
from analysis.time_map import panels_of

ANSWERS = {
    "seen": "held-out examples of what is trained",
    "selected.reasoning": "out of distribution, by reasoning",
    "selected.symmetric": "out of distribution, by symmetry",
}
"""Column of `ood.table` -> title."""
PERCENT = Normalize(0, 100)


def table(run: Run, answers: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`ood.table` -> points and the vertical axis; both empty where no other axis is numeric, so
    that there is no map.

    points, a line a cell, value of the memory axis and way of answering: panel (label), axis (the
    memory axis), value and place (its position among the values), y, answers (of ANSWERS),
    accuracy (percent). axis: the first line of `Run.axes`.
    """
    axes = run.axes.iloc[:1]
    if answers.empty or axes.empty:
        return pd.DataFrame(), pd.DataFrame()
    field, values = axes["field"].iloc[0], run.study.axes[run.study.memory_axis]
    points = answers.melt(["id", "value"], list(ANSWERS), "answers", "accuracy").dropna()
    return points.assign(
        panel=points["id"].map(panels_of(run, field)),
        axis=run.study.memory_axis,
        place=points["value"].map({value: i for i, value in enumerate(values)}),
        y=points["id"].map(run.cells.set_index("cell")[field]).astype(float),
    ), axes


def draw(points: pd.DataFrame, axes: pd.DataFrame) -> Figure:
    """What `table` gives, if it has points: a row a panel, a column a way of answering."""
    with matplotlib.rc_context(style.RC):
        return _draw(points, axes)


def _draw(points: pd.DataFrame, axes: pd.DataFrame) -> Figure:
    labels, y = list(points["panel"].unique()), axes.iloc[0]
    ways = [name for name in ANSWERS if (points["answers"] == name).any()]
    zero = None if pd.isna(y["zero"]) else float(y["zero"])
    drawn = style.figure(7.6, 2.5 * len(labels) + 0.7)
    grid = drawn.subplots(len(labels), len(ways), squeeze=False, sharex=True, sharey=True)
    style.span(grid[0, 0].yaxis, y["low"], y["high"], y["log"], zero)
    places = points.drop_duplicates("place").sort_values("place")
    for panel, way in zip(grid[0], ways, strict=True):
        panel.set_title(ANSWERS[way].replace(", ", ",\n"), fontsize=8, pad=20 if labels[0] else 6)
    for row, label in zip(grid, labels, strict=True):
        for panel, way in zip(row, ways, strict=True):
            panel.set_xlim(-0.6, places["place"].max() + 0.6)
            panel.set_xticks(places["place"], [style.number(value) for value in places["value"]])
            of_panel = points[(points["panel"] == label) & (points["answers"] == way)]
            for line in of_panel.to_dict("records"):
                at = line["place"], zero if zero is not None and line["y"] == 0 else line["y"]
                colour = style.ACCURACY(PERCENT(line["accuracy"]))
                style.mark(panel, at, NOTHING_LOST, colour, f"{line['accuracy']:.0f}")
        if label:
            style.head(row[0], label, 1)
        row[0].set_ylabel(style.LONG.get(y["field"], y["field"]))
    axis = points["axis"].iloc[0]
    for panel in grid[-1]:
        panel.set_xlabel(style.LONG.get(axis, axis))
    bar = drawn.colorbar(ScalarMappable(PERCENT, style.ACCURACY), ax=list(grid.flat),
                         label="accuracy (%)", aspect=24 * len(labels), pad=0.02)  # fmt: skip
    bar.outline.set_visible(False)
    return drawn


NOTHING_LOST = {"verdict": "", **dict.fromkeys(style.HATCHES, 0)}
"""A mark with neither verdict nor hatches: which networks are left out stands in the table."""
