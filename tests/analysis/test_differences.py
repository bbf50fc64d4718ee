"""Differences between the cells of a study."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from analysis import differences, tables
from tests.analysis import make

ARMS = (
    make.STUDY.partition("ranges:")[0].replace("sgd, batch", "sgd, lr: 0.03, batch")
    + """\
  optim.l2: [1e-4, 1e-2, 1e-1]
seeds: 4
"""
)


def test_cells_that_remember_more_are_named(tmp_path: Path) -> None:
    """The made-up memory falls with L2."""
    folder = make.run(tmp_path / "run", make.study(tmp_path, ARMS))
    found = differences.table(tables.read(folder))
    assert len(found) == 3 and set(found["seeds"]) == {4}
    named = {(line["more"], line["less"]) for _, line in found.iterrows()}
    assert named == {("L2 1e-4", "L2 0.01"), ("L2 1e-4", "L2 0.1"), ("L2 0.01", "L2 0.1")}
    assert (found["low"] <= found["difference"]).all() and found["p"].is_monotonic_increasing
    assert found["p"].iloc[0] < 0.01
    done = CliRunner().invoke(differences.main, [str(folder)])
    assert done.exit_code == 0 and done.output.count("  >  ") == 3


def test_too_many_cells_or_one(tmp_path: Path) -> None:
    for draws in (1, differences.MOST + 1):
        made = make.study(tmp_path, make.STUDY, f"search.draws={draws}")
        folder = str(make.run(tmp_path / str(draws), made))
        done = CliRunner().invoke(differences.main, [folder])
        assert done.exit_code == 2 and "needs 2 to 12 cells" in done.stderr
