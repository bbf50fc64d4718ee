"""What memory is the spread of: test accuracy over the memory axis, a line a cell."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis import style
from analysis.tables import Run
from initmem.memory import MEASURE, TRAINED

MARKERS = {"undertrained": "v", "diverged": "x", "failed": "+"}
"""Of replicas that no mean is taken over."""


def table(run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows -> the replicas, and the means of those that trained.

    replicas: arm (label), cell, setting (what colours the line), field (its name: lr x L2, or
    draw where that does not vary), axis (the memory axis), value, place (of the value on the
    panel: itself if all are positive numbers, else its position), seed, state, accuracy.
    means: arm, cell, setting, place, accuracy, seeds (in the mean).
    """
    values = run.study.axes[run.study.memory_axis]
    numeric = all(isinstance(v, int | float) and v > 0 for v in values)
    settings = run.cells.set_index("cell").reindex(columns=["lr_x_l2", "draw"])
    field = "lr_x_l2" if settings["lr_x_l2"].nunique() > 1 else "draw"
    replicas = pd.DataFrame(
        {
            "arm": run.rows["arm"].map(run.arms),
            "cell": run.rows["cell"],
            "setting": run.rows["cell"].map(settings[field]),
            "field": {"lr_x_l2": "lr x L2"}.get(field, field),
            "axis": run.study.memory_axis,
            "value": run.rows[run.study.memory_axis],
            "seed": run.rows["seed"],
            "state": run.rows["state"],
            "accuracy": run.rows[MEASURE],
        }
    )
    places = {value: value if numeric else i for i, value in enumerate(values)}
    replicas["place"] = replicas["value"].map(places).astype("float64")
    trained = replicas[replicas["state"].isin(TRAINED)].dropna(subset=["accuracy"])
    means = trained.groupby(["arm", "cell", "setting", "place"], sort=False)["accuracy"]
    return replicas, means.agg(["mean", "size"]).reset_index().rename(
        columns={"mean": "accuracy", "size": "seeds"}
    )


def draw(replicas: pd.DataFrame, means: pd.DataFrame) -> Figure:
    """What `table` gives -> a panel an arm: means as lines, replicas as dots, those out of the
    means by their state; at the foot of the panel, how many left no accuracy."""
    with matplotlib.rc_context(style.RC):
        return _draw(replicas, means)


