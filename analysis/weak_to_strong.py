"""python -m analysis.weak_to_strong RUN: which features survive being taught by a weaker model.

Of networks with planted features: what is kept of those off target, and what is learned, at the
stop rule and at the end (see `learned.py`), over rho, learning rate, teacher and scale.
"""

from __future__ import annotations

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

from analysis import learned, style
from analysis.command import FIGURES, Analysis, show
from analysis.planted import ARM, ARMS, WHEN, varied
from analysis.tables import Run
from initmem.theory.alignment import limit_cosine

RHO, LR, COSINE, SCALE = "data.rho", "optim.lr", "data.cosine", "init.scale"
OVER = {RHO: "correlation rho of the two features", COSINE: "cosine of the weak teacher",
        SCALE: "scale of the planted features"}  # fmt: skip
"""What a figure has on its horizontal axis, by field."""
MARKS = dict(zip(ARMS, "osD^v<>", strict=True))
KEPT = Normalize(0, 1)


def draw(run: Run, means: pd.DataFrame) -> dict[str, Figure]:
    """Name -> figure, of those that the study has something for. means: `learned.means`."""
    if means.empty:
        return {}
    several = [field for field in varied(run) if means[field].nunique() > 1]
    drawn = {}
    with matplotlib.rc_context(style.RC):
        if {RHO, LR} == set(several):
            drawn["map"] = _map(means)
        for field, quantity in ((RHO, "kept"), (COSINE, "on_target"), (SCALE, "kept")):
            if field in several and "map" not in drawn:
                others = [other for other in several if other != field]
                drawn[f"{quantity}_over_{field.partition('.')[2]}"] = _lines(
                    means, field, quantity, others
                )
    return drawn


def _lines(means: pd.DataFrame, field: str, quantity: str, others: list[str]) -> Figure:
    """A line an arm, at the stop and at the end; a panel for each combination of `others`."""
    label_N = pd.Series([style.listed({o: line[o] for o in others})
                         for line in means.to_dict("records")], index=means.index)  # fmt: skip
    labels = list(label_N.unique())
    y = f"{quantity.replace('_', ' ')} (cosine)"
    drawn, panels = style.panels(labels, 2.8, 0.55, OVER[field], y)
    places = sorted(means[field].unique())
    arms = [arm for arm in ARMS if (means[ARM] == arm).any()]
    # Side by side, but near the place itself where a line of theory runs through it.
    apart = min(np.diff(places)) * (0.1 if field == COSINE else 0.4) / (2 * len(arms))
    for panel, label in zip(panels, labels, strict=True):
        of_panel = means[label_N == label]
        for i, arm in enumerate(arms):
            shifts = {when: apart * (2 * i + k + 0.5 - len(arms)) for k, when in enumerate(WHEN)}
            _arm(panel, of_panel[of_panel[ARM] == arm], field, quantity, shifts, i, len(arms))
        if field == COSINE:
            _theory(panel, of_panel)
        panel.set_xticks(places, [style.number(place) for place in places])
        panel.set_ylim(-0.03, 1.03)
    handles = [_handle(arm, i, len(arms)) for i, arm in enumerate(arms)]
    handles += [
        Line2D([], [], color=style.INK, ls=ls, marker="o", mfc=face, ms=4.5, label=name)
        for ls, face, name in (("-", style.INK, WHEN["stop"]), ("--", "white", WHEN["end"]))
    ]
    if field == COSINE:
        handles.append(Line2D([], [], color=style.PALE, ls=":", label="the teacher's own"))
        handles.append(Line2D([], [], color=style.PALE, label="theory: limit in V_1"))
    drawn.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8,
                 handlelength=3)  # fmt: skip
    return drawn


def _handle(arm: str, i: int, count: int) -> Line2D:
    colour = style.SETTING(i / max(1, count - 1))
    return Line2D([], [], color=colour, marker=MARKS[arm], ms=4.5, label=arm)


