"""Does memory fall with regularization? Memory of every cell against lr x L2, the product that
sets how fast explicit norm decay forgets (its clock, in units of the same number of steps)."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from scipy.stats import rankdata

from analysis import style
from analysis.tables import LOST, Run

MIN_CELLS = 5
"""Below that a rank correlation says nothing."""
RESAMPLES = 10_000


def table(run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Cells -> the points and the correlations; both empty where lr x L2 does not vary.

    points, a line for each cell that has a memory: arm (label), lr_x_l2, lr, memory, and a count
    for each of LOST. correlations, a line for each arm with MIN_CELLS or more such cells: arm,
    correlation (Spearman), low and high (95%, bootstrap over cells), n (cells).
    """
    columns = ["lr_x_l2", "optim.lr", "memory", *LOST]
    points = run.cells.reindex(columns=columns).rename(columns={"optim.lr": "lr"})
    points.insert(0, "arm", run.cells["arm"].map(run.arms))
    points = points.dropna(subset=["lr_x_l2", "memory"]).reset_index(drop=True)
    if points["lr_x_l2"].nunique() < 2:
        points = points.iloc[:0]
    found = []
    for arm, group in points.groupby("arm", sort=False):
        interval = correlation(group["lr_x_l2"].to_numpy(), group["memory"].to_numpy())
        if interval:
            found.append([arm, *interval, len(group)])
    return points, pd.DataFrame(found, columns=["arm", "correlation", "low", "high", "n"])


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
    """What `table` gives, if it has points -> a panel an arm."""
    with matplotlib.rc_context(style.RC):
        return _draw(points, correlations)


def _draw(points: pd.DataFrame, correlations: pd.DataFrame) -> Figure:
    arms = list(points["arm"].unique())
    columns = min(2, len(arms))
    rows = -(-len(arms) // columns)
    drawn = style.figure(7.6, (3.4 if columns == 1 else 3.0) * rows + 0.3)
    grid = drawn.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    positive = points.loc[points["lr_x_l2"] > 0, "lr_x_l2"]
    low, high = positive.min(), positive.max()
    nothing = low / max(3.0, (high / low) ** 0.15)  # where no L2 stands on a log axis
    zeros = (points["lr_x_l2"] == 0).any()
    lr = points["lr"]
    norm = LogNorm(lr.min(), lr.max()) if lr.nunique() > 1 else None
    found = correlations.set_index("arm")
    for panel, arm in zip(grid.flat, arms, strict=False):
        style.span(panel.xaxis, low, high, True, nothing if zeros else None)
        style.span(panel.yaxis, 0.0, points["memory"].max(), False)
        for line in points[points["arm"] == arm].to_dict("records"):
            colour = style.SETTING(norm(line["lr"]) if norm else 0.7)
            style.mark(panel, (line["lr_x_l2"] or nothing, line["memory"]), line, colour)
        said = []
        if arm in found.index:
            c = found.loc[arm]
            said = [
                f"Spearman {c['correlation']:.2f} (95% {c['low']:.2f} to {c['high']:.2f}), "
                f"n = {c['n']:.0f} cells"
            ]
        panel.set_title("\n".join([arm] * bool(arm) + said), loc="left", fontsize=8.5)
    for panel in grid.flat[len(arms) :]:
        panel.set_visible(False)
    drawn.supxlabel("lr x L2", fontsize=9)
    drawn.supylabel("memory (percentage points)", fontsize=9)
    if norm:
        bar = drawn.colorbar(ScalarMappable(norm, style.SETTING), ax=grid, label="learning rate")
        style.span(bar.ax.yaxis, lr.min(), lr.max(), True)
        bar.ax.set_ylim(lr.min(), lr.max())
        bar.outline.set_visible(False)  # type: ignore[operator]
    style.state_legend(drawn, points)
    return drawn
