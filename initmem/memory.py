"""How much a cell remembers of its initialization: rows in, numbers out.

Memory is the spread of the seed-mean test accuracy of the validation-selected predictor over the
memory axis, in percentage points, over the replicas that interpolated or plateaued (after arXiv
2605.29152, which leaves the formula open; this one is ours). Undertrained, diverged and failed
replicas are counted, never mixed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

MEASURE = "selected.test_accuracy"
STATES = ("interpolated", "plateaued", "undertrained", "diverged", "failed")
TRAINED = ("interpolated", "plateaued")


def spread(
    rows: Iterable[Mapping[str, Any]], measure: str = MEASURE, states: tuple[str, ...] = TRAINED
) -> dict[str, Any]:
    """The memory of one cell, from the rows of its replicas (each a mapping with at least
    `memory_axis`, that axis's column, `state`, and `measure`).

    Returns memory: max - min over axis values of the mean over seeds, in the unit of `measure`,
    or None where fewer than two values, or fewer than half of them, have a replica in `states`;
    highest_at, lowest_at: the values that attain it; mean: over the values' means; values,
    trained_values: how many the axis has, and how many are measured; n: replicas used.
    """
    by_value: dict[Any, list[float]] = {}
    for row in rows:
        measured = by_value.setdefault(row[row["memory_axis"]], [])
        if row["state"] in states and row[measure] is not None and np.isfinite(row[measure]):
            measured.append(row[measure])
    means = {value: float(np.mean(ys)) for value, ys in sorted(by_value.items()) if ys}
    result: dict[str, Any] = {
        "memory": None,
        "highest_at": None,
        "lowest_at": None,
        "mean": float(np.mean(list(means.values()))) if means else None,
        "values": len(by_value),
        "trained_values": len(means),
        "n": sum(map(len, by_value.values())),
    }
    if len(means) >= 2 and 2 * len(means) >= len(by_value):
        high, low = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
        result |= {"memory": means[high] - means[low], "highest_at": high, "lowest_at": low}
    return result


def memory(rows: pd.DataFrame) -> pd.DataFrame:
    """The cells of a table of rows, a line each, by arm and draw.

    Columns: arm, cell, draw; what `spread` returns for the selected predictor; memory_final: the
    same of the final one; memory_interpolated: over interpolated replicas alone; validation:
    mean selected validation accuracy; and the count of replicas in each state. Recipe columns
    that are the same for the whole cell are kept.
    """
    import pandas as pd

    cells = []
    for (arm, cell), group in rows.groupby(["arm", "cell"], sort=False):
        lines: list[dict[str, Any]] = [dict(line) for line in group.to_dict("records")]  # type: ignore[arg-type]
        states = group["state"].value_counts()
        cells.append(
            {
                "arm": arm,
                "cell": cell,
                "draw": lines[0]["draw"],
                **spread(lines),
                "memory_final": spread(lines, "final.test_accuracy")["memory"],
                "memory_interpolated": spread(lines, states=("interpolated",))["memory"],
                "validation": spread(lines, "selected.validation_accuracy")["mean"],
                **{state: int(states.get(state, 0)) for state in STATES},
                **_shared(group),
            }
        )
    numbers = ["memory", "memory_final", "memory_interpolated", "mean", "validation"]
    table = pd.DataFrame(cells)
    return table.astype({name: "float64" for name in numbers}) if len(table) else table


def _shared(group: pd.DataFrame) -> dict[str, Any]:
    fields = [str(c) for c in group if str(c).startswith(("data.", "model.", "init.", "optim."))]
    fields += ["eval_every", "precision", "memory_axis", "total_steps"]
    return {name: group[name].iloc[0] for name in fields if group[name].nunique(dropna=False) == 1}
