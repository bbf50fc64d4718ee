"""Where memory crosses the threshold, or the mean `search.level`, as the cells of an arm have it
(see `memory/surface.py`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis import style
from analysis.tables import Run
from initmem.memory.paired import paired
from initmem.memory.surface import TRAINS, UNSURE, Measured, means, sided, surface
from initmem.study.unit import from_unit, to_unit

FEWEST = 8
"""Cells with a memory and its error, below which no surface is laid."""
STEPS = 60
"""Of the grid that the surface is drawn on, along each range."""
COLUMNS = [
    "panel", "x", "y", "memory", "remembers", "threshold", "of", "crossed", "cells", "trainings",
    "band", "ended",
]  # fmt: skip


def table(run: Run) -> pd.DataFrame:
    """The surface on a grid, for each panel of a study with two ranges. Columns: panel (label), x
    and y (values of the ranges), memory (believed, in the unit of the measure), remembers
    (probability that it is above the threshold; nan where a cell would hardly train), threshold,
    the cells and trainings that it rests on, band (its width, see `Surface.band`), and ended (what
    ended the search before all its draws, or empty). Of is `memory`, or `mean` where the study has
    a `search.level`: then the mean stands for memory and the level for the threshold. Crossed is
    the threshold or level in words."""
    ranges = run.study.ranges
    lines = []
    grid = np.linspace(0, 1, STEPS)
    place_ND = np.array([[x, y] for y in grid for x in grid])
    for arm, label in run.panels.items() if len(ranges) == 2 else ():
        cells = run.cells[(run.cells["arm"] == arm) & (run.cells["verdict"] != "unfinished")]
        measured = _measured(run, cells)
        if np.isfinite(measured.memory_N + measured.error_N).sum() < FEWEST:
            continue
        of_mean = run.study.search.level is not None
        found = surface(measured, run.study.level, run.measure.reach if of_mean else None)
        assert found is not None
        mean_N, _ = found.believed(place_ND)
        trains_N = found.trains(place_ND) >= TRAINS
        points = pd.DataFrame([from_unit(list(place), ranges) for place in place_ND])
        points.columns = pd.Index(["x", "y"])
        lines.append(
            points.assign(
                panel=label,
                memory=np.where(trains_N, found.memory(mean_N), np.nan),
                remembers=np.where(trains_N, found.remembers(place_ND), np.nan),
                threshold=run.study.level,
                of="mean" if of_mean else "memory",
                crossed=crossed(run),
                cells=len(cells),
                trainings=int(cells["n"].sum()),
                band=found.band(),
                ended=run.study.search.stop_when if arm in run.ended else "",
            )
        )
    return pd.concat(lines)[COLUMNS] if lines else pd.DataFrame(columns=COLUMNS)


def crossed(run: Run) -> str:
    """What the frontier crosses, in words."""
    if run.study.search.level is None:
        return f"{run.study.threshold:g} {run.measure.unit}"
    return run.measure.level.format(run.study.search.level)


def _measured(run: Run, cells: pd.DataFrame) -> Measured:
    if run.study.search.level is None:
        found, error = (cells[name].to_numpy(float) for name in ("memory", "error"))
    else:
        rows = {name: group.to_dict("records") for name, group in run.rows.groupby("cell")}
        found, error = means([paired(rows[name], run.study.measure) for name in cells["cell"]])  # type: ignore[arg-type]  # names are text
    bound = style.censored(cells).to_numpy(bool)
    points = [dict(point) for _, point in cells[list(run.study.ranges)].iterrows()]
    place_ND = np.array([to_unit(point, run.study.ranges) for point in points])
    return Measured(place_ND, sided(found, bound, run.study.level), error)


def draw(panel: Axes, of_panel: pd.DataFrame) -> None:
    """The frontier, its band, and faintly the surface, under the cells of a panel."""
    x, y, memory, remembers = (
        of_panel[name].to_numpy(float).reshape(STEPS, STEPS)
        for name in ("x", "y", "memory", "remembers")
    )
    threshold, of, crossed = of_panel[["threshold", "of", "crossed"]].iloc[0]
    low, high = np.nanmin(memory), np.nanmax(memory)
    levels = [level * threshold for level in (2, 4, 8, 16) if level * threshold < high]
    if of == "mean":
        ticks = MaxNLocator(5).tick_values(low, high)
        levels = [level for level in ticks if low < level < high and level != threshold]
    under: Any = {"zorder": 1}
    panel.contourf(x, y, remembers, levels=UNSURE, colors=["#ececec"], **under)
    if levels:
        lines = panel.contour(
            x, y, memory, levels=levels, colors="#c4c4c4", linewidths=0.6, **under
        )
        panel.clabel(lines, fmt="%g", fontsize=6, colors=style.PALE)
    panel.contour(x, y, remembers, levels=[0.5], colors=style.INK, linewidths=1.4, **under)
    cells, trainings = (int(of_panel[name].iloc[0]) for name in ("cells", "trainings"))
    said = f"frontier ({crossed}), 95% band: {cells} cells, {trainings} networks"
    if ended := of_panel["ended"].iloc[0]:
        band = of_panel["band"].iloc[0]
        said += f"\nsearch ended early: {ended} (here {band:.0%})"
    at: Any = {"xytext": (0, 4), "textcoords": "offset points", "ha": "right"}
    panel.annotate(said, (1, 1), xycoords="axes fraction", fontsize=7, color=style.PALE, **at)
    title = panel.get_title(loc="left")
    panel.set_title(title, loc="left", fontweight="bold", pad=6 + 10 * len(said.splitlines()))
