"""python -m analysis.fine_tuning RUN: which initialization helps a network that was pretrained.

Test accuracy after fine-tuning over the size of its training set, a line for each value of the
memory axis (such as kappa, the relative scale of early layers). Values are compared within seeds,
for a seed draws the same init noise for all of them; where the study lists several `data.split` or
`data.classes`, a unit is one of these tasks, over whose seeds is averaged: seeds that learn the
same few examples say nothing of others.
"""

from __future__ import annotations

from typing import Any

import click
import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import t as student

from analysis import style, tables
from analysis.command import Analysis, drawable, save
from analysis.ood import mean_of
from analysis.style import listed, number
from analysis.tables import Run
from initmem.memory import TRAINED
from initmem.study.spec import UserError

AMOUNTS = {"data.train": "training examples", "data.train_fraction": "share of the pairs trained"}
"""Axis -> what it counts."""
TASKS = ("data.split", "data.classes")
"""Axes whose values are so many draws of one task."""
MEASURE = "selected.test_accuracy"
LEVEL = 0.95
ROUNDING = 1e-9
"""Points by which units differ that do not."""
WIDTH = 0.06
"""Half of the room for the values of one amount, as a share of the way to the next."""

Tables = tuple[pd.DataFrame, pd.DataFrame]


def table(run: Run) -> Tables:
    """The means and the differences; both empty for a study without pretraining, without one of
    AMOUNTS for an axis, or with ranges.

    means, a line for each panel, value and amount: panel (label), axis and value (the memory
    axis), field and amount (of AMOUNTS), unit (task or seed), n (units), networks (that trained),
    lost (that did not), mean, low and high (95%, Student's t over units, within 0 to 100; nan
    where they do not differ). differences, in points of accuracy, unit by unit, of a value minus
    `reference` (1 where the axis lists it, else the largest): panel, axis, value, reference,
    amount (nan: the mean over amounts), unit, n, difference, low, high (95% of all lines of the
    panel together, those over all amounts apart; Bonferroni), verdict.
    """
    study = run.study
    amount = next((field for field in AMOUNTS if field in study.axes), None)
    axis = study.memory_axis
    staged = (run.rows["pretrain.name"] == "stage").any()
    if amount in (None, axis) or not staged or study.ranges:
        return pd.DataFrame(), pd.DataFrame()
    rows = _labelled(run, str(amount), axis)
    means, found = [], []
    for panel, group in rows.groupby("panel", sort=False):
        for (value, size), same in group.groupby(["value", "amount"]):
            known = same.dropna(subset=["accuracy"])
            each = known.groupby("unit")["accuracy"].mean().to_numpy()
            mean, low, high = mean_of(each)
            line = {"panel": panel, "axis": axis, "value": value, "field": amount, "amount": size}
            line |= {"unit": same["kind"].iloc[0], "n": len(each), "networks": len(known)}
            line |= {"lost": len(same) - len(known), "mean": mean, "low": low, "high": high}
            means.append(line)
        found += [{"panel": panel, "axis": axis, **line} for line in _compared(group)]
    return pd.DataFrame(means), pd.DataFrame(found)


def _labelled(run: Run, amount: str, axis: str) -> pd.DataFrame:
    """Columns: panel, value, amount, kind and unit (task or seed), task, seed, accuracy (nan of
    networks that did not train); of networks that were pretrained."""
    rows = run.rows[run.rows["pretrain.name"] == "stage"]
    drawn = [field for field in TASKS if field in run.study.axes and field != axis]
    others = [field for field in run.study.axes if field not in (amount, axis, *drawn)]
    others = [field for field in others if rows[field].nunique(dropna=False) > 1]
    labels = [listed(line) for line in rows[others].to_dict("records")]
    task = [listed(line) for line in rows[drawn].to_dict("records")]
    made = rows[["seed"]].assign(panel=labels, value=rows[axis], amount=rows[amount], task=task)
    kind = "task" if made["task"].nunique() > 1 else "seed"
    made = made.assign(kind=kind, unit=made[kind])
    return made.assign(accuracy=rows[MEASURE].where(rows["state"].isin(TRAINED)))


def interval(value_N: np.ndarray, lines: int) -> tuple[float, float, float]:
    """Mean and its interval by Student's t, which with those of `lines` others like it holds all
    true means 95% of the time; nan for the ends of one value, or of values that do not differ."""
    mean = float(value_N.mean()) if len(value_N) else np.nan
    if len(value_N) < 2 or np.ptp(value_N) < ROUNDING:
        return mean, np.nan, np.nan
    quantile = student.ppf(1 - (1 - LEVEL) / (2 * lines), len(value_N) - 1)
    reach = float(quantile * value_N.std(ddof=1) / np.sqrt(len(value_N)))
    return mean, mean - reach, mean + reach


def _compared(group: pd.DataFrame) -> list[dict[str, Any]]:
    """Of a panel, by value and amount, then by value over all amounts."""
    values = sorted(group["value"].unique())
    reference = 1 if 1 in values else values[-1]
    wide = group.pivot_table(
        index=["amount", "unit", "task", "seed"], columns="value", values="accuracy", dropna=False
    )
    lines = []
    for value in (v for v in values if v != reference and {v, reference} <= set(wide)):
        apart = (wide[value] - wide[reference]).dropna().reset_index(name="apart")
        each = apart.groupby(["amount", "unit"])["apart"].mean().unstack("amount")
        units = {size: each[size].dropna().to_numpy() for size in each}
        units[np.nan] = each.dropna().mean(axis=1).to_numpy()
        lines += [(value, size, apart_N) for size, apart_N in units.items()]
    made = []
    for value, size, apart_N in lines:
        alike = sum(np.isnan(other) == np.isnan(size) for _, other, _ in lines)
        mean, low, high = interval(apart_N, alike)
        verdict = "helps" if low > 0 else "hurts" if high < 0 else "undecided"
        line = {"value": value, "reference": reference, "amount": size}
        line |= {
            "unit": group["kind"].iloc[0],
            "n": len(apart_N),
            "difference": mean,
            "low": low,
            "high": high,
        }
        made.append({**line, "verdict": verdict})
    return made


