"""Forgetting clocks: what they count, and which of them is found to tell memory."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from analysis import clocks, forgetting_clock, tables
from analysis.clocks import parse
from initmem.study.spec import UserError
from tests.analysis import make
from tests.tiny import recipe


def counted(text: str, steps: int = 30, **optim: Any) -> float:
    return parse(text).of(recipe(optim=optim), steps)


def test_what_a_clock_adds_up() -> None:
    assert counted("1") == 30
    assert counted("lr^2/batch") == pytest.approx(30 * 0.1**2 / 20)
    assert counted("lr*l2", l2=0.01) == pytest.approx(30 * 0.1 * 0.01)
    assert counted("lr*l2", 12, l2=0.01) == pytest.approx(12 * 0.1 * 0.01)
    assert counted("lr/model.width") == pytest.approx(30 * 0.1 / 16)
    assert counted("lr/T", 12) == pytest.approx(0.1)
    assert counted("lr/batch", batch=None) == pytest.approx(30 * 0.1 / 60)


def test_a_clock_is_integrated_over_the_schedule() -> None:
    rates = [0.1 * (1 + math.cos(math.pi * t / 30)) / 2 for t in range(30)]
    assert counted("lr", schedule="cosine") == pytest.approx(sum(rates))
    assert counted("lr^2", schedule="cosine") == pytest.approx(sum(r**2 for r in rates))
    window: dict[str, Any] = {"l2": 0.5, "decay_window": "10-15", "schedule": "cosine"}
    assert counted("lr*l2", **window) == pytest.approx(0.5 * sum(rates[10:15]))
    assert counted("lr", warmup=3) == pytest.approx(0.1 * (0.25 + 0.5 + 0.75 + 27))


@pytest.mark.parametrize("text", ["", "lr^x", "lr*", "/lr", "lr**2", "2*lr", "lr+l2"])
def test_what_is_no_product(text: str) -> None:
    with pytest.raises(UserError, match="must be a product of fields"):
        parse(text)


@pytest.mark.parametrize("text", ["lr*speed", "lr*model.name", "lr/l2", "lr l2"])
def test_a_clock_that_does_not_fit_the_recipe(text: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"clock: {text}: ")):
        counted(text, l2=0.0)


def test_labels() -> None:
    labels = [
        parse(text).label for text in (*clocks.DEFAULT, "lr^1.5 * l2 / model.width", "1", "lr*T")
    ]
    assert labels == ["T lr² / b", "T lr L2", "T lr weight decay", "T lr", "lr L2", "lr",
                      "T lr^1.5 L2 / model.width", "T", "T² lr"]  # fmt: skip


def test_left_out_cells_of_a_falling_line_err_at_its_ends_alone() -> None:
    place_N, memory_N = np.arange(6.0), 10 - np.arange(6.0)
    assert clocks.left_out(place_N, memory_N) == pytest.approx([1, 0, 0, 0, 0, -1])
    assert clocks.left_out(place_N, -memory_N) == pytest.approx(clocks.untold(-memory_N))
    assert clocks.untold(np.array([0.0, 0.0, 3.0])) == pytest.approx([-1.5, -1.5, 3.0])


def test_a_clock_of_zero_stands_below_all_others() -> None:
    assert clocks.places(np.array([0.1, 0.0, 10.0])) == pytest.approx([-1, -2, 1])


def test_clocks_in_the_same_order_share_the_win() -> None:
    wrong_N = np.array([1.0, -2.0, 0.5, 1.0, -1.0, 0.3])
    error_C, low_C, high_C, best_C = clocks.compared(np.array([wrong_N, -wrong_N, 3 * wrong_N]))
    assert best_C.tolist() == [0.5, 0.5, 0.0]
    assert error_C[0] == pytest.approx(np.sqrt((wrong_N**2).mean()))
    assert (low_C < error_C).all() and (error_C < high_C).all()


def test_the_clock_that_the_rows_were_made_with_is_found(tmp_path: Path) -> None:
    """The made-up memory falls with lr x L2, at 1,000 steps each."""
    made = make.study(tmp_path, make.STUDY, "search.draws=16")
    folder = make.run(tmp_path / "run", made)
    points, errors = forgetting_clock.table(tables.read(folder), forgetting_clock.chosen())
    assert list(errors["clock"]) == ["T lr² / b", "T lr L2", "T lr", "no clock"]
    told = errors.set_index("clock")
    assert told.loc["T lr L2", "best"] > 0.99 and set(told["n"]) == {16}
    assert told.loc["T lr L2", "error"] < 0.4 * told.loc["no clock", "error"]
    cells = tables.read(folder).cells.set_index("cell")
    decay = points[points["clock"] == "T lr L2"]
    assert decay["value"].to_numpy() == pytest.approx(1000 * cells["lr_x_l2"].to_numpy())
    (sentence,) = forgetting_clock.said(errors)
    assert sentence.startswith("Memory falls with T lr L2: left-out cells err by ")


@pytest.mark.parametrize(
    ("best", "apart"),
    [
        ([0.91, 0.05, 0.04, 0.0], "T lr L2 and T lr are not told apart."),
        ([0.5, 0.3, 0.2, 0.0], "T lr L2 and T lr and lr are not told apart."),
    ],
)
def test_clocks_that_are_not_told_apart_are_named(best: list[float], apart: str) -> None:
    line = {"group": "", "low": 1.0, "high": 2.0, "noise": 0.5, "n": 12}
    names = ("T lr L2", "T lr", "lr", "no clock")
    errors = pd.DataFrame(
        {**line, "clock": name, "error": 1.0 + i, "best": share}
        for i, (name, share) in enumerate(zip(names, best, strict=True))
    )
    (sentence,) = forgetting_clock.said(errors)
    assert sentence.startswith("T lr L2 errs least") and sentence.endswith(apart)


def test_arms_that_a_clock_counts_belong_together(tmp_path: Path) -> None:
    axes = "  optim.name: [sgd, adam]\n  optim.epochs: [50, 100]\nranges:"
    text = make.STUDY.replace("name: sgd, ", "").replace(", epochs: 100", "")
    made = make.study(tmp_path, text.replace("ranges:", axes))
    run = tables.read(make.run(tmp_path / "run", made))
    points, errors = forgetting_clock.table(run, [parse("lr")])
    assert list(points["group"].unique()) == ["optim.name sgd", "optim.name adam"]
    assert set(errors["n"]) == {12}
    drawn = forgetting_clock.draw(points, errors)
    assert [panel.get_xlabel() for panel in drawn.axes[:2]] == ["T lr", "T lr"]


def test_the_command(tmp_path: Path) -> None:
    for name in ("a", "b"):
        made = make.study(tmp_path, make.STUDY, f"name={name}")
        make.run(tmp_path / name, made)
    call = CliRunner().invoke
    runs = [str(tmp_path / "a"), str(tmp_path / "b")]
    figure = str(tmp_path / "clocks.png")
    done = call(forgetting_clock.main, [*runs, "--clock", "lr*l2^2", "--figure", figure])
    assert done.exit_code == 0
    assert Path(figure).read_bytes().startswith(b"\x89PNG")
    assert [line[:3] for line in done.output.splitlines()[-2:]] == ["a: ", "b: "]
    assert "T lr L2²" in done.output
    wrong = call(forgetting_clock.main, [*runs, "--figure", str(tmp_path / "clocks.gif")])
    assert wrong.exit_code == 2 and "must end in .png or .pdf" in wrong.stderr
    few = make.run(tmp_path / "few", make.study(tmp_path, make.STUDY, "search.draws=3"))
    done = call(forgetting_clock.main, [str(few)])
    assert done.exit_code == 2 and "fewer than 6 cells" in done.stderr
