"""The public names, used as in a notebook."""

from __future__ import annotations

from pathlib import Path

import initmem
from tests.tiny import study


def test_from_study_to_memory(tmp_path: Path) -> None:
    study(tmp_path)
    loaded = initmem.load_study(tmp_path / "tiny.yaml", ["search.draws=1"])
    summary = initmem.run(loaded, tmp_path / "run", local=True)
    rows = initmem.rows(summary.address)
    cells = initmem.cells(rows)
    assert (len(rows), len(cells)) == (4, 1)
    assert set(initmem.__all__) == {"load_study", "run", "rows", "cells"}
    by_hand = rows[rows["state"].isin(["interpolated", "plateaued"])]
    means = by_hand.groupby("init.scale")["selected.test_accuracy"].mean()
    if len(means) == 2:
        assert cells["memory"].iloc[0] == means.max() - means.min()
    else:
        assert cells["memory"].isna().all()
