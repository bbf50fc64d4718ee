"""python -m analysis.forgetting_clock RUN...: which clock tells the memory of which cells?

Cells whose recipes differ in nothing but what a clock counts (learning rate, L2, decay, batch,
steps, schedule) belong together. For each clock a falling function is fitted to their memory, and
its error is that on cells left out of the fit, one at a time.
"""

from __future__ import annotations

from typing import Any

import click
import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from analysis import clocks, style, tables
from analysis.clocks import Clock
from analysis.command import Analysis, drawable, save
from analysis.tables import Run
from initmem.memory.measures import MEASURE, named
from initmem.study import plan
from initmem.study.spec import UserError

COUNTED = (
    "lr", "l2", "weight_decay", "decay_window", "batch", "steps", "epochs", "schedule", "warmup",
    "stop_loss",
)  # fmt: skip
"""Fields of the optimizer that a clock counts."""
FEWEST = 6
"""Cells below which no clock is held against another."""
SURE = 0.95
"""Share of the resamples in which a clock is the best, from which it is called that."""
NOTHING = "no clock"


MORE = click.option(
    "--clock", "more", multiple=True, metavar="PRODUCT",
    help="One more forgetting clock, such as 'lr^1.5*l2' or 'lr/model.width'. Repeatable.",
)  # fmt: skip


def chosen(more: tuple[str, ...] = ()) -> list[Clock]:
    """The clocks of every report, and more. Raises UserError."""
    return [clocks.parse(text) for text in (*clocks.DEFAULT, *more)]


