"""Rows with random-label heads -> what networks memorize, in tables; in words, see
`memorization_said.py`.

Memorization of a network is the final complexity at its deepest head, in percent: 0 where its
random labels are told no better than by chance, 100 where all are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import initmem.memory
from analysis.curves import having
from analysis.fine_tuning import TASKS, interval
from analysis.generalization import APART
from analysis.ood import mean_of
from analysis.style import listed
from analysis.tables import Run

STRENGTH = "random_labels.strength"
PREDICTORS = {"selected": "selected.test_accuracy", "final": "final.test_accuracy"}
VERDICTS = {"accuracy": ("helps", "hurts"), "memorization": ("rises", "falls")}
"""Of a difference above 0, and below."""
QUANTITIES = ("accuracy", "control_accuracy", "chance")


def networks(run: Run) -> pd.DataFrame:
    """The rows of networks with heads that neither diverged nor failed, with panel (label: the
    axes but the memory axis and those of TASKS), value (of the memory axis), task, memorization,
    control (the same by fresh heads, or nan) and layers (names, in the order of depth). Empty
    without heads."""
    rows = run.rows[run.rows["random_labels.name"] == "heads"]
    rows = rows[~rows["state"].isin(APART)]
    rows = having(rows, "readings")
    axis = run.study.memory_axis
    drawn = [field for field in TASKS if field in run.study.axes and field != axis]
    others = [field for field in run.study.axes if field not in (axis, *drawn)]
    known = [_last(readings) for readings in rows["readings"]]
    return rows.assign(
        panel=_labels(rows, others),
        task=_labels(rows, drawn),
        value=rows[axis],
        memorization=[100 * found["complexity"][-1] for found in known],
        control=[100 * found.get("control_complexity", [np.nan])[-1] for found in known],
        layers=pd.Series([tuple(found["where"]) for found in known], rows.index, dtype=object),
    )


def _labels(rows: pd.DataFrame, fields: list[str]) -> list[str]:
    lines: list[Any] = rows[fields].to_dict("records")
    return [listed(line) for line in lines]


def left_out(run: Run) -> int:
    """Rows with heads that are in no table."""
    return int((run.rows["random_labels.name"] == "heads").sum()) - len(networks(run))


def _last(readings: Any) -> dict[str, list[Any]]:
    """Quantity -> its values at the last reading, by depth; where -> the layers."""
    found: dict[str, list[Any]] = {}
    ours = [one for one in readings if one["probe"] == "random_labels"]
    for one in ours:
        if one["step"] == ours[-1]["step"]:
            found.setdefault(one["quantity"], []).append(one["value"])
            if one["quantity"] == "accuracy":
                found.setdefault("where", []).append(one["where"])
    return found


def depth(run: Run) -> pd.DataFrame:
    """Random-label accuracy in percent, a line for each panel, value of the memory axis, step,
    layer and quantity (of QUANTITIES): panel, axis, value, place (of the value, 0 to 1), step,
    last (whether it is the final reading), layer, depth (its place), quantity, mean, low and high
    (95%, Student's t over networks), n. Empty in a study with ranges, whose cells are too many."""
    made = networks(run)
    if made.empty or run.study.ranges:
        return pd.DataFrame()
    axis, values = run.study.memory_axis, run.study.axes[run.study.memory_axis]
    lines = []
    for (panel, value), group in made.groupby(["panel", "value"], sort=False):
        layers = group["layers"].iloc[0]
        read = pd.DataFrame([one for readings in group["readings"] for one in readings])
        read = read[(read["probe"] == "random_labels") & read["quantity"].isin(QUANTITIES)]
        final = read["step"].max()
        for (step, where, what), same in read.groupby(["step", "where", "quantity"]):
            mean, low, high = mean_of(same["value"].to_numpy(float))
            line = {"panel": panel, "axis": axis, "value": value, "step": step}
            line |= {"place": values.index(value) / max(1, len(values) - 1), "last": step == final}
            line |= {"layer": where, "depth": layers.index(where), "quantity": what}
            lines.append({**line, "mean": mean, "low": low, "high": high, "n": len(same)})
    return pd.DataFrame(lines)


def against(run: Run) -> pd.DataFrame:
    """A line a cell and value of the memory axis: cell, panel, axis, value, place, accuracy (of
    the selected predictor, on the test set), memorization, each with its 95% interval over seeds
    (Student's t, within what the quantity can be; nan for one seed) as accuracy.low and so on,
    n, labels (random_labels.n)."""
    axis, values = run.study.memory_axis, run.study.axes[run.study.memory_axis]
    lines = []
    made = networks(run)
    keys = ["panel", "cell", "value"]
    for (panel, cell, value), group in made.groupby(keys, sort=False) if len(made) else ():
        line = {"cell": cell, "panel": panel, "axis": axis, "value": value, "n": len(group)}
        line["place"] = values.index(value) / max(1, len(values) - 1)
        line["labels"] = labels = int(group["random_labels.n"].iloc[0])
        ranges = {PREDICTORS["selected"]: ("accuracy", 0.0),
                  "memorization": ("memorization", -100 / (labels - 1))}  # fmt: skip
        for column, (name, least) in ranges.items():
            ends = np.clip(interval(group[column].to_numpy(float), 1), least, 100)
            line |= dict(zip((name, f"{name}.low", f"{name}.high"), ends, strict=True))
        lines.append(line)
    return pd.DataFrame(lines)


def effects(run: Run) -> pd.DataFrame:
    """What each strength does against strength 0, all else being the same: a line for each panel
    (the axes but STRENGTH and TASKS) and strength. Columns: panel, strength, unit (task, where
    several are listed, else seed), n, undertrained (networks with the strength), before and after
    (mean memorization of the pairs), control (after, by fresh heads), and for each of PREDICTORS
    and of memorization difference, low, high (95%, of all lines of the panel together,
    Bonferroni), verdict (of VERDICTS), as in final.low. A network whose partner is lost is in no
    pair. Empty where no axis lists strengths with 0 among them, or with ranges."""
    made = networks(run)
    if made.empty or 0 not in run.study.axes.get(STRENGTH, []) or run.study.ranges:
        return pd.DataFrame()
    fields = [f for f in run.study.axes if f not in (STRENGTH, *TASKS)]
    made = made.assign(panel=_labels(made, fields))
    unit = "task" if made["task"].nunique() > 1 else "seed"
    lines = []
    for panel, group in made.groupby("panel", sort=False):
        columns = {**PREDICTORS, "memorization": "memorization"}
        wide = {
            name: group.pivot_table(index=["task", "seed"], columns=STRENGTH, values=column)
            for name, column in columns.items()
        }
        strengths = [s for s in wide["memorization"] if s != 0 and 0 in wide["memorization"]]
        for strength in strengths:
            own = group[group[STRENGTH] == strength]
            line: dict[str, Any] = {"panel": panel, "strength": strength, "unit": unit}
            line["undertrained"] = int((own["state"] == "undertrained").sum())
            paired = wide["memorization"][[0, strength]].dropna()
            before, after = paired.groupby(unit).mean().mean()
            fresh = own.set_index(["task", "seed"])["control"].loc[paired.index]
            control = fresh.groupby(unit).mean().mean()
            line |= {"before": before, "after": after, "control": control}
            for name, table in wide.items():
                apart = (table[strength] - table[0]).dropna().groupby(unit).mean().to_numpy()
                mean, low, high = interval(apart, len(strengths))
                line |= {"n": len(apart), f"{name}.difference": mean}
                up, down = VERDICTS["memorization" if name == "memorization" else "accuracy"]
                verdict = up if low > 0 else down if high < 0 else "undecided"
                line |= {f"{name}.low": low, f"{name}.high": high, f"{name}.verdict": verdict}
            lines.append(line)
    return pd.DataFrame(lines)


def cells(run: Run) -> pd.DataFrame:
    """Memory of the study's measure beside the same statistic of memorization, a line a cell that
    has both: run.cells, with change, change_low, change_high (95%, simultaneous over values of the
    memory axis), change_verdict and memorization (mean over values)."""
    made = networks(run)
    if made.empty or "cell" not in run.cells:
        return pd.DataFrame()
    values = len(run.study.axes[run.study.memory_axis])
    found = initmem.memory.cells(
        made, "memorization", threshold=run.study.threshold, axis_values=values
    ).set_index("cell")
    names = {"memory": "change", "low": "change_low", "high": "change_high",
             "verdict": "change_verdict", "mean": "memorization"}  # fmt: skip
    beside = found[list(names)].rename(columns=names)
    return run.cells.join(beside, on="cell").dropna(subset=["memory", "change"])
