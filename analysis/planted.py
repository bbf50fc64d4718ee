"""Rows of networks with planted features -> what they learned and kept, at two times.

At the stop is the evaluation at which the stop rule was met (column aligned_step), or the last one
where it was not. At the end is the last evaluation: `optim.beyond` times as many steps, or the
budget.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.curves import having
from analysis.generalization import APART
from analysis.tables import Run

ARM = "data.arm"
ARMS = ("sft", "w2s_localized", "w2s_projected", "w2s_plain", "sft_localized", "sft_projected",
        "w2s_inside")  # fmt: skip
ALWAYS = ("data.rho", "data.cosine", "data.s", "data.d")
"""Fields that are read whether or not a study lists them."""
WHEN = {"stop": "at the stop", "end": "at the end"}
READ = ("on_target", "to_limit", "kept", "captured")
PAIRWISE = {"task_1": "validation_accuracy", "task_2": "ood_accuracy"}
"""Percent of pairs in the right order, by the true reward and by that of the other feature."""


def varied(run: Run) -> list[str]:
    """What a study lists or searches, but the arm; rho where it is nothing else."""
    return [f for f in (*run.study.axes, *run.study.ranges) if f != ARM] or ["data.rho"]


def of_study(run: Run) -> pd.DataFrame:
    """The rows of networks with planted features, in whatever state."""
    return run.rows[run.rows["data.name"] == "gaussian_pairs"]


def networks(run: Run) -> pd.DataFrame:
    """A line a network that neither diverged nor failed, and each of WHEN: cell, seed, ARM, the
    fields of `varied` and ALWAYS, when, step, met (whether the stop rule was), whole (whether it
    also trained `optim.beyond` times as long), READ (cosines), PAIRWISE (percent). Empty without
    such networks."""
    rows = of_study(run)
    rows = having(rows[~rows["state"].isin(APART)], "readings")
    fields = dict.fromkeys(("cell", "seed", ARM, *varied(run), *ALWAYS))
    lines = []
    for row in rows.to_dict("records"):
        read = {
            (one["step"], one["quantity"]): one["value"]
            for one in row["readings"]
            if one["probe"] == "features"
        }
        curve = {point["step"]: point for point in row["curve"]}
        met = pd.notna(row["aligned_step"])
        whole = bool(met and max(curve) >= row["optim.beyond"] * row["aligned_step"])
        for when, step in (
            ("stop", row["aligned_step"] if met else max(curve)),
            ("end", max(curve)),
        ):
            line = {str(field): row[field] for field in fields}
            line |= {"when": when, "step": int(step), "met": met, "whole": whole}
            line |= {what: read.get((step, what), np.nan) for what in READ}
            lines.append(line | {name: curve[step][c] for name, c in PAIRWISE.items()})
    return pd.DataFrame(lines)