def table(run: Run, of: list[Clock]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Cells -> points and errors; both empty where too few cells have a memory over all values.

    points, a line a cell and clock: group (label), clock (label), value, memory, low and high
    (95%), lr, measure (of the study). errors, a line a group and clock, and one for no clock (the
    mean): group, clock, error (root mean square of left-out cells, in the unit of the measure),
    low and high (95%, bootstrap over cells), best (share of the resamples), noise (root mean
    square of the standard errors of memory: what no clock can tell), n (cells), measure. Cells
    whose memory is but a lower bound are left out.
    """
    points, errors = [pd.DataFrame()], [pd.DataFrame()]
    arms = {arm.id: arm for arm in plan.arms(run.study)}
    whole = run.cells[run.cells["memory"].notna()]
    whole = whole[whole.get("optim.lr", whole["memory"]).notna()]
    whole = whole[(whole["trained_values"] == whole["values"]) & ~style.censored(whole)]
    labels = whole["arm"].map({name: _group(arm) for name, arm in arms.items()})
    for label, cells in whole.groupby(labels, sort=False):
        told = {clock.label: _values(run, cells, arms, clock) for clock in of}
        told = _different(told)
        if len(cells) < FEWEST or not told:
            continue
        memory_N = cells["memory"].to_numpy(float)
        wrong = [clocks.left_out(clocks.places(value_N), memory_N) for value_N in told.values()]
        error, low, high, best = clocks.compared(np.array([*wrong, clocks.untold(memory_N)]))
        noise = np.sqrt((cells["error"] ** 2).mean())
        errors.append(
            pd.DataFrame(
                {"group": label, "clock": [*told, NOTHING], "error": error, "low": low,
                 "high": high, "best": best, "noise": noise, "n": len(cells),
                 "measure": run.study.measure}
            )
        )  # fmt: skip
        measured = cells.rename(columns={"optim.lr": "lr"})[["memory", "low", "high", "lr"]]
        measured["measure"] = run.study.measure
        points += [
            measured.assign(group=label, clock=name, value=value_N)
            for name, value_N in told.items()
        ]
    return pd.concat(points, ignore_index=True), pd.concat(errors, ignore_index=True)


def _different(told: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Without clocks that do not vary, or are another one times a constant."""
    kept: dict[str, np.ndarray] = {}
    for name, value_N in told.items():
        if np.ptp(value_N) > 1e-9 * value_N.max() and not any(
            np.allclose(value_N * other_N.max(), other_N * value_N.max(), rtol=1e-9, atol=0)
            for other_N in kept.values()
        ):
            kept[name] = value_N
    return kept


def _group(arm: plan.Arm) -> str:
    counted = {f"optim.{name}" for name in COUNTED}
    return style.listed({field: v for field, v in arm.values.items() if field not in counted})


def _values(run: Run, cells: pd.DataFrame, arms: dict[str, plan.Arm], clock: Clock) -> np.ndarray:
    first = run.study.axes[run.study.memory_axis][0]
    steps = run.rows.groupby("cell")["steps"].median()
    found = []
    for _, cell in cells.iterrows():
        point = {field: float(cell[field]) for field in run.study.ranges}
        varied = {**arms[cell["arm"]].values, **point, run.study.memory_axis: first}
        recipe = plan.resolve(run.study, varied)
        found.append(clock.of(recipe, int(steps[cell["cell"]])))
    return np.array(found)


def said(errors: pd.DataFrame) -> list[str]:
    """A sentence a group: which clock tells its memory, or which are not told apart."""
    if errors.empty:
        return []
    return [_sentence(str(label), lines) for label, lines in errors.groupby("group", sort=False)]


def _sentence(label: str, lines: pd.DataFrame) -> str:
    lines = lines.sort_values("error", kind="stable")
    first, rest = lines.iloc[0], lines.iloc[1:]
    where = f"{label}: " if label else ""
    n, noise, unit = first["n"], first["noise"], named(first.get("measure", MEASURE)).unit
    others = ", ".join(f"{line['clock']} {line['error']:.1f}" for _, line in rest.iterrows())
    numbers = (
        f"{first['error']:.1f} {unit} (95% {first['low']:.1f} to {first['high']:.1f}, n = {n} "
        f"cells, noise alone {noise:.1f}) against {others}"
    )
    if first["clock"] == NOTHING:
        return (
            f"{where}No clock tells memory better than its mean: left-out cells err by {numbers}."
        )
    if first["best"] >= SURE:
        return f"{where}Memory falls with {first['clock']}: left-out cells err by {numbers}."
    shares = lines.sort_values("best", ascending=False, kind="stable")
    likely = shares["clock"][shares["best"].cumsum() - shares["best"] < SURE]
    return (
        f"{where}{first['clock']} errs least on left-out cells, by {numbers}; "
        f"{' and '.join(likely)} are not told apart."
    )


def draw(points: pd.DataFrame, errors: pd.DataFrame) -> Figure:
    """What `table` gives, if it has points -> the collapse plot: a row a group, a column a clock;
    where a clock tells memory, the cells fall on one curve."""
    with matplotlib.rc_context(style.RC):
        return _draw(points, errors)


def _draw(points: pd.DataFrame, errors: pd.DataFrame) -> Figure:
    groups, names = list(points["group"].unique()), list(points["clock"].unique())
    drawn = style.figure(max(4.2, 2.0 * len(names) + 0.8), 2.3 * len(groups) + 0.5)
    grid = drawn.subplots(len(groups), len(names), squeeze=False, sharey="row")
    lr = points["lr"]
    norm = LogNorm(lr.min(), lr.max()) if lr.nunique() > 1 else None
    for row, group in zip(grid, groups, strict=True):
        of_group = points[points["group"] == group]
        told = errors[errors["group"] == group].set_index("clock")
        style.span(row[0].yaxis, 0.0, of_group[["memory", "high"]].max().max(), False)
        for panel, name in zip(row, names, strict=True):
            cells = of_group[of_group["clock"] == name]
            if cells.empty:
                panel.set_axis_off()
                continue
            _collapse(panel, cells, norm)
            error = f"errs by {told.loc[name, 'error']:.1f}"
            weight = "bold" if told["error"].idxmin() == name else "normal"
            panel.set_title(error, fontsize=8, fontweight=weight)
            panel.set_xlabel(name)
        row[0].set_ylabel(f"memory ({named(of_group['measure'].iloc[0]).unit})")
        if group:
            row[0].annotate(group, (0, 1), xytext=(0, 16), xycoords="axes fraction",
                            textcoords="offset points", fontweight="bold", fontsize=9)  # fmt: skip
    if norm:
        style.bar(drawn, list(grid.flat), norm, "learning rate")
    return drawn


def _collapse(panel: Axes, cells: pd.DataFrame, norm: Any) -> None:
    value_N, memory_N = cells["value"].to_numpy(float), cells["memory"].to_numpy(float)
    place_N = clocks.places(value_N)
    x_N = 10**place_N
    zero = x_N.min() if (value_N == 0).any() else None
    style.span(panel.xaxis, value_N[value_N > 0].min(), x_N.max(), True, zero)
    along = np.linspace(place_N.min(), place_N.max(), 200)
    panel.plot(10**along, clocks.falling(place_N, memory_N)(along), color=style.PALE, lw=1)
    panel.vlines(x_N, cells["low"], cells["high"], color="#d8d8d8", lw=0.8, zorder=1)
    colours = [style.SETTING(norm(lr) if norm else 0.7) for lr in cells["lr"]]
    panel.scatter(x_N, memory_N, c=colours, s=18, linewidths=0.4, edgecolors="white", zorder=3)


@click.command(
    cls=Analysis, epilog="Example: python -m analysis.forgetting_clock runs/sgd_l2 runs/adam"
)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@MORE
@click.option("--figure", metavar="FILE", help="Draw them all into a .png or .pdf.")
def main(runs: tuple[str, ...], more: tuple[str, ...], figure: str | None) -> None:
    """Say which clock tells the memory of the cells of each run."""
    drawable(figure)
    points, errors = collected([tables.read(run) for run in runs], chosen(more))
    if errors.empty:
        raise UserError(f"{', '.join(runs)}: clock: fewer than {FEWEST} cells with a memory")
    click.echo(errors.drop(columns="measure").round(2).to_string(index=False))
    click.echo("\n".join(said(errors)))
    if figure:
        save(draw(points, errors), figure)


def collected(runs: list[Run], of: list[Clock]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`table` of several runs, whose names stand before the labels of their groups."""
    made = []
    for run in runs:
        parts = table(run, of)
        if len(runs) > 1:
            for part in (part for part in parts if len(part)):
                name = run.study.name
                part["group"] = [f"{name}, {group}" if group else name for group in part["group"]]
        made.append(parts)
    points, errors = zip(*made, strict=True)
    return pd.concat(points, ignore_index=True), pd.concat(errors, ignore_index=True)


if __name__ == "__main__":
    main(prog_name="python -m analysis.forgetting_clock")
