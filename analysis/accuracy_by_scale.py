"""What memory is the spread of: test accuracy over the memory axis, a line a cell."""

from __future__ import annotations

from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
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

    replicas: panel (label), cell, setting (what colours the line), field (its name: lr x L2, or
    draw where that does not vary), axis (the memory axis), value, place (of the value on the
    panel: itself if all are positive numbers, else its position), seed, state, accuracy.
    means: panel, cell, setting, place, accuracy, seeds (in the mean).
    """
    values = run.study.axes[run.study.memory_axis]
    numeric = all(isinstance(v, int | float) and v > 0 for v in values)
    settings = run.cells.set_index("cell").reindex(columns=["lr_x_l2", "draw"])
    field = "lr_x_l2" if settings["lr_x_l2"].nunique() > 1 else "draw"
    replicas = pd.DataFrame(
        {
            "panel": run.rows["arm"].map(run.panels),
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
    means = trained.groupby(["panel", "cell", "setting", "place"], sort=False)["accuracy"]
    return replicas, means.agg(["mean", "size"]).reset_index().rename(
        columns={"mean": "accuracy", "size": "seeds"}
    )


def draw(replicas: pd.DataFrame, means: pd.DataFrame) -> Figure:
    """What `table` gives -> means as lines, replicas as dots, those out of the means by their
    state; at the foot of a panel, how many left no accuracy, or one below all lines."""
    with matplotlib.rc_context(style.RC):
        return _draw(replicas, means)


def _draw(replicas: pd.DataFrame, means: pd.DataFrame) -> Figure:
    labels = list(replicas["panel"].unique())
    lost = [state for state in MARKERS if (replicas["state"] == state).any()]
    drawn, panels = style.panels(labels, 3.2, 0.3)
    norm = _norm(replicas["setting"])
    shown = replicas[replicas["state"].isin(TRAINED)]["accuracy"].dropna()
    shown = shown if len(shown) else replicas["accuracy"].dropna()
    low, high = shown.min(), shown.max()
    step = 0.06 * (high - low) or 1.0
    gone = replicas[~(replicas["accuracy"] >= low - step)]
    foot = low - step * (1 + gone.groupby(["panel", "place"])["state"].nunique().max())
    foot = foot - step / 2 if len(gone) else low - step
    panels[0].set_ylim(foot, high + step)
    _ticks(panels, replicas)
    for panel, label in zip(panels, labels, strict=True):
        kept = replicas.drop(gone.index)
        _panel(panel, *(t[t["panel"] == label] for t in (kept, means)), norm)
        if len(gone):
            panel.axhline(low - step, color=style.PALE, lw=0.5, ls=(0, (4, 4)))
            _foot(panel, gone[gone["panel"] == label], low - step, step)
        panel.set_xlabel(style.LONG.get(axis := replicas["axis"].iloc[0], axis))
    drawn.supylabel("test accuracy (%)", fontsize=9)
    if norm:
        style.bar(drawn, panels, norm, replicas["field"].iloc[0])
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


def _foot(panel: Axes, gone: pd.DataFrame, top: float, step: float) -> None:
    """A marker and a count for each value of the memory axis and state, below `top`."""
    for place, group in gone.groupby("place"):
        for i, (state, count) in enumerate(group["state"].value_counts(sort=False).items()):
            at = (place, top - (i + 0.75) * step)
            looks: dict[str, Any] = {"marker": MARKERS.get(str(state), "o"), "s": 24, "lw": 1.1}
            colour = {"fc": "none", "ec": style.INK} if state == "undertrained" else {}
            panel.scatter(*at, **looks, **(colour or {"color": style.INK}))
            panel.annotate(
                str(count),
                at,
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                fontsize=7.5,
            )


def _ticks(panels: list[Axes], replicas: pd.DataFrame) -> None:
    known = replicas.drop_duplicates("place").sort_values("place")
    places = list(known["place"])
    style.span(panels[0].xaxis, places[0], places[-1], places[0] > 0)
    for panel in panels:
        panel.set_xticks(places, [style.number(value) for value in known["value"]])
        panel.minorticks_off()


def _legend(drawn: Figure, lost: list[str], unregularized: bool) -> None:
    ink: dict[str, Any] = {"color": style.INK, "ls": ""}
    handles = [Line2D([], [], color=style.INK, lw=1.4, label="mean over seeds")]
    handles += [Line2D([], [], marker="o", ms=2.8, label="a replica", **ink)]
    if unregularized:
        handles += [Line2D([], [], color=style.PALE, lw=1.4, label="lr x L2 = 0")]
    handles += [
        Line2D([], [], marker=MARKERS[s], mfc="none", ms=5.5, label=f"{s} (in no mean)", **ink)
        for s in lost
    ]
    drawn.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8)
