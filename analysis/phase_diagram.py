"""Where memory is erased: every cell as a mark at its place in the searched ranges, and under
them the frontier where it crosses the threshold, or the mean its level, with its band."""

from __future__ import annotations

import textwrap
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from analysis import frontier, style
from analysis.tables import LOST, Run
from initmem.memory.measures import named

NUMBERED = 48
"""Cells a panel up to which a number fits into each mark."""

PANELS = {"memory": style.MEMORY, "mean": style.ACCURACY}


def table(run: Run) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Cells -> the points, the axes they stand on, and the frontier.

    points, a line a cell: panel (label), x and y (its value on the first and second axis, absent
    where there is none), memory, low and high (95%), mean, verdict, measure (of the study),
    censored (replicas that make memory and mean lower bounds), and a count for each of LOST.
    axes: `Run.axes`. surface: `frontier.table`.
    """
    points = run.cells[["memory", "low", "high", "mean", "verdict", *LOST]].copy()
    points["measure"], points["censored"] = run.study.measure, run.cells.get("censored", 0)
    points.insert(0, "panel", run.cells["arm"].map(run.panels))
    axes = run.axes
    for column, field in zip("xy", axes["field"], strict=False):
        points[column] = run.cells[field]
    return points, axes, frontier.table(run)


def draw(points: pd.DataFrame, axes: pd.DataFrame, surface: pd.DataFrame) -> Figure:
    """What `table` gives -> memory on the left, accuracy on the right; a row for each arm, or
    for the arms that differ in drawn axes alone."""
    points = points.copy()
    for column, zero in zip("xy", axes["zero"], strict=False):
        if pd.notna(zero):
            points[column] = points[column].replace(0.0, zero)
    with matplotlib.rc_context(style.RC):
        if len(axes) == 2:
            return _two_axes(points, axes, surface)
        return (_no_axis, _one_axis)[len(axes)](points, axes)


def _titles(points: pd.DataFrame) -> dict[str, str]:
    measure = named(points["measure"].iloc[0])
    return {"memory": f"memory ({measure.axis_unit})", "mean": f"mean {measure.title}"}


def _span(axis: Axis, line: Any) -> None:
    zero = None if pd.isna(line["zero"]) else line["zero"]
    style.span(axis, line["low"], line["high"], line["log"], zero)


def _reach(points: pd.DataFrame, column: str, norm: Normalize) -> tuple[float, float]:
    """Ends of an axis of values: of memory, with its intervals."""
    low, high = float(norm.vmin or 0), float(norm.vmax or 0)
    highest = points["high"].replace(np.inf, np.nan).max()
    return low, max(high, highest) if column == "memory" else high


def _norm(values: pd.Series, low: float | None = None) -> Normalize:
    """One scale for all arms. Memory starts at zero, for there nothing is remembered."""
    least = values.min() if low is None else low
    return Normalize(least, max(values.max(), least + 1e-9))


def _norms(points: pd.DataFrame) -> dict[str, Normalize]:
    measured = points[points["memory"].notna()]
    if measured.empty:
        return {column: Normalize(0, 1) for column in PANELS}
    return {"memory": _norm(measured["memory"], 0.0), "mean": _norm(measured["mean"])}


def _rows(points: pd.DataFrame, height: float, **shared: Any) -> tuple[Figure, Any, list[str]]:
    labels = list(points["panel"].unique())
    bottom = style.legend_height(points)
    drawn = style.figure(7.6, height * len(labels) + 0.7 + bottom)
    drawn.get_layout_engine().set(w_pad=0.1, h_pad=0.08)  # type: ignore[union-attr, call-arg]  # stubs know the base engine only
    grid = drawn.subplots(len(labels), 2, squeeze=False, sharex=True, **shared)
    for row, label in zip(grid, labels, strict=True):
        row[0].set_title(
            textwrap.fill(label, 80, break_long_words=False), loc="left", fontweight="bold"
        )
    style.state_legend(drawn, points)
    return drawn, grid, labels


def _two_axes(points: pd.DataFrame, axes: pd.DataFrame, surface: pd.DataFrame) -> Figure:
    drawn, grid, labels = _rows(points, 3.3, sharey=True)
    norms = _norms(points)
    x, y = axes.to_dict("records")
    for row, label in zip(grid, labels, strict=True):
        cells, under = points[points["panel"] == label], surface[surface["panel"] == label]
        if len(under):
            frontier.draw(row[list(PANELS).index(under["of"].iloc[0])], under)
        for panel, (column, colours) in zip(row, PANELS.items(), strict=True):
            _span(panel.xaxis, x)
            _span(panel.yaxis, y)
            for line in cells.to_dict("records"):
                there = pd.notna(line["memory"])
                colour = colours(norms[column](line[column])) if there else None
                bound = style.censored(line)  # its mark takes fewer digits
                text = f"≥{line[column]:.2g}" if bound else f"{line[column]:.1f}"
                text = text if there and len(cells) <= NUMBERED else ""
                small = len(cells) > style.CROWDED
                style.mark(panel, (line["x"], line["y"]), line, colour, text, small)
        row[0].set_ylabel(style.LONG.get(y["field"], y["field"]))
    for panel in grid[-1]:
        panel.set_xlabel(style.LONG.get(x["field"], x["field"]))
    for i, (column, colours) in enumerate(PANELS.items()):
        name = _titles(points)[column]
        bar = drawn.colorbar(
            ScalarMappable(norms[column], colours), ax=list(grid[:, i]), location="top",
            fraction=0.06 / len(labels), aspect=28, pad=0.04 / len(labels), label=name,
        )  # fmt: skip
        bar.outline.set_visible(False)
    return drawn


def _one_axis(points: pd.DataFrame, axes: pd.DataFrame) -> Figure:
    drawn, grid, labels = _rows(points, 2.8)
    x, norms = axes.iloc[0], _norms(points)
    for row, label in zip(grid, labels, strict=True):
        for panel, (column, colours) in zip(row, PANELS.items(), strict=True):
            _span(panel.xaxis, x)
            style.span(panel.yaxis, *_reach(points, column, norms[column]), False)
            for line in points[points["panel"] == label].to_dict("records"):
                if column == "memory":
                    high = min(line["high"], panel.get_ylim()[1])
                    panel.vlines(line["x"], line["low"], high, color=style.PALE, lw=1)
                _value_mark(panel, line["x"], line, column, colours(0.7))
            panel.set_ylabel(_titles(points)[column])
    for panel in grid[-1]:
        panel.set_xlabel(style.LONG.get(x["field"], x["field"]))
    return drawn


def _value_mark(panel: Axes, x: float, line: Any, column: str, colour: Any) -> None:
    if pd.notna(line["memory"]):
        style.mark(panel, (x, line[column]), line, colour)
    else:
        style.mark(panel, (x, _below(*panel.get_ylim())), line, None)


def _below(low: float, high: float) -> float:
    """In the spare room under the data of an axis with these limits, where nothing is read off."""
    return low + 0.035 * (high - low)


def _no_axis(points: pd.DataFrame, axes: pd.DataFrame) -> Figure:
    """Arms that no number tells apart: a line an arm, its value to the right of it."""
    labels = [label.replace(", ", "\n") for label in points["panel"]]
    height = 0.2 + 0.15 * max(label.count("\n") + 1 for label in labels)
    bottom = style.legend_height(points)
    drawn = style.figure(7.6, height * len(points) + 0.9 + bottom)
    panels = drawn.subplots(1, 2, sharey=True)
    norms = _norms(points)
    for panel, (column, colours) in zip(panels, PANELS.items(), strict=True):
        style.span(panel.xaxis, *_reach(points, column, norms[column]), False)
        for place, line in enumerate(points.to_dict("records")):
            if column == "memory":
                high = min(line["high"], panel.get_xlim()[1])
                panel.hlines(place, line["low"], high, color=style.PALE, lw=1)
            there = pd.notna(line["memory"])
            at = line[column] if there else _below(*panel.get_xlim())
            style.mark(panel, (at, place), line, colours(0.7) if there else None)
        panel.set_xlabel(_titles(points)[column])
        panel.grid(axis="y", color="#e6e6e6")
    panels[0].set_yticks(range(len(points)), labels)
    panels[0].set_ylim(len(points) - 0.5, -0.5)
    style.state_legend(drawn, points)
    return drawn
