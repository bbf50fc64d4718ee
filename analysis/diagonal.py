"""Diagonal networks: the error that the theory says over the number of examples, and the networks
that were trained (arXiv 2602.20062)."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.stats import t

from analysis import style
from analysis.tables import Run
from initmem.theory.channel import Mixture
from initmem.theory.diagonal import Init, dependence, order
from initmem.theory.generalization import error_curve
from initmem.theory.regimes import regime
from initmem.theory.tasks import Task, finetuning, single

TASK = ["data.d", "data.rho_pt", "data.omega", "data.rho_ft", "data.noise"]
SETTING = ["pretrain.name", "init.c", "init.lam", "init.gam", "optim.name"]
SHORT = {"pretrain.name": "pretraining", "optim.name": ""}
MOST = 7
"""Settings a panel; where there are more, a panel is of those that differ in the memory axis."""
PANELS = 24
"""Panels; where there are more, as in a search, errors are drawn against those of the theory."""
LINE = 60
"""Points of a line."""
FLOOR = 1e-9
"""Of the theory's error: below it, what is measured is the rounding of sums."""
WITHIN = (2, 3, 5)
"""Standard errors."""
COLOURS = ("#3b528b", "#d95f02", "#1b9e77", "#b0307a", "#8a6d00", "#56a0d3", "#555555")


def init_of(line: Any) -> Init:
    """The init of a row with columns SETTING. Without pretraining lam and gam do not matter."""
    if line["pretrain.name"] == "none":
        return Init(line["init.c"])
    return Init(line["init.c"], line["init.lam"], line["init.gam"])


def mixture_of(line: Any) -> Mixture:
    """What the theory knows of a row with columns TASK and SETTING."""
    if line["pretrain.name"] == "none":
        return single(line["data.rho_ft"], init_of(line))
    task = Task(line["data.rho_pt"], line["data.rho_ft"], line["data.omega"])
    return finetuning(task, init_of(line))


