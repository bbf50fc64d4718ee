"""Where networks generalize soon: the median steps of every cell and value of the memory axis."""

from __future__ import annotations

from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis import style
from analysis.tables import Run
from initmem.study import plan

LATE = "x"
"""Hatch of a median beyond the budget."""
NUMBERED = 60
"""Marks a panel up to which a number fits into each."""


def table(run: Run, times: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`generalization.table` -> points and the vertical axis; both empty where no other axis is
    numeric, so that there is no map, or nothing has a time.

    points, a line a cell and value of the memory axis: panel (label), axis (the memory axis),
    value and place (its position among the values), y, median (nan where fewer than half
    generalized), at_least, late (whether the median is beyond at_least), share (in percent),
    verdict (none), and a count for each of `tables.LOST`. axis: the first line of `Run.axes`.
    """
    axes = run.axes.iloc[:1]
    if times.empty or axes.empty:
        return pd.DataFrame(), pd.DataFrame()
    field, values = axes["field"].iloc[0], run.study.axes[run.study.memory_axis]
    cells = run.cells.set_index("cell")
    points = times[["value", "median", "at_least", "diverged", "failed"]].assign(
        panel=times["cell"].map(panels_of(run, field)),
        axis=run.study.memory_axis,
        place=times["value"].map({value: i for i, value in enumerate(values)}),
        y=times["cell"].map(cells[field]).astype(float),
        share=100 * times["share"],
        late=times["median"].isna() & times["at_least"].notna(),
        verdict="",
        undertrained=0,  # of no matter here: such a network may have generalized
    )
    there = times["n"] + times["diverged"] + times["failed"]
    return points.assign(missing=(run.study.seeds - there).clip(lower=0)), axes


def panels_of(run: Run, field: str) -> dict[str, str]:
    """Id of a cell -> label of its panel on a map that has this field for the vertical axis."""
    arms = {arm.id: arm.values for arm in plan.arms(run.study)}
    gridded = [f for f, r in run.study.ranges.items() if r.points and f != field]
    return {
        str(cell): style.listed(
            {f: v for f, v in arms[line["arm"]].items() if f != field}
            | {f: line[f] for f in gridded}
        )
        for cell, line in run.cells.set_index("cell").iterrows()
    }


def draw(points: pd.DataFrame, axes: pd.DataFrame) -> Figure:
    """What `table` gives, if it has points."""
    with matplotlib.rc_context(style.RC):
        return _draw(points, axes)


def _draw(points: pd.DataFrame, axes: pd.DataFrame) -> Figure:
    labels, y = list(points["panel"].unique()), axes.iloc[0]
    zero = None if pd.isna(y["zero"]) else float(y["zero"])
    x = points["axis"].iloc[0]
    drawn, panels = style.panels(labels, 2.9, 0.4, x, style.LONG.get(y["field"], y["field"]))
    known = points["median"].dropna()
    norm = LogNorm(known.min(), max(known.max(), 1.01 * known.min())) if len(known) else None
    style.span(panels[0].yaxis, y["low"], y["high"], y["log"], zero)
    if points["late"].any():  # room for what stands below a mark
        low, high = panels[0].get_ylim()
        panels[0].set_ylim(low * (low / high) ** 0.1 if y["log"] else low - 0.1 * (high - low))
    places = points.drop_duplicates("place").sort_values("place")
    for panel, label in zip(panels, labels, strict=True):
        panel.set_xlim(-0.5, places["place"].max() + 0.5)
        panel.set_xticks(places["place"], [style.number(value) for value in places["value"]])
        of_panel = points[points["panel"] == label]
        for line in of_panel.to_dict("records"):
            _mark(panel, line, norm, zero, len(of_panel) <= NUMBERED)
    if norm:
        style.bar(drawn, panels, norm, f"median steps to {points['share'].iloc[0]:.3g}%")
    late = Patch(fc="white", ec=style.INK, lw=0.7, hatch=LATE * style.DENSITY,
                 label="median beyond the steps below it")  # fmt: skip
    style.state_legend(drawn, points, [late] if points["late"].any() else [])
    return drawn


def _mark(
    panel: Axes, line: Any, norm: LogNorm | None, zero: float | None, numbered: bool
) -> None:
    at = (line["place"], zero if zero is not None and line["y"] == 0 else line["y"])
    there = norm is not None and pd.notna(line["median"])
    colour = style.SETTING(norm(line["median"])) if norm and there else None
    text = brief(line["median"]) if there and numbered else ""
    style.mark(panel, at, line, colour, text, hatch=LATE if line["late"] else "")
    if line["late"] and numbered:
        panel.annotate(
            f"> {brief(line['at_least'])}", at, xytext=(0, -11), textcoords="offset points",
            ha="center", va="top", fontsize=7, annotation_clip=False,
        )  # fmt: skip


def brief(steps: float) -> str:
    """In at most four characters, below ten millions: 925, 9.9k, 40k, 1.2M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if steps >= size:
            return (
                f"{steps / size:.2g}{letter}"
                if steps < 100 * size
                else f"{steps / size:.0f}{letter}"
            )
    return f"{steps:.0f}"