def _draw(replicas: pd.DataFrame, means: pd.DataFrame) -> Figure:
    arms = list(replicas["arm"].unique())
    columns = min(2, len(arms))
    rows = -(-len(arms) // columns)
    lost = [s for s in MARKERS if (replicas["state"] == s).any()]
    drawn = style.figure(7.6, (3.8 if columns == 1 else 3.0) * rows + 0.3 + 0.35 * bool(lost))
    grid = drawn.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    norm = _norm(replicas["setting"])
    for panel, arm in zip(grid.flat, arms, strict=False):
        _panel(panel, *(t[t["arm"] == arm] for t in (replicas, means)), norm)
        panel.set_title(arm, loc="left", fontweight="bold")
    _ticks(grid.flat[0], replicas)
    low, high = replicas["accuracy"].min(), replicas["accuracy"].max()
    spare = 0.06 * (high - low) or 1.0
    gone = replicas["accuracy"].isna().any()
    grid.flat[0].set_ylim(low - spare * (3 if gone else 1), high + spare)
    for panel, arm in zip(grid.flat, arms, strict=False):
        _gone(panel, replicas[(replicas["arm"] == arm) & replicas["accuracy"].isna()])
    for panel in grid.flat[len(arms) :]:
        panel.set_visible(False)
    axis = replicas["axis"].iloc[0]
    drawn.supxlabel(style.LONG.get(axis, axis), fontsize=9)
    drawn.supylabel("test accuracy (%)", fontsize=9)
    if norm:
        label = replicas["field"].iloc[0]
        bar = drawn.colorbar(ScalarMappable(norm, style.SETTING), ax=grid, label=label)
        if isinstance(norm, LogNorm):
            style.span(bar.ax.yaxis, norm.vmin, norm.vmax, True)  # type: ignore[arg-type]
            bar.ax.set_ylim(norm.vmin, norm.vmax)
        bar.outline.set_visible(False)  # type: ignore[operator]
    _legend(drawn, lost, bool(isinstance(norm, LogNorm) and (replicas["setting"] == 0).any()))
    return drawn


def _norm(settings: pd.Series) -> Normalize | None:
    if settings.nunique() < 2:
        return None
    positive = settings[settings > 0]
    if pd.api.types.is_integer_dtype(settings) or positive.nunique() < 2:
        return Normalize(settings.min(), settings.max())
    return LogNorm(positive.min(), positive.max())


def _colour(norm: Normalize | None, setting: float) -> Any:
    if isinstance(norm, LogNorm) and setting == 0:
        return style.PALE
    return style.SETTING(norm(setting) if norm else 0.7)


def _panel(panel: Axes, replicas: pd.DataFrame, means: pd.DataFrame, norm: Any) -> None:
    for _, line in means.groupby("cell", sort=False):
        line = line.sort_values("place")
        colour = _colour(norm, line["setting"].iloc[0])
        panel.plot(line["place"], line["accuracy"], color=colour, lw=1.4, solid_capstyle="round")
    for state, group in replicas.dropna(subset=["accuracy"]).groupby("state"):
        marker = MARKERS.get(str(state), "o")
        colours = [_colour(norm, setting) for setting in group["setting"]]
        looks: dict[str, Any] = {"s": 7, "c": colours, "linewidths": 0}
        if state in MARKERS:
            looks = {"s": 30, "edgecolors" if marker == "v" else "c": colours, "linewidths": 1.2}
            looks |= {"facecolors": "none"} if marker == "v" else {}
        panel.scatter(group["place"], group["accuracy"], marker=marker, zorder=3, **looks)


def _gone(panel: Axes, replicas: pd.DataFrame) -> None:
    """At the foot: a marker and a count for each value and state without an accuracy."""
    bottom, top = panel.get_ylim()
    counts = replicas.groupby(["place", "state"]).size()
    for at, (_, group) in enumerate(counts.groupby("place")):
        del at
        for i, ((place, state), count) in enumerate(group.items()):  # type: ignore[misc]
            y = bottom + (top - bottom) * (0.03 + 0.045 * i)
            panel.scatter([place], [y], marker=MARKERS.get(state, "o"), s=30, c=style.INK)
            panel.annotate(f" {count}", (place, y), xytext=(4, -3), textcoords="offset points")


def _ticks(panel: Axes, replicas: pd.DataFrame) -> None:
    known = replicas.drop_duplicates("place").sort_values("place")
    places, texts = list(known["place"]), [style.number(v) for v in known["value"]]
    positive = bool(np.all(known["value"].map(type) != str)) and min(places) > 0
    style.span(panel.xaxis, min(places), max(places), positive)
    panel.xaxis.set_major_locator(style.FixedLocator(places))
    panel.xaxis.set_major_formatter(style.FixedFormatter(texts))


def _legend(drawn: Figure, lost: list[str], unregularized: bool) -> None:
    ink: dict[str, Any] = {"color": style.INK, "ls": ""}
    handles = [Line2D([], [], color=style.INK, lw=1.4, label="mean over seeds")]
    handles += [Line2D([], [], marker="o", ms=2.8, label="a replica", **ink)]
    if unregularized:
        handles += [Line2D([], [], color=style.PALE, lw=1.4, label="lr x L2 = 0")]
    handles += [
        Line2D([], [], marker=MARKERS[s], mfc="none", ms=5.5, label=f"{s}, in no mean", **ink)
        for s in lost
    ]
    drawn.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8)