def _arm(
    panel: Axes,
    lines: pd.DataFrame,
    field: str,
    quantity: str,
    shifts: dict[str, float],
    i: int,
    count: int,
) -> None:
    colour = style.SETTING(i / max(1, count - 1))
    for when, ls, face in (("stop", "-", colour), ("end", "--", "white")):
        line = lines[lines["when"] == when].sort_values(field)
        if line.empty:
            continue
        x_N = line[field].astype(float) + shifts[when]
        panel.plot(x_N, line[quantity], ls=ls, marker=MARKS[str(line[ARM].iloc[0])], ms=4.5,
                   mfc=face, color=colour, lw=1.2)  # fmt: skip
        panel.vlines(x_N, line[f"{quantity}.low"], line[f"{quantity}.high"], color=colour, lw=0.9)


def _theory(panel: Axes, lines: pd.DataFrame) -> None:
    """The teacher's own cosine, and that of the limit of what training finds in V_1."""
    teachers = np.linspace(lines[COSINE].min(), lines[COSINE].max(), 50)
    share = float((lines["data.s"] / lines["data.d"]).iloc[0])
    panel.plot(teachers, teachers, color=style.PALE, ls=":", lw=1)
    panel.plot(teachers, [limit_cosine(m, share) for m in teachers], color=style.PALE, lw=1)


def _map(means: pd.DataFrame) -> Figure:
    """Kept over rho and learning rate: a column an arm, above at the stop, below at the end."""
    arms = [arm for arm in ARMS if (means[ARM] == arm).any()]
    rhos, rates = sorted(means[RHO].unique()), sorted(means[LR].unique())
    drawn = style.figure(7.6, 4.6)
    grid = drawn.subplots(2, len(arms), squeeze=False, sharex=True, sharey=True)
    for row, when in zip(grid, WHEN, strict=True):
        for panel, arm in zip(row, arms, strict=True):
            lines = means[(means[ARM] == arm) & (means["when"] == when)]
            for line in lines.to_dict("records"):
                at = rhos.index(line[RHO]), rates.index(line[LR])
                colour = style.ACCURACY(KEPT(line["kept"]))
                late = line["met"] < line["n"]
                mark = {"verdict": "", **dict.fromkeys(style.HATCHES, 0), "undertrained": late}
                style.mark(panel, at, mark, colour, f"{100 * line['kept']:.0f}")
            panel.set_xticks(range(len(rhos)), [style.number(rho) for rho in rhos])
            panel.set_yticks(range(len(rates)), [style.number(rate) for rate in rates])
            panel.set_xlim(-0.6, len(rhos) - 0.4)
            panel.set_ylim(-0.6, len(rates) - 0.4)
        row[0].set_ylabel(f"learning rate\n({WHEN[when]})")
    for panel, arm in zip(grid[0], arms, strict=True):
        panel.set_title(arm)
    for panel in grid[-1]:
        panel.set_xlabel("rho")
    bar = drawn.colorbar(ScalarMappable(KEPT, style.ACCURACY), ax=list(grid.flat),
                         label="kept (cosine; marks: hundredths)", pad=0.02)  # fmt: skip
    bar.outline.set_visible(False)
    if (means["met"] < means["n"]).any():
        style.state_legend(drawn, pd.DataFrame([dict(mark, undertrained=True)]))
    return drawn


def view(run: Run) -> dict[str, Any]:
    """What the page shows: the table as it is read, sentences, and figures by name."""
    means = learned.means(run)
    if means.empty:
        return {"table": means, "said": [], "figures": {}}
    table = learned.texts(run, means)
    return {"table": table, "said": learned.said(run), "figures": draw(run, means)}


@click.command(cls=Analysis, epilog="Example: python -m analysis.weak_to_strong runs/small")
@click.argument("run", metavar="RUN")
@FIGURES
def main(run: str, figures: str | None) -> None:
    """Say which planted features survive, and what preserves them."""
    show(run, figures, view, "data.name gaussian_pairs")


if __name__ == "__main__":
    main(prog_name="python -m analysis.weak_to_strong")
