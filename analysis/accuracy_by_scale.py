"""What memory is the spread of: the study's measure over the memory axis, a line a cell."""

from __future__ import annotations

from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis import style
from analysis.tables import Run, measured
from initmem.memory import TRAINED
from initmem.memory.measures import named

MARKERS = {"undertrained": "v", "diverged": "x", "failed": "+"}
"""Of replicas that no mean is taken over."""
CENSORED = "^"
"""Of replicas that are measured by a lower bound, open."""

SETTINGS = {
    "lr_x_l2": "lr x L2",
    "optim.lr": "learning rate",
    "optim.weight_decay": "weight decay",
    "draw": "draw",
}


def table(run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows -> the replicas, and the means of those that trained.

    replicas: panel (label), cell, setting (what colours the line), field (its name: the first of
    SETTINGS that varies), axis (the memory axis), value, place (of the
    value on the panel: itself if all are positive numbers, else its position), seed, state,
    measure (of the study), accuracy (its value), censored (whether that is a lower bound).
    means: panel, cell, setting, place, accuracy, seeds (in the mean).
    """
    values = run.study.axes[run.study.memory_axis]
    numeric = all(isinstance(v, int | float) and v > 0 for v in values)
    settings = run.cells.set_index("cell").reindex(columns=list(SETTINGS))
    field = next((field for field in SETTINGS if settings[field].nunique() > 1), "draw")
    found = measured(run.rows, run.measure)
    replicas = pd.DataFrame(
        {
            "panel": run.rows["arm"].map(run.panels),
            "cell": run.rows["cell"],
            "setting": run.rows["cell"].map(settings[field]),
            "field": SETTINGS[field],
            "axis": run.study.memory_axis,
            "value": run.rows[run.study.memory_axis],
            "seed": run.rows["seed"],
            "state": run.rows["state"],
            "measure": run.study.measure,
            "accuracy": found["value"],
            "censored": found["censored"],
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
    title = named(replicas["measure"].iloc[0]).title
    drawn, panels = style.panels(labels, 3.2, 0.3, replicas["axis"].iloc[0], title)
    norm = _norm(replicas["setting"])
    shown = replicas[replicas["state"].isin(TRAINED)]["accuracy"].dropna()
    shown = shown if len(shown) else replicas["accuracy"].dropna()
    low, high = shown.min(), shown.max()
    step = 0.06 * (high - low) or 1.0
    gone = replicas[~(replicas["accuracy"] >= low - step)]
    foot = low - step * (1 + gone.groupby(["panel", "place"])["state"].nunique().max())
    foot = foot - step / 2 if len(gone) else low - step
    panels[0].set_ylim(foot, high + step)
    read = [y for y in panels[0].get_yticks() if low - step < y < high + step]
    panels[0].set_yticks(read)  # none below the line, where nothing is read off
    _ticks(panels, replicas)
    for panel, label in zip(panels, labels, strict=True):
        kept = replicas.drop(gone.index)
        _panel(panel, kept[kept["panel"] == label], means[means["panel"] == label], norm)
        if len(gone):
            panel.axhline(low - step, color=style.PALE, lw=0.5, ls=(0, (4, 4)))
            _foot(panel, gone[gone["panel"] == label], low - step, step)
    if norm:
        style.bar(drawn, panels, norm, replicas["field"].iloc[0])
    unregularized = bool(isinstance(norm, LogNorm) and (replicas["setting"] == 0).any())
    _legend(drawn, lost, unregularized, bool(replicas["censored"].any()))
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
    states = replicas["state"].mask(replicas["censored"], "censored")
    for state, group in replicas.dropna(subset=["accuracy"]).groupby(states):
        colours = [_colour(norm, setting) for setting in group["setting"]]
        panel.scatter(group["place"], group["accuracy"], **_looks(str(state), colours))


def _looks(state: str, colours: list[Any]) -> dict[str, Any]:
    marker = CENSORED if state == "censored" else MARKERS.get(state)
    if marker is None:
        return {"s": 7, "c": colours, "linewidths": 0, "zorder": 3}
    looks: dict[str, Any] = {"marker": marker, "s": 24, "linewidths": 1.1, "zorder": 3}
    if marker in ("v", "^"):  # open, as x and + are
        return looks | {"facecolors": "none", "edgecolors": colours}
    return looks | {"c": colours}


def _foot(panel: Axes, gone: pd.DataFrame, top: float, step: float) -> None:
    """A marker and a count for each value of the memory axis and state, below `top`."""
    counts = gone.groupby(["place", "state"]).size().reset_index(name="count")
    counts["y"] = top - (counts.groupby("place").cumcount() + 0.75) * step
    for state, group in counts.groupby("state"):
        panel.scatter(group["place"], group["y"], **_looks(str(state), [style.INK] * len(group)))
    for line in counts.to_dict("records"):
        panel.annotate(
            str(line["count"]), (line["place"], line["y"]), xytext=(6, 0),
            textcoords="offset points", va="center", fontsize=7.5,
        )  # fmt: skip


def _ticks(panels: list[Axes], replicas: pd.DataFrame) -> None:
    known = replicas.drop_duplicates("place").sort_values("place")
    places = list(known["place"])
    style.span(panels[0].xaxis, places[0], places[-1], places[0] > 0)
    for panel in panels:
        panel.set_xticks(places, [style.number(value) for value in known["value"]])
        panel.minorticks_off()


def _legend(drawn: Figure, lost: list[str], unregularized: bool, censored: bool) -> None:
    ink: dict[str, Any] = {"color": style.INK, "ls": ""}
    handles = [Line2D([], [], color=style.INK, lw=1.4, label="mean over seeds")]
    handles += [Line2D([], [], marker="o", ms=2.8, label="a replica", **ink)]
    if unregularized:
        handles += [Line2D([], [], color=style.PALE, lw=1.4, label="lr x L2 = 0")]
    handles += [
        Line2D([], [], marker=MARKERS[s], mfc="none", ms=5.5, label=s, **ink) for s in lost
    ]
    if censored:
        label = "not within its budget"
        handles += [Line2D([], [], marker=CENSORED, mfc="none", ms=5.5, label=label, **ink)]
    drawn.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8)
