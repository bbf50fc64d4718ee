"""Readings, condensation and answers out of distribution, and their sections of the report."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from analysis import condensation, course, ood, ood_map, readings
from analysis.__main__ import main
from analysis.tables import Run
from initmem.study import plan
from tests.analysis import make, tokens

ANCHORS = tokens.STUDY.replace(
    "{name: modular, p: 13, equals: false}",
    "{name: anchors, train: 900, validation: 80, test: 80}",
)


def answers(reasoning: dict[float, list[float]], symmetric: float | None = 2.0) -> make.Change:
    """Strength -> what the seeds' selected predictors answer out of distribution; the final ones
    10 points less, the best over training 10 more."""

    def change(replica: plan.Replica) -> dict[str, object]:
        value = reasoning[tokens.strength(replica)][replica.seed]
        row = tokens.generalized(300)
        for point in row["curve"]:
            point["ood_accuracy"] = value + 10 if point["step"] == 500 else value
        return {
            **row,
            "selected.ood_accuracy": value,
            "final.ood_accuracy": value - 10,
            "selected.symmetric_accuracy": symmetric,
            "final.symmetric_accuracy": symmetric,
        }

    return change


def outside(folder: Path, change: make.Change) -> tuple[Run, pd.DataFrame]:
    run = tokens.run(folder, change, ANCHORS, "seeds=3")
    return run, ood.table(run)


def test_means_over_seeds_with_intervals(tmp_path: Path) -> None:
    _, table = outside(tmp_path, answers({0: [10, 20, 30], 0.5: [70, 70, 70]}))
    first, second = table.to_dict("records")
    assert (first["selected.reasoning"], first["final.reasoning"], first["best"]) == (20, 10, 30)
    # 20 +- t(0.975, 2) 10 / sqrt(3) = 20 +- 24.84, within 0 to 100
    assert first["selected.reasoning.low"] == 0
    assert first["selected.reasoning.high"] == pytest.approx(44.841, abs=1e-3)
    assert np.isnan(second["selected.reasoning.low"]) and (second["n"], second["fitted"]) == (3, 3)


def test_the_map_has_a_place_for_each_cell_value_and_way(tmp_path: Path) -> None:
    change = answers({0: [10, 20, 30], 0.5: [70, 70, 70]})
    decays = ANCHORS.replace("axes:\n", "axes:\n  optim.weight_decay: [0.01, 0.1]\n")
    run = tokens.run(tmp_path, change, decays, "seeds=3")
    points, axes = ood_map.table(run, ood.table(run))
    assert axes["field"].tolist() == ["optim.weight_decay"]
    reasoning = points[points["answers"] == "selected.reasoning"]
    assert reasoning[["y", "place", "accuracy"]].to_numpy().tolist() == [
        [0.01, 0, 20], [0.01, 1, 70], [0.1, 0, 20], [0.1, 1, 70],
    ]  # fmt: skip
    assert set(points["answers"]) == set(ood_map.ANSWERS) and set(points["panel"]) == {""}
    drawn = [text.get_text() for text in ood_map.draw(points, axes).axes[1].texts]
    assert drawn == ["20", "70", "20", "70"]
    (tmp_path / "alone").mkdir()
    alone, _ = outside(tmp_path / "alone", change)
    assert ood_map.table(alone, ood.table(alone))[0].empty, "one axis makes no map"


def test_what_a_study_does_not_show(tmp_path: Path) -> None:
    run, table = outside(tmp_path, answers({0: [10, 20, 30], 0.5: [20, 21, 22]}))
    assert ood.said(run, table) == [
        "No value of penalty.strength reaches half of the out-of-distribution answers, neither by "
        "reasoning nor by symmetry: this study does not show which of the two a value of "
        "penalty.strength prefers.",
        "All this is of validation-selected predictors. The best over training on the "
        "out-of-distribution set, which papers report, would be 31.0% by reasoning (at "
        "penalty.strength 0.5); it is no result here, for it selects on what it reports.",
    ]


def test_what_it_does_show_and_how_surely(tmp_path: Path) -> None:
    run, table = outside(tmp_path, answers({0: [40, 40, 64], 0.5: [90, 91, 92]}))
    assert ood.said(run, table)[:3] == [
        "penalty.strength 0.5 (91.0%) reaches half of the out-of-distribution answers by "
        "reasoning.",
        "No value of penalty.strength reaches half by symmetry.",
        "More seeds may turn this at penalty.strength 0.",
    ]


def test_data_without_a_symmetric_answer(tmp_path: Path) -> None:
    run, table = outside(tmp_path, answers({0: [10, 20, 30], 0.5: [5, 6, 7]}, symmetric=None))
    assert ood.said(run, table)[0].endswith("this study does not show reasoning at any.")
    assert not [name for name in ood.texts(run, table) if "symmetric" in name]


def test_not_fitted_is_not_memorized(tmp_path: Path) -> None:
    def change(replica: plan.Replica) -> dict[str, object]:
        row = answers({0: [1, 2, 3], 0.5: [4, 5, 6]})(replica)
        return row | ({"steps_to_train": None} if tokens.strength(replica) == 0 else {})

    said = ood.said(*outside(tmp_path, change))
    assert "At penalty.strength 0 fewer than half of the networks fit" in said[1]


def packed(vectors: list[list[float]]) -> bytes:
    """The column `cosines` of these rows of a matrix."""
    rows = np.array(vectors) / np.linalg.norm(vectors, axis=1, keepdims=True)
    return bytes((100 * rows @ rows.T).round().astype(np.int8))


def test_rows_of_one_direction_stand_side_by_side() -> None:
    """Three directions, one of them with both signs, in a scrambled order."""
    directions = np.eye(4)[[0, 1, 2, 0, 1, 2, 0, 1]] * np.array([[1, 1, 1, 1, -1, 1, 1, 1]]).T
    cosine_KK = condensation.ordered(condensation.unpacked(packed(directions.tolist())))
    assert (np.diag(cosine_KK) == 1).all() and (cosine_KK == cosine_KK.T).all()
    sizes = []
    row = 0
    while row < 8:
        block = int(cosine_KK[row].tolist().count(1))
        assert (cosine_KK[row : row + block, row : row + block] == 1).all()
        sizes.append(block)
        row += block
    assert sorted(sizes) == [1, 2, 2, 3] and (cosine_KK == -1).sum() == 4


def test_the_first_seed_that_has_cosines_is_shown(tmp_path: Path) -> None:
    run = tokens.run(tmp_path, lambda replica: tokens.generalized(300), tokens.STUDY, "seeds=2")
    alike, apart = packed([[1, 0], [1, 0], [1, 0.1]]), packed([[1, 0], [0, 1], [-1, 2]])
    kept = [
        {(0.0, 1): apart, (0.5, 0): alike}.get((row["penalty.strength"], row["seed"]))
        for row in run.rows.to_dict("records")
    ]
    table = condensation.table(dataclasses.replace(run, rows=run.rows.assign(cosines=kept)))
    shown = table.drop_duplicates("value")[["value", "seed"]].to_numpy().tolist()
    assert shown == [[0, 1], [0.5, 0]] and len(table) == 2 * 9
    drawn = condensation.draw(table)
    titles = [axis.get_title() for axis in drawn.axes if axis.images]
    assert titles == ["penalty.strength 0\n33% alike", "penalty.strength 0.5\n100% alike"]
    nothing = dataclasses.replace(run, rows=run.rows.assign(cosines=None))
    assert condensation.table(nothing).empty


def read(wheres: int, quantities: tuple[str, ...] = ("radius",)) -> make.Change:
    def change(replica: plan.Replica) -> dict[str, object]:
        found = [
            {"step": step, "probe": "radius", "quantity": what, "where": f"layer {k}",
             "value": None if step == 0 else 10.0 * k + replica.seed}
            for step in (0, 100, 200) for what in quantities for k in range(wheres)
        ]  # fmt: skip
        return {**tokens.generalized(300), "readings": found}

    return change


def test_what_is_said_of_condensation_is_of_the_first_matrix(tmp_path: Path) -> None:
    def change(replica: plan.Replica) -> dict[str, object]:
        found = [
            {"step": step, "probe": "condensation", "quantity": "mean_abs_cosine", "where": where,
             "value": size + step / 1000 + replica.seed / 10}
            for step in (0, 500) for where, size in (("stem.weight", 9), ("body.0.weight", 0.1),
                                                     ("body.1.weight", 7))
        ]  # fmt: skip
        return {**tokens.generalized(300), "readings": found}

    run = tokens.run(tmp_path, change, tokens.STUDY, "seeds=2")
    # 0.1 and 0.2 before, 0.6 and 0.7 after: 0.65 +- t(0.975, 1) 0.05, at most 1
    assert condensation.said(run) == [
        "Mean |cosine| of the rows of body.0.weight, before and after training, over seeds: "
        "0.15 to 0.65 (95% 0.01 to 1.00) at penalty.strength 0; "
        "0.15 to 0.65 (95% 0.01 to 1.00) at penalty.strength 0.5."
    ]


def test_readings_over_seeds(tmp_path: Path) -> None:
    run = tokens.run(tmp_path, read(2, ("radius", "trace_error")), tokens.STUDY, "seeds=3")
    assert list(readings.table(run)) == ["radius"]
    table = readings.table(run)["radius"]
    assert set(table["quantity"]) == {"radius"}
    second = table[
        (table["where"] == "layer 1") & (table["value"] == 0.5) & (table["step"] == 200)
    ]
    assert second[["reading", "low", "high", "place"]].to_numpy().tolist() == [[11, 10, 12, 1]]
    kept = readings.whole(run)
    last = kept[(kept["where"] == "layer 1") & (kept["step"] == 200)]
    assert last[["penalty.strength", "reading", "low", "high"]].to_numpy().tolist() == [
        [0, 11, 10, 12], [0.5, 11, 10, 12],
    ]  # fmt: skip
    panels = [axis for axis in readings.draw(table).axes if axis.get_visible()]
    assert [axis.get_title() for axis in panels] == ["radius\nlayer 0", "radius\nlayer 1"]
    assert len(panels[0].lines) == 2


@pytest.mark.parametrize(("wheres", "cells", "shown"), [(4, 1, 4), (30, 1, 6), (30, 2, 3)])
def test_panels_are_few(tmp_path: Path, wheres: int, cells: int, shown: int) -> None:
    """Of two quantities at many places, places from one end to the other, the same of both."""
    text = tokens.DECAYS if cells == 2 else tokens.STUDY
    run = tokens.run(tmp_path, read(wheres, ("radius", "norm")), text, "seeds=1")
    table = readings.table(run)["radius"]
    pairs = table[["cell", "quantity", "where"]].drop_duplicates()
    assert len(pairs) == 2 * cells * shown <= readings.MOST
    places = sorted(int(where.split()[1]) for where in set(table["where"]))
    gaps = {after - before for before, after in pairwise(places)}
    assert len(places) == shown and len(gaps) == 1


def test_the_report_has_the_sections_that_the_rows_fill(tmp_path: Path) -> None:
    probed, asked = read(1), answers({0: [10, 20], 0.5: [60, 61]})

    def change(replica: plan.Replica) -> dict[str, object]:
        return {**probed(replica), **asked(replica)}

    tokens.run(tmp_path, change, ANCHORS, "seeds=2")
    done = CliRunner().invoke(main, [str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "run" / "report" / "report.html").read_text()
    heads = [part.partition("</h2>")[0] for part in page.split("<h2>")[1:]]
    assert heads[2:6] == ["Time to generalize", "Curves", "Readings", "Out of distribution"]
    section = page.partition("<h2>Time to generalize</h2>")[2].partition("<h2>")[0]
    assert "Median steps to 95%: 300 at penalty.strength 0 (2 of 2" in section
    assert "&gt;" in section and "<td>300</td>" in section
    assert "would be 70.5% by reasoning" in page
    names = {path.name for path in (tmp_path / "run" / "report").rglob("*.*")}
    assert {
        "curves.png",
        "readings_radius.pdf",
        "generalization.csv",
        "ood.csv",
        "readings.csv",
    } <= names


def test_an_image_study_has_none_of_them(tmp_path: Path) -> None:
    run = tokens.tables.read(make.run(tmp_path / "run", make.study(tmp_path), rows=16))
    made = course.make(run)
    assert all(tables[0].empty for tables in made.values()) and not course.files(made)


def test_a_text_has_curves_and_no_time_to_generalize(tmp_path: Path) -> None:
    text = tokens.STUDY.replace("modular, p: 13, equals: false", "text, length: 8").replace(
        "name: token_mlp", "name: transformer, width: 8"
    )
    run = tokens.run(tmp_path, lambda replica: tokens.generalized(None), text)
    made = course.make(run)
    assert made["generalization"][0].empty and len(made["curves"][0])
