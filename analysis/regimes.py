"""The regimes of fine-tuning over the scales of a diagonal network's init, and where a study is in
them (arXiv 2602.20062)."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.ndimage import distance_transform_edt

from analysis import style
from analysis.diagonal import SETTING, regime_of
from analysis.tables import Run
from initmem.theory.diagonal import Init
from initmem.theory.regimes import REGIMES, regime_map

CELLS = 60
"""Of a map, a side."""


def table(run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The regimes over c and lam, and over c and gam, at coefficients of size 1, and the study's
    own settings; both empty where it fine-tunes no diagonal network.

    cells: map (label), field (of y), c, y (1 + lam, or gam), order, dependence, regime. settings:
    map, c, y, regime.
    """
    rows = run.rows[(run.rows["model.name"] == "diagonal") & (run.rows["pretrain.name"] != "none")]
    if rows.empty:
        return pd.DataFrame(), pd.DataFrame()
    kinds = rows[SETTING[1:4]].drop_duplicates().astype(float)
    gam = kinds["init.gam"].min()
    lam = kinds["init.lam"].iloc[kinds["init.lam"].abs().argmin()]
    c_X = np.geomspace(min(1e-6, kinds["init.c"].min()), max(10.0, kinds["init.c"].max()), CELLS)
    above = {"lam": np.geomspace(1e-7, 2, CELLS), "gam": np.geomspace(1e-4, 30, CELLS)}
    cells, settings = [], []
    for field, y_Y in above.items():
        other, fixed = ("gam", gam) if field == "lam" else ("lam", lam)
        base = Init(1.0, gam=gam) if field == "lam" else Init(1.0, lam=lam, gam=1.0)
        value_Y = y_Y - 1 if field == "lam" else y_Y
        found = regime_map(base, (field, list(np.minimum(value_Y, 30))), ("c", list(c_X)))
        name = f"{other} {style.number(fixed)}"
        y_YX, c_YX = np.meshgrid(y_Y, c_X, indexing="ij")
        cells.append(
            pd.DataFrame(
                {"map": name, "field": field, "c": c_YX.ravel(), "y": y_YX.ravel(),
                 "order": found.order_YX.ravel(), "dependence": found.dependence_YX.ravel(),
                 "regime": found.regime_YX.ravel()}
            )
        )  # fmt: skip
        own = kinds[kinds[f"init.{other}"] == fixed]
        y = own[f"init.{field}"] + (field == "lam")
        settings.append(
            pd.DataFrame({"map": name, "c": own["init.c"], "y": y.clip(lower=y_Y[0])}).assign(
                regime=[
                    regime_of({**line, "pretrain.name": ""}) for line in own.to_dict("records")
                ]
            )
        )
    return pd.concat(cells, ignore_index=True), pd.concat(settings, ignore_index=True)


QUANTITIES = {
    "order": ("l-order: 1 rich, 2 lazy", style.SETTING, 1.0, 2.0),
    "dependence": ("dependence on pretraining", style.MEMORY.reversed(), -1.0, 0.0),
}


def draw(cells: pd.DataFrame, settings: pd.DataFrame) -> Figure:
    """What `table` gives, if it has cells."""
    with matplotlib.rc_context(style.RC):
        drawn = style.figure(7.6, 6.2)
        grid = drawn.subplots(2, 2, sharex=True, sharey="row")
        for panels, (name, of) in zip(grid, cells.groupby("map", sort=False), strict=True):
            own = settings[settings["map"] == name]
            for axes, column in zip(panels, QUANTITIES, strict=True):
                _map(axes, of, own, column, drawn)
            label = {"lam": "1 + lam", "gam": "gam"}[of["field"].iloc[0]]
            panels[0].set_ylabel(f"{label} (at {name})")
        for axes in grid[-1]:
            axes.set_xlabel("c, the scale of pretraining")
        words = "; ".join(f"{name}: {text}" for name, text in REGIMES.items())
        drawn.supxlabel(words, fontsize=7.5)
        return drawn


def _map(
    axes: Axes, cells: pd.DataFrame, settings: pd.DataFrame, column: str, drawn: Figure
) -> None:
    title, colours, low, high = QUANTITIES[column]
    wide = cells.pivot(index="y", columns="c", values=column)
    x_X, y_Y = wide.columns.to_numpy(float), wide.index.to_numpy(float)
    mesh = axes.pcolormesh(x_X, y_Y, wide.to_numpy(), cmap=colours, vmin=low, vmax=high)
    names = list(REGIMES)
    which = cells.assign(which=cells["regime"].map(names.index).astype(float))
    which_YX = which.pivot(index="y", columns="c", values="which").to_numpy()
    for i, name in enumerate(names):
        inside_YX = (which_YX == i).astype(float)
        if 0 < inside_YX.mean() < 1:
            axes.contour(x_X, y_Y, inside_YX, levels=[0.5], colors="white", linewidths=0.8)
        if inside_YX.any():
            y, x = _middle(inside_YX)
            axes.text(x_X[x], y_Y[y], name, ha="center", va="center", color="white", fontsize=9)
    axes.scatter(
        settings["c"], settings["y"], s=22, color="white", edgecolors=style.INK, lw=0.8,
        clip_on=False, zorder=5,
    )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(title, loc="left", fontweight="bold")
    drawn.colorbar(mesh, ax=axes).outline.set_visible(False)


def _middle(inside_YX: np.ndarray) -> Sequence[int]:
    """The cell of a region that is farthest from its rim."""
    away_YX = distance_transform_edt(np.pad(inside_YX, 1))[1:-1, 1:-1]
    return [int(i) for i in np.unravel_index(away_YX.argmax(), away_YX.shape)]
