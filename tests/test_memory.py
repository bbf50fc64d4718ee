"""Memory of a cell, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from initmem.memory import memory, spread


def rows(*cells: tuple[float, int, str, float | None]) -> list[dict[str, object]]:
    return [
        {
            "arm": "a", "cell": "c", "draw": 0, "memory_axis": "init.scale", "init.scale": scale,
            "seed": seed, "state": state, "selected.test_accuracy": y, "final.test_accuracy": y,
            "selected.validation_accuracy": y, "optim.lr": 0.1, "eval_every": None,
            "precision": "float32", "total_steps": 10,
        }
        for scale, seed, state, y in cells
    ]  # fmt: skip


WHOLE = rows(
    (1.0, 0, "interpolated", 95.0),
    (1.0, 1, "interpolated", 97.0),
    (2.0, 0, "interpolated", 90.0),
    (2.0, 1, "plateaued", 92.0),
    (4.0, 0, "interpolated", 80.0),
    (4.0, 1, "undertrained", 10.0),
)


def test_spread_of_seed_means_over_trained_replicas() -> None:
    cell = spread(WHOLE)
    assert cell == {
        "memory": 16.0, "highest_at": 1.0, "lowest_at": 4.0, "mean": (96 + 91 + 80) / 3,
        "values": 3, "trained_values": 3, "n": 5,
    }  # fmt: skip


def test_interpolated_alone_leaves_plateaued_out() -> None:
    assert spread(WHOLE, states=("interpolated",))["mean"] == (96 + 90 + 80) / 3


@pytest.mark.parametrize("state", ["undertrained", "diverged", "failed"])
def test_untrained_replicas_are_never_mixed_in(state: str) -> None:
    mixed = [*WHOLE, *rows((1.0, 2, state, 0.0))]
    assert spread(mixed)["memory"] == 16.0


def test_no_memory_where_fewer_than_half_the_values_are_trained() -> None:
    one = rows((1.0, 0, "interpolated", 95.0), (2.0, 0, "diverged", None))
    assert spread(one)["memory"] is None
    two_of_five = rows(
        (1.0, 0, "interpolated", 95.0), (2.0, 0, "interpolated", 90.0),
        *((v, 0, "diverged", None) for v in (3.0, 4.0, 5.0)),
    )  # fmt: skip
    assert spread(two_of_five)["memory"] is None
    assert spread(two_of_five[:4])["memory"] == 5.0


def test_a_table_has_a_line_a_cell_with_counts() -> None:
    frame = pd.DataFrame([*WHOLE, *({**r, "cell": "d", "draw": 1} for r in WHOLE[:4])])
    cells = memory(frame)
    assert list(cells["cell"]) == ["c", "d"] and list(cells["memory"]) == [16.0, 5.0]
    first = cells.iloc[0]
    assert (first["interpolated"], first["plateaued"], first["undertrained"]) == (4, 1, 1)
    assert first["optim.lr"] == 0.1 and "init.scale" not in cells
    assert cells["memory_interpolated"].iloc[1] == pytest.approx(6.0)


def test_an_untrained_cell_is_nan_not_zero() -> None:
    cells = memory(pd.DataFrame(rows((1.0, 0, "failed", None), (2.0, 0, "failed", None))))
    assert np.isnan(cells["memory"].iloc[0]) and cells["failed"].iloc[0] == 2