def table(run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of networks without decay -> what was measured beside what the theory says, and the
    theory's lines; both empty where the study has no diagonal network.

    points, a line a task, setting and number of examples, with at least one network whose loss is
    finite: column and row (labels of the panel), setting (label), the columns TASK and SETTING,
    alpha (examples / d), theory (error), loss (mean of final.test_loss), mean (of the share of the
    targets' mean square that is not explained, which is the loss without the chance of how large a
    task's targets are drawn; in the mean over tasks they are 1), se (its standard error), low and
    high (95%, Student's t), n (networks), off ((mean - theory) / se, where the theory's error is
    above FLOOR).
    lines: column, row, setting, alpha, error.
    """
    rows = run.rows[(run.rows["model.name"] == "diagonal") & run.rows["final.test_loss"].notna()]
    decay = rows[["optim.l2", "optim.weight_decay"]].astype(float).fillna(0.0).sum(axis=1)
    rows = rows[decay == 0]
    if rows.empty:
        return pd.DataFrame(), pd.DataFrame()
    points, lines = [], []
    keys = [*TASK, *SETTING]
    alphas = (rows["data.alpha"] * rows["data.d"]).round() / rows["data.d"]
    key: Any
    rows = rows.assign(alpha=alphas, error=1 - rows["final.test_accuracy"] / 100)
    for key, group in rows.groupby(keys, sort=False):
        known = dict(zip(keys, key, strict=True))
        mixture, noise = mixture_of(known), known["data.noise"]
        of_alpha = group.groupby("alpha")
        measured = of_alpha["error"].agg(mean="mean", se="sem", n="count")
        measured = measured.assign(loss=of_alpha["final.test_loss"].mean()).reset_index()
        measured["theory"] = error_curve(mixture, measured["alpha"].to_numpy(float), noise)
        points.append(measured.assign(**known))
        alpha_A = np.linspace(alphas.min(), alphas.max(), LINE)
        error_A = error_curve(mixture, alpha_A, noise)
        lines.append(pd.DataFrame({"alpha": alpha_A, "error": error_A}).assign(**known))
    made = pd.concat(points, ignore_index=True)
    width = t.ppf(0.975, (made["n"] - 1).clip(lower=1)) * made["se"]
    made["low"], made["high"] = made["mean"] - width, made["mean"] + width
    told = (made["se"] > 0) & (made["theory"] > FLOOR)
    made["off"] = (made["mean"] - made["theory"]) / made["se"].where(told)
    drawn = pd.concat(lines, ignore_index=True)
    labels = _labels(made, run.study.memory_axis)
    return made.join(labels, on=keys), drawn.join(labels, on=keys)


def _labels(points: pd.DataFrame, memory_axis: str) -> pd.DataFrame:
    """Columns column, row and setting, by TASK and SETTING."""
    keys = [*TASK, *SETTING]
    kinds = points[keys].drop_duplicates()
    task = [field for field in TASK if kinds[field].nunique() > 1]
    varied = [field for field in SETTING if kinds[field].nunique() > 1]
    several = len(kinds[varied].drop_duplicates()) > MOST and memory_axis in varied
    inside = [memory_axis] if several else varied
    above = [field for field in varied if field not in inside]
    found = kinds.copy()
    found["column"] = [_named(line, task) for line in kinds.to_dict("records")]
    found["row"] = [_named(line, above) for line in kinds.to_dict("records")]
    found["setting"] = [
        ": ".join(filter(None, [regime_of(line) if not above else "", _named(line, inside)]))
        for line in kinds.to_dict("records")
    ]
    return found.set_index(keys)


def _named(line: Any, fields: list[str]) -> str:
    words = (f"{SHORT.get(f, f.partition('.')[2])} {_exact(line[f])}".strip() for f in fields)
    return ", ".join(words)


def _exact(value: Any) -> str:
    """In as many digits as it takes: of -0.999999, what counts is how far it is from -1."""
    short = style.number(value)
    return short if isinstance(value, str) or float(short) == value else f"{value:.7g}"


def regime_of(line: Any) -> str:
    """At coefficients of size 1, or nothing without pretraining."""
    if line["pretrain.name"] == "none":
        return ""
    init = init_of(line)
    return str(regime(order(1.0, init.finetuning_root(1.0)), dependence(1.0, 1.0, init)))


def said(points: pd.DataFrame) -> str:
    """How near the networks are to the theory, in a sentence; nothing where there are none."""
    off = points["off"].abs().dropna() if len(points) else pd.Series(dtype=float)
    if off.empty:
        return ""
    counts = ", ".join(f"{(off <= k).sum()} within {k}" for k in WITHIN)
    low, high = points["n"].min(), points["n"].max()
    networks = f"{low}" if low == high else f"{low} to {high}"
    return (
        f"Of {len(off)} mean test errors ({networks} networks each), in standard errors from the "
        f"theory: {counts}; median {off.median():.1f}."
    )


def draw(points: pd.DataFrame, lines: pd.DataFrame) -> Figure:
    """What `table` gives, if it has points."""
    several = points["alpha"].nunique() > 1
    with matplotlib.rc_context(style.RC):
        if several and len(points[["row", "column"]].drop_duplicates()) <= PANELS:
            return _draw(points, lines)
        return _against(points)


def _against(points: pd.DataFrame) -> Figure:
    drawn = style.figure(5.0, 4.6)
    axes = drawn.subplots()
    axes.axline((0, 0), slope=1, color=style.PALE, lw=1)
    axes.vlines(points["theory"], points["low"], points["high"], color=COLOURS[0], lw=0.9)
    axes.scatter(points["theory"], points["mean"], s=13, color=COLOURS[0], zorder=3)
    axes.set_xlabel("error that the theory says")
    axes.set_ylabel("test error / mean square of the targets")
    return drawn


def _draw(points: pd.DataFrame, lines: pd.DataFrame) -> Figure:
    panels = list(dict.fromkeys(zip(points["row"], points["column"], strict=True)))
    flat = 2 if len(panels) <= 4 else 3
    columns = min(len(panels), points["column"].nunique() if points["row"].nunique() > 1 else flat)
    rows = -(-len(panels) // columns)
    settings = list(dict.fromkeys(points["setting"]))
    height = 2.7 if columns < 3 else 2.1
    drawn = style.figure(7.6, height * rows + 0.4 + 0.2 * -(-len(settings) // 3))
    grid = drawn.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(settings)}
    for axes, (row, column) in zip(grid.flat, panels, strict=False):
        here = (points["row"] == row) & (points["column"] == column)
        there = (lines["row"] == row) & (lines["column"] == column)
        _panel(axes, points[here], lines[there], colours)
        axes.set_title("\n".join(filter(None, [column, row])), loc="left", fontweight="bold")
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    high = max(1.0, points["mean"].max(), lines["error"].max())
    grid.flat[0].set_ylim(-0.04 * high, 1.08 * high)
    for axes in grid[-1]:
        axes.set_xlabel("training examples / d")
    drawn.supylabel("test error / mean square of the targets", fontsize=9)
    _legend(drawn, [name for name in settings if name], colours)
    return drawn


def _panel(axes: Axes, points: pd.DataFrame, lines: pd.DataFrame, colours: dict[str, str]) -> None:
    names = list(dict.fromkeys(points["setting"]))
    step = 0.004 * (lines["alpha"].max() - lines["alpha"].min())
    for i, name in enumerate(names):
        line, dots = lines[lines["setting"] == name], points[points["setting"] == name]
        axes.plot(line["alpha"], line["error"], color=colours[name], lw=1.3, zorder=2)
        # A little apart, for dots of settings with the same error to be seen.
        place = dots["alpha"] + step * (i - (len(names) - 1) / 2)
        axes.vlines(place, dots["low"], dots["high"], color=colours[name], lw=0.9, zorder=3)
        axes.scatter(
            place, dots["mean"], s=13, color=colours[name], zorder=4, lw=0.4, edgecolors="white"
        )


def _legend(drawn: Figure, settings: list[str], colours: dict[str, str]) -> None:
    handles = [
        Line2D([], [], color=colours[name], lw=1.3, marker="o", ms=3.5, label=name)
        for name in settings
    ]
    looks: dict[str, Any] = {"color": style.INK}
    handles += [
        Line2D([], [], lw=1.3, label="theory", **looks),
        Line2D([], [], ls="", marker="o", ms=3.5, label="networks, 95% of the mean", **looks),
    ]
    drawn.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8)