def said(differences: pd.DataFrame) -> list[str]:
    """What each value does over all amounts, a sentence each."""
    if differences.empty:
        return []
    sentences = []
    for line in differences[differences["amount"].isna()].to_dict("records"):
        where = f"{line['panel']}: " if line["panel"] else ""
        verb = "is undecided" if line["verdict"] == "undecided" else line["verdict"]
        name = f"{where}{line['axis']} {number(line['value'])}"
        found = f"{_difference(line)} points over all amounts, {_n(line)}"
        sentences.append(f"{name} {verb} against {number(line['reference'])}: {found}.")
    return sentences


def _difference(line: Any) -> str:
    ends = "" if pd.isna(line["low"]) else f" ({line['low']:+.1f} to {line['high']:+.1f})"
    return f"{line['difference']:+.1f}{ends}"


def _n(line: Any) -> str:
    return f"n = {line['n']} {line['unit']}{'s' * (line['n'] != 1)}"


def texts(means: pd.DataFrame, differences: pd.DataFrame) -> pd.DataFrame:
    """The means as they are read, a line an amount and a column a value, with what each value
    makes of the reference."""
    if means.empty:
        return means
    lines = []
    for (panel, size), group in means.groupby(["panel", "amount"], sort=False):
        line = {"": panel, group["field"].iloc[0]: number(size)}
        for each in group.to_dict("records"):
            ends = "" if pd.isna(each["low"]) else f" ({each['low']:.1f} to {each['high']:.1f})"
            lost = f", {each['lost']} not trained" if each["lost"] else ""
            line[number(each["value"])] = f"{each['mean']:.1f}{ends}, n = {each['n']}{lost}"
        same = (differences["panel"] == panel) & (differences["amount"] == size)
        for each in differences[same].to_dict("records"):
            head = f"{number(each['value'])} - {number(each['reference'])}"
            line[head] = f"{_difference(each)}, {each['verdict']}"
        lines.append(line)
    text = pd.DataFrame(lines).fillna("-")
    return text if means["panel"].nunique() > 1 else text.drop(columns="")


def draw(means: pd.DataFrame, differences: pd.DataFrame) -> Figure:
    """What `table` gives, if it has means -> a panel each, a line a value of the axis."""
    with matplotlib.rc_context(style.RC):
        return _draw(means)


def _draw(means: pd.DataFrame) -> Figure:
    axis, amount = means["axis"].iloc[0], AMOUNTS[means["field"].iloc[0]]
    labels, values = list(means["panel"].unique()), sorted(means["value"].unique())
    y = "test accuracy after fine-tuning (%)"
    drawn, panels = style.panels(labels, 2.9, 0.35, amount, y)
    places = np.sort(means["amount"].unique()).astype(float)
    apart = np.diff(np.log(places)).min() if len(places) > 1 else 1.0
    shift = np.linspace(-1, 1, len(values)) * WIDTH * apart if len(values) > 1 else [0.0]
    ends = means[["mean", "low", "high"]].to_numpy(float)
    for panel, label in zip(panels, labels, strict=True):
        style.span(panel.xaxis, places[0], places[-1], True)
        panel.set_xticks(places, [number(place) for place in places])
        style.span(panel.yaxis, np.nanmin(ends), min(100.0, np.nanmax(ends)), False)
        for i, value in enumerate(values):
            same = means[(means["panel"] == label) & (means["value"] == value)]
            colour = style.SETTING(i / max(1, len(values) - 1))
            _line(panel, same, np.exp(shift[i]), colour, f"{axis} {number(value)}")
    handles, names = panels[0].get_legend_handles_labels()
    drawn.legend(handles, names, loc="outside lower center", ncols=len(values), fontsize=8)
    return drawn


def _line(panel: Axes, means: pd.DataFrame, shift: float, colour: Any, label: str) -> None:
    x_N = means["amount"].to_numpy(float) * shift
    panel.plot(x_N, means["mean"], "o-", color=colour, lw=1.4, ms=4, label=label)
    panel.vlines(x_N, means["low"], means["high"], color=colour, lw=1.1)


@click.command(cls=Analysis, epilog="Example: python -m analysis.fine_tuning runs/digits_kappa")
@click.argument("run", metavar="RUN")
@click.option("--figure", metavar="FILE", help="Draw it into a .png or .pdf.")
def main(run: str, figure: str | None) -> None:
    """Say what a value of the memory axis does to fine-tuning, by the amount to learn from."""
    drawable(figure)
    read = tables.read(run)
    made = table(read)
    if made[0].empty:
        what = f"a pretrain stage, no ranges, and one of {', '.join(AMOUNTS)} for an axis"
        raise UserError(f"{run}: fine_tuning: needs a study with {what}")
    click.echo(texts(*made).to_string(index=False))
    click.echo("\n".join(said(made[1])))
    if figure:
        save(draw(*made), figure)


if __name__ == "__main__":
    main(prog_name="python -m analysis.fine_tuning")
