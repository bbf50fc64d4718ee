"""Rows of cells, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = list[dict[str, Any]]


def rows(*replicas: tuple[float, int, str, float | None], cell: str = "c") -> Rows:
    """A row for each (scale, seed, state, accuracy)."""
    return [
        {
            "arm": "a", "cell": cell, "draw": 0, "memory_axis": "init.scale", "init.scale": scale,
            "seed": seed, "state": state, "selected.test_accuracy": y, "final.test_accuracy": y,
            "selected.validation_accuracy": y, "selected.test_predictions": None,
            "optim.lr": 0.1, "eval_every": None, "precision": "float32", "total_steps": 10,
        }
        for scale, seed, state, y in replicas
    ]  # fmt: skip


def of_table(measured_AS: NDArray[np.float64], cell: str = "c") -> Rows:
    """Interpolated replicas with scales 1, 2, ... and seeds 0, 1, ...; nan diverged."""
    return rows(
        *(
            (float(a + 1), s, "diverged" if np.isnan(y) else "interpolated", float(y))
            for a, line in enumerate(measured_AS)
            for s, y in enumerate(line)
        ),
        cell=cell,
    )
