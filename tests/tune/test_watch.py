"""What is said of a run while it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from initmem.records.store import Store
from initmem.records.tally import Tally
from initmem.search.agenda import Agenda
from initmem.tune.watch import Watch
from tests.tiny import study


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ({1: 100, 2: 400}, "memory of the last cell 2.0 doublings"),
        ({1: 100, 2: None}, "memory of the last cell at least 3.0 doublings"),
        ({1: None, 2: None}, "memory of the last cell censored"),
    ],
)
def test_memory_is_told_in_its_unit(
    tmp_path: Path, steps: dict[int, int | None], said: str
) -> None:
    of = study(tmp_path, "measure=steps_to_validation")
    store = Store(tmp_path / "run")
    agenda = Agenda(of, lambda cell: None, {})
    agenda.last_cell = [
        {"memory_axis": "init.scale", "init.scale": scale, "seed": seed, "state": "interpolated",
         "steps": 800, "steps_to_validation": found}
        for scale, found in steps.items() for seed in (0, 1)
    ]  # fmt: skip
    assert said in Watch(Tally(store, of), agenda).line(0.0)
