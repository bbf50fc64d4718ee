"""A run folder -> the tables that everything in the report is made from.

Nothing is drawn here. Accuracies are in percent, memory in the unit of the study's measure:
percentage points, or doublings.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import initmem.memory
from analysis.style import listed
from initmem.memory import STATES
from initmem.memory.measures import Measure, named
from initmem.records.store import Store, frame
from initmem.study import plan
from initmem.study.spec import Study, UserError

LOST = ("undertrained", "diverged", "failed", "missing")
"""Why replicas of a cell are not in its memory; missing: planned, and no row yet."""


@dataclass(frozen=True)
class Run:
    """What a run folder holds of the study it belongs to."""

    study: Study
    rows: pd.DataFrame
    """A line a replica (columns: `initmem.records.rows.SCHEMA`)."""
    cells: pd.DataFrame
    """A line a cell: `cells`. Both are in the order of the study's arms, then by draw."""
    planned: int
    """Replicas that the study asks for, without those that an early end of its search spares."""
    ended: dict[str, int]
    """Draws of the arms whose search ended early, by id."""
    others: int
    """Rows in the folder that the study does not ask for, left out of `rows`."""

    @property
    def measure(self) -> Measure:
        """What memory is the spread of."""
        return named(self.study.measure)

    @property
    def arms(self) -> dict[str, str]:
        """Id -> label of every planned arm; the label is empty where there is one arm."""
        return {arm.id: listed(arm.values) for arm in plan.arms(self.study)}

    @property
    def axes(self) -> pd.DataFrame:
        """The at most two fields that cells are drawn on: the first ranges, or, in a study
        without ranges, the first axes that list several numbers. Columns: field, low, high, log,
        and zero: where on a log axis a listed 0 stands (below low), or nan."""
        lines = [[field, r.low, r.high, r.log, np.nan] for field, r in self.study.ranges.items()]
        for field, values in self.study.axes.items() if not lines else ():
            numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
            if field == self.study.memory_axis or len(numbers) < max(2, len(values)):
                continue
            if self.cells[field].isna().any():  # a field that some arms do not have
                continue
            low, high = min(v for v in numbers if v != 0), max(numbers)
            log = low > 0 and high >= 10 * low
            zero = low / (high / low) ** 0.3 if log and 0 in numbers else np.nan
            lines.append([field, low if log else min(numbers), high, log, zero])
        return pd.DataFrame(lines[:2], columns=["field", "low", "high", "log", "zero"])

    @property
    def panels(self) -> dict[str, str]:
        """Id of an arm -> label of the panel that its cells are drawn in: what tells the arm
        from others, but for the fields that are drawn as `axes`."""
        drawn = set(self.axes["field"])
        return {
            arm.id: listed({field: v for field, v in arm.values.items() if field not in drawn})
            for arm in plan.arms(self.study)
        }


def read(folder: str | Path) -> Run:
    """Raises UserError where there is no run, no row, or no row with the study's measure."""
    store = Store(folder)
    study = store.open()
    ended = store.ended(study)
    found, asked = store.rows(), plan.asked_by(study, ended)
    rows = frame([row for row in found if asked(row)])
    others = len(found) - len(rows)
    if rows.empty:
        left = f", its {others} rows are of another study" if others else ""
        raise UserError(f"{folder}: report: the run has no rows yet{left}")
    measure = named(study.measure)
    if measured(rows, measure)["value"].isna().all():
        states = listed(rows["state"].value_counts().to_dict())
        article = "an" if measure.noun[0] in "aeiou" else "a"
        said = f"no row has {article} {measure.noun} to draw ({states})"
        raise UserError(f"{folder}: report: {said}")
    order = {arm.id: arm.index for arm in plan.arms(study)}
    rows = rows.sort_values("arm", key=lambda c: c.map(order), kind="stable", ignore_index=True)
    planned = plan.count(study, ended)
    return Run(study, rows, cells(rows, study), planned, ended, others)


