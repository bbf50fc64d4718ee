"""A small grid of any data, model and optimizer, trained in this process."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

import initmem
from tests.tiny import study

GRID = """
recipe:
  data: {data}
  model: {model}
  init: {{rule: {rule}}}
  optim: {optim}
  eval_every: 6
axes:
  init.scale: [0.5, 1]
"""
DIGITS = "{name: digits, train: 40, validation: 20}"
MLP = "{name: mlp, width: 8}"
SGD = "{name: sgd, lr: 0.05, batch: 10, steps: 12}"


def trained(folder: Path, data: str = DIGITS, model: str = MLP, optim: str = SGD,
            rule: str = "kaiming", files: str = "data") -> list[dict[str, object]]:  # fmt: skip
    text = GRID.format(data=data, model=model, optim=optim, rule=rule)
    of = study(folder, text=text, name="grid")
    summary = initmem.run(of, folder / "run", local=True, data=folder / files)
    assert (summary.planned, summary.done, summary.trained) == (2, 2, 2)
    rows = initmem.rows(folder / "run").to_dict("records")
    assert [row["init.scale"] for row in rows] == [0.5, 1.0]
    assert {row["state"] for row in rows} <= {"interpolated", "plateaued", "undertrained"}
    for row in rows:
        assert row["steps"] == 12 and len(row["curve"]) == 2 and pd.isna(row["error"])
        assert 0 <= row["selected.test_accuracy"] <= 100
        assert row["norms"][-1]["group"] == "all" and row["norms"][-1]["distance"] > 0
    return rows
