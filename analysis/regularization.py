"""Does memory fall with regularization? Memory of every cell against lr x L2, the product that
sets how fast explicit norm decay forgets (its clock, in units of the same number of steps)."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from scipy.stats import rankdata

from analysis import style
from analysis.tables import LOST, Run
from initmem.memory.measures import named

MIN_CELLS = 5
"""Below that a rank correlation says nothing."""
RESAMPLES = 10_000


def table(run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Cells -> the points and the correlations; both empty where lr x L2 does not vary.

    points, a line for each cell that has a memory: panel (label), lr_x_l2, lr, memory, low and
    high (95%), floor, verdict, measure (of the study), censored (replicas that make memory a lower
    bound), and a count for each of LOST. correlations, a line for each panel with MIN_CELLS or
    more such cells whose memory is no lower bound: panel, correlation (Spearman), low and high
    (95%, bootstrap over cells), n (cells).
    """
    columns = ["lr_x_l2", "optim.lr", "memory", "low", "high", "floor", "verdict", *LOST]
    points = run.cells.reindex(columns=columns).rename(columns={"optim.lr": "lr"})
    points.insert(0, "panel", run.cells["arm"].map(run.panels))
    points["measure"], points["censored"] = run.study.measure, run.cells.get("censored", 0)
    points = points.dropna(subset=["lr_x_l2", "memory"]).reset_index(drop=True)
    if points["lr_x_l2"].nunique() < 2:
        points = points.iloc[:0]
    found = []
    for panel, group in points[points["censored"] == 0].groupby("panel", sort=False):
        interval = correlation(group["lr_x_l2"].to_numpy(), group["memory"].to_numpy())
        if interval:
            found.append([panel, *interval, len(group)])
    return points, pd.DataFrame(found, columns=["panel", "correlation", "low", "high", "n"])


def correlation(x_N: np.ndarray, y_N: np.ndarray) -> tuple[float, float, float] | None:
    """Spearman's rank correlation and its 95% bootstrap interval over the pairs; None for fewer
    than MIN_CELLS pairs, or where x or y is constant."""
    if len(x_N) < MIN_CELLS or np.ptp(x_N) == 0 or np.ptp(y_N) == 0:
        return None
    picks_BN = np.random.default_rng(0).integers(len(x_N), size=(RESAMPLES, len(x_N)))
    low, high = np.nanpercentile(_spearman(x_N[picks_BN], y_N[picks_BN]), [2.5, 97.5])
    return float(_spearman(x_N, y_N)), float(low), float(high)


def _spearman(x_BN: np.ndarray, y_BN: np.ndarray) -> np.ndarray:
    """Along the last axis; nan where a resample drew one value only."""
    ranks = [rankdata(values, axis=-1) for values in (x_BN, y_BN)]
    x, y = (r - r.mean(axis=-1, keepdims=True) for r in ranks)
    with np.errstate(invalid="ignore"):
        return (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1))


def draw(points: pd.DataFrame, correlations: pd.DataFrame) -> Figure:
    """What `table` gives, if it has points -> a panel each."""
    with matplotlib.rc_context(style.RC):
        return _draw(points, correlations)


def _draw(points: pd.DataFrame, correlations: pd.DataFrame) -> Figure:
    labels = list(points["panel"].unique())
    foot = style.legend_height(points)
    title = f"memory ({named(points['measure'].iloc[0]).axis_unit})"
    drawn, panels = style.panels(labels, 2.8, foot, "lr x L2", title)
    positive = points.loc[points["lr_x_l2"] > 0, "lr_x_l2"]
    low, high = positive.min(), positive.max()
    zero = low / max(3.0, (high / low) ** 0.2)  # where no L2 stands on a log axis
    lr = points["lr"]
    norm = LogNorm(lr.min(), lr.max()) if lr.nunique() > 1 else None
    found = correlations.set_index("panel")
    known = points[["memory", "high"]].replace(np.inf, np.nan)
    for panel, label in zip(panels, labels, strict=True):
        style.span(panel.xaxis, low, high, True, zero if (points["lr_x_l2"] == 0).any() else None)
        style.span(panel.yaxis, 0.0, known.max().max(), False)
        of_panel = points[points["panel"] == label]
        panel.axhline(of_panel["floor"].median(), color=style.PALE, ls=":", lw=1)
        for line in of_panel.to_dict("records"):
            colour = style.SETTING(norm(line["lr"]) if norm else 0.7)
            x = line["lr_x_l2"] or zero
            high = min(line["high"], panel.get_ylim()[1])
            panel.plot([x, x], [line["low"], high], color=style.PALE, lw=1, zorder=2)
            small = len(of_panel) > style.CROWDED
            style.mark(panel, (x, line["memory"]), line, colour, small=small)
        if label in found.index:
            said = f"rank correlation {interval(found.loc[label])}"
            said = said.replace(" (", "\n(") if len(panels) > 1 else said
            at: Any = {"xytext": (0, 5), "textcoords": "offset points"}
            panel.annotate(said, (0, 1), xycoords="axes fraction", fontsize=8, **at)
            title = panel.get_title(loc="left")
            panel.set_title(title, loc="left", fontweight="bold", pad=30)
    if norm:
        style.bar(drawn, panels, norm, "learning rate")
    style.state_legend(drawn, points)
    return drawn


def interval(line: pd.Series) -> str:
    """A line of the correlations in words."""
    ends = f"95% {line['low']:.2f} to {line['high']:.2f}"
    return f"{line['correlation']:.2f} ({ends}, n = {line['n']:.0f} cells)"
