"""What networks memorize: one number a network, compared strength by strength and cell by cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure
from scipy.stats import ttest_1samp

from analysis import __main__ as report
from analysis import memorization, memorization_said, random_labels, tables
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


def halved(replica: Replica) -> dict[str, Any]:
    """As `suppressed`, with memorization 0 in split 2 at both strengths, where strength 1 diverges
    with seed 1; strength 1 of split 0 takes 1 point more."""
    found, data = suppressed(replica), replica.recipe.data
    heads = replica.recipe.random_labels
    assert isinstance(heads, Heads)
    share = 0.1 if data.split == 2 else 0.55 - (0.36 + 0.009 * (data.split == 0)) * heads.strength
    if data.split == 2 and heads.strength and replica.seed:
        return make.lost("diverged")
    return {**found, "readings": read(share, 0.37, 30)}


def test_means_are_of_pairs_and_the_fall_has_an_interval(tmp_path: Path) -> None:
    run = made(tmp_path, of=halved)
    line = memorization.effects(run).to_dict("records")[0]
    assert (line["before"], line["after"]) == pytest.approx((100 / 3, (9 + 10 + 0) / 3))
    assert line["after"] - line["before"] == pytest.approx(line["memorization.difference"])
    known = ttest_1samp([-41, -40, 0], 0).confidence_interval(0.95)
    assert (line["memorization.low"], line["memorization.high"]) == pytest.approx(
        (known.low, known.high)
    )
    assert line["memorization.verdict"] == "undecided"
    sentences = random_labels.said(run, random_labels.make(run))
    assert "from 33% to 6% (undecided, -85.1 to +31.1; 30% by fresh heads)" in sentences[0]
    assert "2 networks that diverged or failed are left out." in sentences


def test_intervals_end_where_the_quantity_does(tmp_path: Path) -> None:
    def far(replica: Replica) -> dict[str, Any]:
        share, accuracy = (0.0, 99.9) if replica.seed else (0.3, 60.0)
        return {"readings": read(share, 0.1, 30), "selected.test_accuracy": accuracy}

    line = memorization.against(made(tmp_path, of=far)).iloc[0]
    assert line["accuracy.high"] == 100 and line["accuracy.low"] == 0
    assert line["memorization.low"] == pytest.approx(-100 / 9)
    assert line["memorization"] == pytest.approx(50 * (0.2 / 0.9 - 0.1 / 0.9))


def test_correlations_stay_within_a_number_of_labels() -> None:
    """Within each of the two the order is reversed; over both it would be the same."""
    lines = [
        {"panel": f"random_labels.n {n}", "labels": n, "cell": f"{n}.{k}", "random_labels.n": n,
         "memorization": n + k, "accuracy": n - k, "memory": n + k, "change": n - k}
        for n in (10, 100) for k in range(6)
    ]  # fmt: skip
    points = pd.DataFrame(lines)
    found = memorization_said._correlated(points, points)
    assert len(found) == 4
    assert all("-1.00 (-1.00 to " in sentence for sentence in found)
    assert found[1].startswith("random_labels.n 100: over cells")
    assert found[2].startswith("Over cells with 10 labels")
    one = memorization_said._correlated(points.assign(cell="only"), points[:0])
    assert "n = 6 points of 1 cells)" in one[0] and " to " not in one[0]


def ticks(drawn: Figure) -> list[list[str]]:
    return [[text.get_text() for text in panel.get_xticklabels()] for panel in drawn.axes]


def test_every_panel_names_its_own_layers(tmp_path: Path) -> None:
    text = STUDY.replace("  data.label_noise: [0, 0.4]\n  data.split: [0, 1, 2]", "").replace(
        "  random_labels.strength: [0, 1]",
        "  random_labels.strength: [0, 1]\n  optim.l2: [0, 0.1]",
    )

    def apart(replica: Replica) -> dict[str, Any]:
        names = {"hidden.0": "stem", "hidden.1": "body.0"} if replica.recipe.optim.l2 else {}
        found = suppressed(replica)
        for one in found["readings"]:
            one["where"] = names.get(one["where"], one["where"])
        return found

    run = made(tmp_path, text, apart)
    figures = random_labels.draw(run, random_labels.make(run))
    assert ticks(figures["depth"]) == [["hidden.0", "hidden.1"], ["stem", "body.0"]]
    bar = figures["time"].axes[-1].get_yticklabels()
    assert [text.get_text() for text in bar] == ["hidden.0 / stem", "hidden.1 / body.0"]


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
        "Of 5 cells whose accuracy depends on init.scale, memorization does in 3; of 3 whose "
        "accuracy does not, in 2; undecided in one of the two: 0." in sentences
    )
    assert "1 of 9 cells lack one of the two spreads to compare" in sentences
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