def measured(rows: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """The measure of each row. Columns: value (nan where it has none), censored (whether that is a
    lower bound)."""
    columns = [measure.column, "steps", "state"]
    lines = [dict(zip(columns, line, strict=True)) for line in rows[columns].to_numpy(object)]
    made = [(measure.value(line), measure.censored(line)) for line in lines]
    return pd.DataFrame(made, columns=["value", "censored"], index=rows.index)


def cells(rows: pd.DataFrame, study: Study) -> pd.DataFrame:
    """`initmem.memory.cells(rows)` and two columns more: lr_x_l2 (optim.lr * optim.l2, where a
    cell has both) and missing (replicas without a row)."""
    values = len(study.axes[study.memory_axis])
    table = initmem.memory.cells(
        rows, study.measure, threshold=study.threshold, axis_values=values
    )
    table["missing"] = values * study.seeds - table[list(STATES)].sum(axis=1)
    if {"optim.lr", "optim.l2"} <= set(table):
        table["lr_x_l2"] = table["optim.lr"] * table["optim.l2"]
    return table


def states(run: Run) -> pd.DataFrame:
    """A line an arm, and one for all where there are several. Columns: arm (label), a count for
    each state, there (rows), planned, and excluded: rows that are in no cell's memory, by their
    state or because their cell has no memory."""
    lines = []
    draws, each = plan.draws(run.study), len(run.study.axes[run.study.memory_axis])
    for arm, label in run.arms.items():
        of_arm = run.cells[run.cells["arm"] == arm]
        counts = of_arm[list(STATES)].sum()
        used = of_arm.loc[of_arm["memory"].notna(), "n"].sum()
        planned = run.ended.get(arm, draws) * each * run.study.seeds
        lines.append({"arm": label, **counts, "there": counts.sum(), "planned": planned})
        lines[-1]["excluded"] = counts.sum() - used
    table = pd.DataFrame(lines).astype({name: "int64" for name in lines[0] if name != "arm"})
    if len(table) > 1:
        table.loc[len(table)] = ["all", *table.drop(columns="arm").sum()]
    return table


def errors(rows: pd.DataFrame) -> pd.DataFrame:
    """The last lines of the errors of failed replicas and how many have each, most first."""
    last = rows["error"].dropna().str.strip().str.split("\n").str[-1]
    return last.value_counts().rename_axis("error").reset_index(name="replicas")


def audit(rows: pd.DataFrame) -> pd.DataFrame:
    """A line for each value of the memory axis if that is a field of `init`, else for each
    init.scale. Columns: that field; replicas; tensors (checked, over all replicas); low, high: the
    smallest and the largest std that was asked for; largest: the largest
    |measured std / asked std - 1|; tensor: where; sampling: what chance alone gives a tensor of
    that size, 1 / sqrt(2 count)."""
    lines = []
    axis = str(rows["memory_axis"].iloc[0])
    field = axis if axis.startswith("init.") else "init.scale"
    for value, group in rows[rows["audit"].notna()].groupby(field):
        checked = pd.DataFrame([dict(line) for lines_ in group["audit"] for line in lines_])
        if checked.empty:
            continue
        off = (checked["measured_std"] / checked["asked_std"] - 1).abs()
        off = off.fillna(0.0)  # of a readout that is asked to be zero, and is
        worst = checked.iloc[int(off.argmax())]
        lines.append(
            {
                field: value,
                "replicas": len(group),
                "tensors": len(checked),
                "low": checked["asked_std"].min(),
                "high": checked["asked_std"].max(),
                "largest": off.max(),
                "tensor": worst["tensor"],
                "sampling": 1 / np.sqrt(2 * worst["count"]),
            }
        )
    return pd.DataFrame(lines)


def probing(rows: pd.DataFrame) -> float | None:
    """Percent of the training time that probes took, of the replicas that have readings; None
    without one."""
    probed = rows[
        rows["readings"].map(lambda readings: readings is not None and len(readings) > 0)
    ]
    if probed.empty:
        return None
    return float(100 * probed["run.probing"].sum() / probed["run.seconds"].sum())


def parameters(rows: pd.DataFrame, column: str) -> list[str]:
    """Parameters that the init rule of some replica left as built (untouched), or gave values by a
    formula (assigned)."""
    return sorted({name for names in rows[column].dropna() for name in names})


def versions(rows: pd.DataFrame) -> pd.DataFrame:
    """What the rows were made with. Columns: what, value, rows (how many have that value). Data
    that each seed draws for itself are left out."""
    columns = ["version.initmem", "version.torch", "version.python", "device", "threads"]
    own = (rows["data.name"] == "sparse_regression") & rows["data.split"].isna()
    rows = rows.assign(data_hash=rows["data_hash"].mask(own))
    lines = [
        {"what": column, "value": value, "rows": count}
        for column in [*columns, "data_hash"]
        for value, count in rows[column].value_counts().sort_index().items()
    ]
    return pd.DataFrame(lines, columns=["what", "value", "rows"])
