"""What networks memorize: one number a network, compared strength by strength and cell by cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from scipy.stats import ttest_1samp

from analysis import __main__ as report
from analysis import memorization, random_labels, tables
from initmem.study.plan import Replica
from initmem.study.random_labels_section import Heads
from tests.analysis import make

STUDY = """
name: suppressed
recipe:
  data: {name: digits, train: 100}
  model: {name: mlp, width: 8, depth: 2}
  init: {rule: kaiming}
  optim: {name: sgd, lr: 0.1, batch: 10, steps: 30}
  random_labels: {name: heads, n: 10, control: 3}
axes:
  random_labels.strength: [0, 1]
  data.label_noise: [0, 0.4]
  data.split: [0, 1, 2]
memory_axis: random_labels.strength
seeds: 2
"""
MAP = STUDY.replace("random_labels.strength: [0, 1]", "init.scale: [0.5, 1, 2]").replace(
    "  data.label_noise: [0, 0.4]\n  data.split: [0, 1, 2]\nmemory_axis: random_labels.strength",
    """ranges:
  random_labels.strength: {low: 0.1, high: 10, log: true, points: 3}
  optim.l2: {low: 1e-3, high: 1e-1, log: true, points: 3}""",
)


def read(share: float, fresh: float, step: int) -> list[dict[str, Any]]:
    """Of two layers, the first of which tells all."""
    found = []
    for where, right in (("hidden.0", 1.0), ("hidden.1", share)):
        values = {"accuracy": 100 * right, "complexity": (right - 0.1) / 0.9, "chance": 10.0}
        values |= {"control_accuracy": 100 * fresh, "control_complexity": (fresh - 0.1) / 0.9}
        found += [
            {"step": step, "probe": "random_labels", "quantity": q, "where": where, "value": v}
            for q, v in values.items()
        ]
    return found


def suppressed(replica: Replica) -> dict[str, Any]:
    """Strength 1 takes the share that is right from .55 to .19 and costs a point where labels are
    right; where they are wrong it gives 3, and split 2 gives 3 more."""
    heads, data = replica.recipe.random_labels, replica.recipe.data
    assert isinstance(heads, Heads)
    gain = (3 + 3 * (data.split == 2) if data.label_noise else -1) * heads.strength
    own = 0.1 * data.split * (1 + heads.strength)
    share, late = 0.55 - 0.36 * heads.strength, data.split == 1 and heads.strength == 1
    return {
        "readings": read(0.1, 0.1, 0) + read(share, 0.37, 30),
        "selected.test_accuracy": 90 + gain + own + 5 * replica.seed,
        "final.test_accuracy": 90 - gain + own,
        "state": "undertrained" if late else "interpolated",
    }


def made(folder: Path, text: str = STUDY, of: make.Change = suppressed) -> tables.Run:
    return tables.read(make.run(folder / "run", make.study(folder, text), of))


def test_a_strength_is_held_against_none_task_by_task(tmp_path: Path) -> None:
    run = made(tmp_path)
    clean, noisy = memorization.effects(run).to_dict("records")
    for line in (clean, noisy):
        assert (line["strength"], line["unit"], line["n"], line["undertrained"]) == (
            1,
            "task",
            3,
            2,
        )
        assert (line["before"], line["after"]) == pytest.approx((50, 10))
        assert line["control"] == pytest.approx(30)
        assert line["memorization.difference"] == pytest.approx(-40)
    apart = [3, 3.1, 6.2]
    known = ttest_1samp(apart, 0).confidence_interval(0.95)
    assert noisy["selected.difference"] == pytest.approx(sum(apart) / 3)
    assert (noisy["selected.low"], noisy["selected.high"]) == pytest.approx(
        (known.low, known.high)
    )
    verdicts = [
        line[f"{which}.verdict"] for line in (clean, noisy) for which in ("selected", "final")
    ]
    assert verdicts == ["hurts", "helps", "undecided", "undecided"]
    [first, *_] = random_labels.said(run, random_labels.make(run))
    assert first.startswith(
        "data.label_noise 0: strength 1 takes memorization from 50% to 10% (30% by fresh heads); "
        "selected predictor hurts (-0.9 points"
    )
    assert "n = 3 tasks (2 networks undertrained)" in first


def test_depth_and_points(tmp_path: Path) -> None:
    table = memorization.depth(made(tmp_path))
    last = table[
        table["last"] & (table["panel"] == "data.label_noise 0.4") & (table["value"] == 1)
    ]
    means = last.pivot(index="layer", columns="quantity", values="mean")
    assert means["accuracy"].to_list() == pytest.approx([100, 19])
    assert means["control_accuracy"].to_list() == pytest.approx([37, 37])
    assert set(means["chance"]) == {10} and set(last["n"]) == {6}
    assert set(table["step"]) == {0, 30}
    points = memorization.against(tables.read(tmp_path / "run"))
    assert len(points) == 12 and set(points["memorization"].round(6)) == {50, 10}
    assert set(points["n"]) == {2}


def mapped(replica: Replica) -> dict[str, Any]:
    """Accuracy depends on the scale where L2 is small, memorization where the strength is."""
    recipe = replica.recipe
    assert isinstance(recipe.random_labels, Heads)
    scale, noise = recipe.init.scale, 0.01 * replica.seed  # type: ignore[union-attr]  # kaiming has one
    depends = {"accuracy": recipe.optim.l2 < 0.05, "share": recipe.random_labels.strength < 5}
    share = 0.5 - 0.1 * scale * depends["share"] + 0.001 * replica.seed * scale
    accuracy = 80 + 5 * scale * depends["accuracy"] + noise * scale
    if replica.draw == 0 and scale == 1:
        return make.lost("diverged")
    return {"readings": read(share, 0.4, 30), "selected.test_accuracy": accuracy}


def test_cells_are_counted_by_both_verdicts(tmp_path: Path) -> None:
    run = made(tmp_path, MAP, mapped)
    both = memorization.cells(run)
    assert len(both) == 8, "a cell that lost a value of the axis has no memory"
    counts = both.groupby(["verdict", "change_verdict"]).size().to_dict()
    assert counts == {
        ("erased", "erased"): 1, ("erased", "remembers"): 2,
        ("remembers", "erased"): 2, ("remembers", "remembers"): 3,
    }  # fmt: skip
    sentences = " ".join(random_labels.said(run, random_labels.make(run)))
    assert (
        "Of 5 cells whose accuracy depends on init.scale, memorization does in 3; of the other 3, "
        "in 2 (0 undecided in one of the two)." in sentences
    )
    assert "with the strength at held L2" in sentences
    assert "2 networks that diverged or failed are left out." in sentences


@pytest.mark.parametrize(
    ("text", "of", "names"),
    [
        (STUDY, suppressed, {"depth", "time", "against", "memory"}),
        (MAP, mapped, {"against", "memory", "erased"}),
    ],
)
def test_command_and_report(tmp_path: Path, text: str, of: make.Change, names: set[str]) -> None:
    made(tmp_path, text, of)
    folder = tmp_path / "figures"
    folder.mkdir()
    arguments = [str(tmp_path / "run"), "--figures", str(folder)]
    result = CliRunner().invoke(random_labels.main, arguments)
    assert result.exit_code == 0, result.output
    assert "memorization (%)" in result.output
    assert {path.stem for path in folder.iterdir()} == names
    if of is suppressed:  # one report is enough
        return
    assert CliRunner().invoke(report.main, [str(tmp_path / "run")]).exit_code == 0
    page = (tmp_path / "run/report/report.html").read_text()
    assert "<h2>Memorization</h2>" in page
    assert all((tmp_path / f"run/report/figures/random_labels_{n}.pdf").exists() for n in names)


def test_a_study_without_heads_has_nothing_to_show(tmp_path: Path) -> None:
    make.run(tmp_path / "run", make.study(tmp_path))
    result = CliRunner().invoke(random_labels.main, [str(tmp_path / "run")])
    assert result.exit_code == 2
    assert "needs a study with random_labels.name heads" in result.output
    run = tables.read(tmp_path / "run")
    assert not any(len(table) for table in random_labels.make(run).values())
