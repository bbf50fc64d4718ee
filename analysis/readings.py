"""What the probes of a study read over training: a panel a quantity and place, a colour a value of
the memory axis."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from analysis import style
from analysis.curves import chosen, colour, having, legend, legend_height, over_seeds
from analysis.differences import labels
from analysis.tables import Run

MOST = 12
"""Panels."""
CELLS = 3
"""Of which a study with several shows readings."""
BESIDE = {"trace_error"}
"""Quantities that are no quantity of the network."""
COLUMNS = 4
"""Panels a row."""
WIDE = 30.0
"""Times that the largest of a panel is above the smallest, from which its axis is logarithmic."""


def table(run: Run) -> dict[str, pd.DataFrame]:
    """Probe -> its readings, for those that were read. Columns: cell (label), quantity, where,
    step, value (of the memory axis), place (its position among the values, 0 to 1), axis (the
    memory axis), and over seeds: reading (median), low and high (smallest and largest). At most
    MOST combinations of cell, quantity and where, as far as each quantity has one: evenly among
    the cells, then the first places of a quantity behind the stem."""
    axis, values = run.study.memory_axis, run.study.axes[run.study.memory_axis]
    kept = chosen(run, list(having(run.rows, "readings")["cell"].unique()), CELLS)
    found = _read(run, kept)
    return (
        {
            str(probe): _over_seeds(of_probe, len(kept))
            .assign(axis=axis)
            .assign(
                value=lambda made: made["of"].map(dict(enumerate(values))),
                place=lambda made: made["of"] / max(1, len(values) - 1),
            )
            for probe, of_probe in found.groupby("probe", sort=False)
        }
        if len(found)
        else {}
    )


def whole(run: Run) -> pd.DataFrame:
    """All readings over seeds, of all cells and places. Columns: probe, cell (label), quantity,
    where, step, the memory axis, reading (median), low and high (smallest and largest). Empty
    where nothing was read."""
    found = _read(run, list(run.cells["cell"]))
    if found.empty:
        return found
    keys = ["probe", "cell", "quantity", "where", "of"]
    lines = over_seeds(found, keys, "reading")
    axis = run.study.memory_axis
    lines[axis] = lines["of"].map(dict(enumerate(run.study.axes[axis])))
    return lines[["probe", "cell", "quantity", "where", axis, "step", "reading", "low", "high"]]


def _read(run: Run, cells: list[str]) -> pd.DataFrame:
    """The readings of these cells' networks, a line each; of: the place of the network's value
    among those of the memory axis."""
    axis, values, names = run.study.memory_axis, run.study.axes[run.study.memory_axis], labels(run)
    rows = having(run.rows, "readings")
    used = ["cell", axis, "seed", "readings"]
    lines = [
        pd.DataFrame(list(row["readings"])).assign(
            cell=names[row["cell"]], seed=row["seed"], of=values.index(row[axis])
        )
        for row in rows.loc[rows["cell"].isin(cells), used].to_dict("records")
    ]
    if not lines:
        return pd.DataFrame()
    found = pd.concat(lines, ignore_index=True).rename(columns={"value": "reading"})
    return found[~found["quantity"].isin(BESIDE)].astype({"reading": float})


def _over_seeds(readings: pd.DataFrame, cells: int) -> pd.DataFrame:
    places = readings.groupby("quantity", sort=False)["where"].unique()
    room = max(MOST // cells, len(places))
    each = max(k for k in range(1, room + 1) if sum(min(k, len(w)) for w in places) <= room)
    kept = {(what, where) for what, wheres in places.items() for where in _first(wheres, each)}
    pairs = pd.Series(list(zip(readings["quantity"], readings["where"], strict=True)))
    shown = readings[pairs.isin(kept).to_numpy()]
    return over_seeds(shown, ["cell", "quantity", "where", "of"], "reading")


def _first(places: np.ndarray, most: int) -> list[str]:
    """At most that many of them, from the first layer on; embeddings last."""
    return sorted(places, key=lambda place: place.startswith("stem."))[:most]


def evenly(names: np.ndarray, most: int) -> list[str]:
    """At most that many of them, none nearer to the ends than to its neighbours."""
    count = min(most, len(names))
    return [names[int((i + 0.5) * len(names) / count)] for i in range(count)]


def draw(readings: pd.DataFrame) -> Figure:
    """The readings of one probe: the line is the median over seeds, the band reaches from the
    smallest to the largest."""
    with matplotlib.rc_context(style.RC):
        return _draw(readings)


def _draw(readings: pd.DataFrame) -> Figure:
    cells = list(readings["cell"].unique())
    pairs = readings[["quantity", "where"]].drop_duplicates()
    pairs = pairs.sort_values("quantity", kind="stable", key=_first_seen)
    facets = list(zip(pairs["quantity"], pairs["where"], strict=True))
    wheres = pairs["quantity"].value_counts().max()
    columns = wheres if 1 < wheres <= COLUMNS else min(COLUMNS, len(facets))
    each = -(-len(facets) // columns)
    known = readings.drop_duplicates("place").sort_values("place")
    drawn = style.figure(7.6, 2.1 * each * len(cells) + 0.6 + legend_height(len(known)))
    grid = drawn.subplots(each * len(cells), columns, squeeze=False, sharex=True)
    for axis in grid.flat:
        axis.set_visible(False)
    for i, cell in enumerate(cells):
        for k, (quantity, where) in enumerate(facets):
            row, column = divmod(k, columns)
            axis = grid[i * each + row, column]
            axis.set_visible(True)
            of_facet = readings[(readings["quantity"] == quantity) & (readings["where"] == where)]
            _panel(axis, of_facet, of_facet[of_facet["cell"] == cell])
            axis.set_title(f"{quantity.replace('_', ' ')}\n{where}", fontsize=8)
            last = i == len(cells) - 1 and k + columns >= len(facets)
            axis.tick_params(labelbottom=last)
            axis.set_xlabel("step" if last else "")
        if cell:
            style.head(grid[i * each, 0], cell, 2)
    handles = [
        Line2D([], [], color=style.INK, lw=1.6, label="median"),
        Patch(fc=style.INK, alpha=0.15, label="all seeds"),
    ]
    legend(drawn, known, handles)
    return drawn


def _first_seen(names: pd.Series) -> pd.Series:
    return names.map({name: i for i, name in enumerate(names.unique())})


def _panel(axis: Axes, of_facet: pd.DataFrame, lines: pd.DataFrame) -> None:
    """of_facet: of all cells, for they share the limits."""
    low, high = of_facet["low"].min(), of_facet["high"].max()
    steps = of_facet["step"]
    style.span(axis.xaxis, 0, max(1, steps.max()), False)
    axis.xaxis.set_major_locator(MaxNLocator(3, integer=True))
    if pd.notna(low):
        style.span(axis.yaxis, low, high, low > 0 and high > WIDE * low)
    for _, line in lines.groupby("of", sort=True):
        paint = colour(line["place"].iloc[0])
        axis.plot(line["step"], line["reading"], color=paint, lw=1.4)
        axis.fill_between(line["step"], line["low"], line["high"], color=paint, alpha=0.15, lw=0)
