"""python -m analysis.random_labels RUN: what networks memorize, at which depth, and what of it.

Heads that learn a random label of each training example (arXiv 2607.11541) tell it; see
`memorization.py` for the tables that the figures are drawn from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis import memorization, memorization_said, style
from analysis.command import FIGURES, Analysis, show
from analysis.memorization import STRENGTH
from analysis.tables import Run

PANELS = 6
"""Shown at most."""
Made = dict[str, pd.DataFrame]
"""Name of a figure, `effects` or `cells` -> its table."""


def make(run: Run) -> Made:
    """The tables; all empty for a study without heads."""
    both = memorization.cells(run)
    return {
        "depth": memorization.depth(run),
        "effects": memorization.effects(run),
        "against": memorization.against(run),
        "cells": both,
        "erased": both if STRENGTH in run.study.ranges else pd.DataFrame(),
    }


def said(run: Run, made: Made) -> list[str]:
    """What the tables say, a sentence each."""
    found = memorization_said.said(run, made["effects"], made["against"], made["cells"])
    shown = {"depth": ["panel"], "time": ["panel", "value"], "against": ["panel"]}
    for name, keys in shown.items():
        table = made["depth" if name == "time" else name]
        count = len(table[keys].drop_duplicates()) if len(table) else 0
        if count > PANELS:
            found.append(f"The figure {name} shows {PANELS} panels of {count}.")
    return found


def view(run: Run) -> dict[str, Any]:
    """What the page shows: the table as it is read, sentences, and figures by name."""
    made = make(run)
    if made["against"].empty:
        return {"table": made["against"], "said": [], "figures": {}}
    table = memorization_said.texts(made["against"])
    return {"table": table, "said": said(run, made), "figures": draw(run, made)}


def draw(run: Run, made: Made) -> dict[str, Figure]:
    """Name -> figure, of those that have something to show."""
    with matplotlib.rc_context(style.RC):
        drawn = {}
        if len(made["depth"]):
            drawn = {"depth": _depth(made["depth"]), "time": _time(made["depth"])}
        if len(made["against"]) > 1:
            drawn["against"] = _against(made["against"])
        if len(made["cells"]) > 1:
            drawn["memory"] = _memory(run, made["cells"])
        if len(made["erased"]) and len(run.axes) == 2:
            drawn["erased"] = _erased(run, made["erased"])
    return drawn


def _depth(table: pd.DataFrame) -> Figure:
    """Final accuracy over layers: a line a value of the memory axis, fresh heads as open marks."""
    labels = list(table["panel"].unique())[:PANELS]
    final = table[table["last"] & table["panel"].isin(labels)]
    named = {label: _layers(final[final["panel"] == label]) for label in labels}
    alike = all(layers.equals(named[labels[0]]) for layers in named.values())
    y = "random-label accuracy (%)"
    drawn, panels = style.panels(labels, 2.6, 0.35, "layer", y, alike=alike)
    for panel, label in zip(panels, labels, strict=True):
        of_panel = final[final["panel"] == label]
        layers, most = named[label], max(named[label].index)
        every = -(-(most + 1) // 8)
        places = [k for k in layers.index if k % every == 0 or k == most]
        panel.set_xticks(places, [layers[k] for k in places], rotation=30 if most > 4 else 0)
        panel.set_ylim(-3, 103)
        for chance in of_panel.loc[of_panel["quantity"] == "chance", "mean"].unique():
            panel.axhline(chance, color=style.PALE, lw=0.8, ls=":", label="chance")
        for _, lines in of_panel.groupby("place"):
            _profile(panel, lines)
    more = []
    if (final["quantity"] == "control_accuracy").any():
        look: dict[str, Any] = {"color": style.INK, "ls": "--", "marker": "o", "mfc": "white"}
        more = [Line2D([], [], lw=1.3, ms=4.5, label="by fresh heads", **look)]
    _legend(drawn, panels, more)
    return drawn


def _layers(table: pd.DataFrame) -> pd.Series:
    """Depth -> name of the layer there; `stem / hidden.0`, where networks differ in it."""
    return table.groupby("depth")["layer"].unique().map(" / ".join)


def _legend(drawn: Figure, panels: list[Axes], more: Sequence[Line2D] = ()) -> None:
    """Of all that the panels have, each once, below them."""
    known: dict[Any, Any] = {line.get_label(): line for line in more}
    for panel in panels:
        known |= dict(zip(*panel.get_legend_handles_labels()[::-1], strict=True))
    drawn.legend(
        known.values(),
        known.keys(),
        loc="outside lower center",
        ncols=min(3, len(known)),
        fontsize=8,
    )


def _named(line: Any) -> str:
    """`init scale 2`, of a line of a table."""
    return f"{style.LONG.get(line['axis'], line['axis'])} {style.number(line['value'])}"


def _profile(panel: Axes, lines: pd.DataFrame) -> None:
    colour, shift = style.SETTING(lines["place"].iloc[0]), 0.12 * (lines["place"].iloc[0] - 0.5)
    marks: dict[str, Any] = {
        "accuracy": {"marker": "o", "ls": "-", "label": _named(lines.iloc[0])},
        "control_accuracy": {"marker": "o", "ls": "--", "mfc": "white"},
    }
    for quantity, look in marks.items():
        line = lines[lines["quantity"] == quantity].sort_values("depth")
        x_N = line["depth"] + shift
        panel.plot(x_N, line["mean"], color=colour, lw=1.3, ms=4.5, **look)
        panel.vlines(x_N, line["low"], line["high"], color=colour, lw=1.0)


def _time(table: pd.DataFrame) -> Figure:
    """Accuracy over steps: a line a layer, a panel a value of the memory axis."""
    table = table[table["quantity"] == "accuracy"]
    axis = table["axis"].iloc[0]
    keys = list(table[["panel", "place", "value"]].drop_duplicates().itertuples(index=False))
    keys = [keys[i] for i in np.unique(np.linspace(0, len(keys) - 1, PANELS).astype(int))]
    labels = [", ".join(filter(None, [k[0], f"{axis} {style.number(k[2])}"])) for k in keys]
    drawn, panels = style.panels(labels, 2.3, 0.0, "step", "random-label accuracy (%)")
    norm = Normalize(0, max(1, table["depth"].max()))
    for panel, (label, place, _) in zip(panels, keys, strict=True):
        of_panel = table[(table["panel"] == label) & (table["place"] == place)]
        panel.set_ylim(-3, 103)
        for depth, line in of_panel.groupby("depth"):
            colour = style.SETTING(norm(float(str(depth))))
            panel.plot(line["step"], line["mean"], color=colour, lw=1.4)
            panel.fill_between(
                line["step"], line["low"], line["high"], color=colour, alpha=0.15, lw=0
            )
    layers = _layers(table[table["panel"].isin([key[0] for key in keys])])
    bar = drawn.colorbar(
        ScalarMappable(norm, style.SETTING), ax=panels, aspect=24 * -(-len(panels) // 2), pad=0.02
    )
    bar.set_ticks(list(layers.index), labels=list(layers))
    bar.outline.set_visible(False)
    return drawn


def _against(table: pd.DataFrame) -> Figure:
    """Test accuracy over memorization: a mark a cell and value of the memory axis."""
    labels = list(table["panel"].unique())[:PANELS]
    y = "test accuracy, selected (%)"
    drawn, panels = style.panels(labels, 2.6, 0.35, "memorization (%)", y)
    for panel, label in zip(panels, labels, strict=True):
        for place, group in table[table["panel"] == label].groupby("place"):
            colour = style.SETTING(float(str(place)))
            x_N, y_N = group["memorization"], group["accuracy"]
            panel.plot(x_N, y_N, "o", color=colour, ms=5, label=_named(group.iloc[0]))
            panel.hlines(
                y_N, group["memorization.low"], group["memorization.high"], color=colour, lw=0.8
            )
            panel.vlines(x_N, group["accuracy.low"], group["accuracy.high"], color=colour, lw=0.8)
    least = float(np.nanmin(table[["memorization", "memorization.low"]].to_numpy(float)))
    panels[0].set_xlim(min(-4.0, least - 2), 104)
    _legend(drawn, panels)
    return drawn


def _memory(run: Run, both: pd.DataFrame) -> Figure:
    """Spread of memorization over memory, a mark a cell with both simultaneous intervals."""
    axis = run.study.memory_axis
    drawn = style.figure(5.2, 3.6)
    panel = drawn.subplots()
    ends = both[["memory", "low", "high"]].replace(np.inf, np.nan).to_numpy(float)
    style.span(panel.xaxis, 0, np.nanmax(ends), False)
    panel.set_ylim(
        -3, max(20.0, 1.05 * np.nanmax(both[["change", "change_high"]].to_numpy(float)))
    )
    panel.hlines(both["change"], both["low"], both["high"].clip(upper=np.nanmax(ends)),
                 color=style.PALE, lw=0.8)  # fmt: skip
    panel.vlines(both["memory"], both["change_low"], both["change_high"], color=style.PALE, lw=0.8)
    for line in both.to_dict("records"):
        style.mark(
            panel, (line["memory"], line["change"]), line, style.SETTING(0.7), small=len(both) > 30
        )
    panel.set_xlabel(f"memory: spread of {run.measure.noun} over {axis} ({run.measure.unit})")
    panel.set_ylabel(f"spread of memorization\nover {axis} (points)")
    style.state_legend(drawn, both)
    return drawn


def _erased(run: Run, both: pd.DataFrame) -> Figure:
    """Memory and memorization over the strength and the other searched field."""
    drawn = style.figure(7.6, 3.7)
    panels = drawn.subplots(1, 2, sharey=True)
    x, y = run.axes.to_dict("records")
    shown = {"memory": (style.MEMORY, f"memory ({run.measure.axis_unit})"),
             "memorization": (style.ACCURACY, "mean memorization (%)")}  # fmt: skip
    for panel, (column, (colours, title)) in zip(panels, shown.items(), strict=True):
        # A cell or two that fall far out would leave all others in one colour.
        norm = Normalize(0, max(float(both[column].quantile(0.9)), 1e-9), clip=True)
        style.span(panel.xaxis, x["low"], x["high"], x["log"])
        style.span(panel.yaxis, y["low"], y["high"], y["log"])
        for line in both.to_dict("records"):
            at = line[x["field"]], line[y["field"]]
            style.mark(panel, at, line, colours(norm(line[column])), f"{line[column]:.0f}")
        panel.set_xlabel(style.LONG.get(x["field"], x["field"]))
        bar = drawn.colorbar(ScalarMappable(norm, colours), ax=panel, location="top",
                             aspect=28, pad=0.04, label=title, extend="max")  # fmt: skip
        bar.outline.set_visible(False)
    panels[0].set_ylabel(style.LONG.get(y["field"], y["field"]))
    style.state_legend(drawn, both)
    return drawn


@click.command(cls=Analysis, epilog="Example: python -m analysis.random_labels runs/depth_small")
@click.argument("run", metavar="RUN")
@FIGURES
def main(run: str, figures: str | None) -> None:
    """Say what the networks of a study memorize, and what suppression does."""
    show(run, figures, view, "random_labels.name heads")


if __name__ == "__main__":
    main(prog_name="python -m analysis.random_labels")
