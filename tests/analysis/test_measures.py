"""Reports of studies that measure something else than test accuracy, or look for a mean."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from analysis import accuracy_by_scale, differences, phase_diagram, report, tables
from analysis.__main__ import main
from initmem.cli import main as initmem
from initmem.forecast import outline
from initmem.study import plan
from initmem.study.seeds import fold
from initmem.study.spec import UserError
from tests.analysis import make

STEPS = """
name: late
recipe:
  data: {name: modular}
  model: {name: token_mlp}
  init: {rule: gamma}
  optim: {name: adamw, batch: 100, steps: 4096}
memory_axis: init.gamma
measure: steps_to_validation
threshold: 1
axes: {init.gamma: [0.25, 0.5, 0.75]}
ranges:
  optim.lr: {low: 1e-3, high: 1e-1, log: true}
  optim.weight_decay: {low: 1e-2, high: 1, log: true}
seeds: 3
search: {draws: 6}
"""
OF_MEAN = ("measure=test_accuracy", "threshold=2", "search.sampler=frontier",
           "search.objective=accuracy", "search.level=50", "search.draws=16")  # fmt: skip


def took(replica: plan.Replica) -> dict[str, object]:
    """The less decay, the more steps, and the more so the smaller gamma is; draw 4 is too slow at
    every gamma, draw 5 at the smallest alone."""
    recipe = replica.recipe
    decay = math.log10(recipe.optim.weight_decay)
    noise = 0.1 * np.random.default_rng(fold(replica.id)).standard_normal()
    log2 = 9 + 2.5 * (0.75 - recipe.init.gamma) * -decay + noise
    late = replica.draw == 4 or (replica.draw == 5 and recipe.init.gamma == 0.25)
    steps = None if late else int(2**log2)
    return {"steps_to_validation": steps, "audit": audit(recipe.init.gamma)}


def audit(gamma: float) -> list[dict[str, object]]:
    stds = {"stem.weight": 128**-gamma, "head.weight": 200**-gamma}
    return [
        {"tensor": name, "group": "stem", "count": 50, "asked_std": std, "measured_std": std}
        for name, std in stds.items()
    ]


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("late")
    run = make.run(folder / "run", make.study(folder, STEPS), took)
    done = CliRunner().invoke(main, [str(run)])
    assert done.exit_code == 0, done.output
    return run


def section(run: Path, heading: str) -> str:
    page = (run / "report" / "report.html").read_text()
    assert f"<h2>{heading}</h2>" in page
    return page.partition(f"<h2>{heading}</h2>")[2].partition("<h2")[0]


def test_a_report_of_steps_speaks_of_doublings(late: Path) -> None:
    page = (late / "report" / "report.html").read_text()
    assert " points" not in page
    assert (
        "As far as the budget tells, memory is highest, at least 3.0 doublings (95% 2.7 or" in page
    )
    assert "of 6 cells 3 remember, 1 is erased, 1 is undecided, 1 is censored." in page
    assert "12 trained replicas, of 2 of 6 cells, did not get there" in page
    assert "is among them (1 of the cells, censored), unknown." in page
    caption = section(late, "Phase diagram")
    assert "memory, in doublings of the steps" in caption and "a lower bound" in caption
    assert "Log2 of the steps to generalize, a line a cell" in section(
        late, "Steps to generalize over the memory axis"
    )
    table = section(late, "Cells")
    assert "slowest<br>at" in table and "not within<br>budget" in table
    assert table.count("<td>≥") == 3, "memory and mean of draw 5, mean of draw 4"
    assert "<td>measure</td>" in page.replace(' class="text"', "")


def test_status_says_what_is_a_bound(late: Path) -> None:
    said = CliRunner().invoke(initmem, ["status", str(late)]).output.splitlines()
    assert "memory of the number of steps to generalize, in doublings" in said
    (bound,) = [line for line in said if line.startswith("memory >=3.0 (2.7 or more) ")]
    assert bound.endswith(", 3 replicas not within the budget")
    (hidden,) = [line for line in said if " censored " in line]
    assert hidden.startswith("memory     - ") and ", 9 replicas not within" in hidden


def test_bounds_are_drawn_as_such(late: Path) -> None:
    run = tables.read(late)
    drawn = phase_diagram.draw(*phase_diagram.table(run))
    texts = [[text.get_text() for text in panel.texts] for panel in drawn.axes[:2]]
    assert [sum(text.startswith("≥") for text in each) for each in texts] == [1, 1]
    replicas, means = accuracy_by_scale.table(run)
    assert replicas["censored"].sum() == 12 and len(means) == 18
    assert (replicas.loc[replicas["censored"], "accuracy"] == 12.0).all()
    panel = accuracy_by_scale.draw(replicas, means).axes[0]
    assert panel.figure.get_supylabel() == "steps to generalize (log2)"
    line = STEPS.replace("  optim.lr: {low: 1e-3, high: 1e-1, log: true}\n", "")
    one = make.study(late.parent, line.replace("batch: 100", "batch: 100, lr: 0.01"))
    over = tables.read(make.run(late.parent / "one", one, took))
    phase_diagram.draw(*phase_diagram.table(over)).canvas.draw()


def test_no_pair_with_a_bound_at_its_ends_is_compared(late: Path) -> None:
    run = tables.read(late)
    found = differences.table(run)
    assert len(found) == 4 * 3 / 2
    assert set(found["best"]) == {0.25} and set(found["worst"]) == {0.75}


def test_the_audit_is_of_the_memory_axis(late: Path) -> None:
    found = tables.audit(tables.read(late).rows)
    assert list(found["init.gamma"]) == [0.25, 0.5, 0.75]
    assert found["low"].tolist() == [200**-gamma for gamma in (0.25, 0.5, 0.75)]
    assert found["high"].tolist() == [128**-gamma for gamma in (0.25, 0.5, 0.75)]
    rows = tables.read(late).rows.assign(memory_axis="optim.weight_decay")
    assert "init.scale" in tables.audit(rows)
    said = section(late, "Initialization, audited")
    assert "<th>init.gamma</th>" in said and "<td>0.0188</td><td>0.0263</td>" in said


def test_the_frontier_of_a_mean_stands_on_the_panel_of_the_mean(tmp_path: Path) -> None:
    """Accuracy is 50% where lr x weight decay is 1e-3."""

    def change(replica: plan.Replica) -> dict[str, object]:
        optim, rng = replica.recipe.optim, np.random.default_rng(fold(replica.id))
        off = math.log10(optim.lr * optim.weight_decay) + 3
        return {"selected.test_accuracy": 100 / (1 + math.exp(4 * off)) + rng.standard_normal()}

    made = make.study(tmp_path, STEPS, *OF_MEAN)
    run = tables.read(make.run(tmp_path / "run", made, change))
    drawn = report.make(run, [])
    surface = drawn["phase_diagram"][2]
    assert set(surface["of"]) == {"mean"} and set(surface["crossed"]) == {"50%"}
    off = np.log10((surface["x"] * surface["y"]).to_numpy(float)) + 3
    assert ((surface["remembers"] > 0.5) == (off < 0)).mean() > 0.9
    memory, mean = phase_diagram.draw(*drawn["phase_diagram"]).axes[:2]
    contours = [
        sum(type(mark).__name__ == "QuadContourSet" for mark in panel.collections)
        for panel in (memory, mean)
    ]
    assert contours[0] == 0 and contours[1] >= 2
    assert any("frontier (50%), 95% band: 16 cells" in text.get_text() for text in mean.texts)
    page = report.page(run, drawn, {"phase_diagram": ""}, report.views(run))
    assert "The line is where that mean crosses 50%, as a Gaussian process" in page
    assert "objective accuracy 50%, seed 0" in page
    assert "search: for where the mean test accuracy crosses 50%" in outline(made)


def test_what_no_row_measures_is_said(tmp_path: Path) -> None:
    made = make.study(tmp_path, STEPS.replace("modular", "anchors"), "measure=ood_accuracy")
    with pytest.raises(UserError, match="no row has an accuracy out of distribution to draw"):
        tables.read(make.run(tmp_path / "run", made, rows=9))
    known = make.run(tmp_path / "known", made, lambda r: {"selected.ood_accuracy": 50.0 + r.seed})
    run = tables.read(known)
    assert isinstance(run.cells, pd.DataFrame) and set(run.cells["mean"]) == {51.0}


def test_a_plan_in_doublings(tmp_path: Path) -> None:
    make.study(tmp_path, STEPS)
    said = CliRunner().invoke(initmem, ["plan", str(tmp_path / "study.yaml")]).output
    assert "if replicas differ by 0.25 doublings (sd): a spread of" in said
    assert " points" not in said
