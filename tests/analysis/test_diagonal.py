"""Diagonal networks in the report: what the table holds against what, and that it is drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import initmem
from analysis import diagonal, regimes, report, style, tables
from analysis.tables import Run
from initmem.records.files import files_at
from initmem.theory.diagonal import Init
from initmem.theory.generalization import error_curve
from initmem.theory.tasks import Task, finetuning, single
from tests.analysis.make import run as made_up
from tests.analysis.make import study as of_images
from tests.diagonal import STUDY
from tests.tiny import study

TEXT = STUDY.replace("alpha: 0.4, ", "").replace(
    "axes:\n", "axes:\n  data.alpha: [0.2, 0.4]\n  data.omega: [0, 1]\n"
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("diagonal")
    initmem.run(study(folder, text=TEXT, name="diagonal"), folder / "run", local=True)
    return tables.read(folder / "run")


def test_the_theory_is_that_of_the_setting_and_the_mean_that_of_the_rows(run: Run) -> None:
    points, lines = diagonal.table(run)
    assert len(points) == 8 and len(lines) == 4 * diagonal.LINE
    for line in points.to_dict("records"):
        mixture = finetuning(Task(0.2, 0.1, line["data.omega"]), Init(0.1, line["init.lam"]))
        [theory] = error_curve(mixture, [line["alpha"]])
        assert line["theory"] == pytest.approx(theory, rel=1e-9)
        rows = run.rows
        for field in ("data.omega", "init.lam"):
            rows = rows[rows[field] == line[field]]
        rows = rows[rows["data.alpha"] == line["alpha"]]
        error_S = 1 - rows["final.test_accuracy"].to_numpy() / 100
        se = error_S.std(ddof=1) / np.sqrt(3)
        assert (line["n"], line["mean"]) == (3, pytest.approx(error_S.mean()))
        assert (line["loss"], line["se"]) == pytest.approx((rows["final.test_loss"].mean(), se))
        assert line["off"] == pytest.approx((error_S.mean() - theory) / se)
        assert line["high"] - line["mean"] == pytest.approx(4.302653 * se)  # t, 2 degrees
    ends = lines[lines["alpha"].isin([0.2, 0.4])]
    held = ends.merge(points, on=["alpha", "data.omega", "init.lam"])
    np.testing.assert_allclose(held["error"], held["theory"], rtol=1e-9)


def test_labels(run: Run) -> None:
    points, _ = diagonal.table(run)
    assert list(points["column"].unique()) == ["omega 0", "omega 1"] and set(points["row"]) == {""}
    assert list(points["setting"].unique()) == ["IV: lam -0.9", "II: lam 0"]


def test_many_settings_are_drawn_in_rows_of_their_own(run: Run) -> None:
    rows = run.rows.copy()
    rows["init.c"] = np.arange(len(rows)) // 6 * 0.5 + 0.5
    points, _ = diagonal.table(replace(run, rows=rows))
    assert set(points["setting"]) == {"lam -0.9", "lam 0"}
    assert set(points["row"]) == {"c 0.5", "c 1", "c 1.5", "c 2"}


def test_a_figure_has_a_panel_a_task_or_is_of_errors_against_errors(run: Run) -> None:
    points, lines = diagonal.table(run)
    titles = [axes.get_title(loc="left") for axes in diagonal.draw(points, lines).axes]
    assert titles == ["omega 0", "omega 1"]
    [axes] = diagonal.draw(points[points["alpha"] == 0.2], lines).axes
    assert axes.get_xlabel() == "error that the theory says"
    np.testing.assert_allclose(
        axes.collections[1].get_offsets(), points.loc[points["alpha"] == 0.2, ["theory", "mean"]]
    )


def test_one_task_alone_and_networks_with_decay(run: Run) -> None:
    rows = run.rows.assign(**{"pretrain.name": "none"})
    points, _ = diagonal.table(replace(run, rows=rows))
    theory = error_curve(single(0.1, Init(0.1)), points["alpha"].to_numpy())
    np.testing.assert_allclose(points["theory"], theory, rtol=1e-9)
    assert regimes.table(replace(run, rows=rows))[0].empty
    decayed = replace(run, rows=run.rows.assign(**{"optim.l2": 0.1}))
    assert diagonal.table(decayed)[0].empty and diagonal.said(diagonal.table(decayed)[0]) == ""


def test_what_is_said(run: Run) -> None:
    points, _ = diagonal.table(run)
    points = points.assign(off=[0.1, -1.9, 2.5, -2.5, 3.5, 4, -6, np.nan])
    assert diagonal.said(points) == (
        "Of 7 mean test errors (3 networks each), in standard errors from the theory: 2 within 2, "
        "4 within 3, 6 within 5; median 2.5."
    )


def test_the_map_holds_the_settings_of_the_study(run: Run) -> None:
    cells, settings = regimes.table(run)
    assert len(cells) == 2 * regimes.CELLS**2
    assert cells["order"].between(1, 2).all() and cells["dependence"].between(-1, 0).all()
    at = settings[settings["map"] == "gam 0"]
    assert at["y"].tolist() == pytest.approx([0.1, 1.0]) and set(at["c"]) == {0.1}
    assert at["regime"].tolist() == ["IV", "II"]
    corner = cells[cells["field"] == "gam"].nlargest(1, "y")
    assert corner["regime"].tolist() == ["III"]


def test_the_report_has_it_and_that_of_images_has_not(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every figure is drawn, none is encoded, which takes seconds."""
    monkeypatch.setattr(
        style, "encoded", lambda drawn: {"png": drawn.axes[0].get_title().encode()}
    )
    said = report.write(run, files_at(str(tmp_path)), [])
    assert "mean test errors (3 networks each)" in said
    page = (tmp_path / "report" / "report.html").read_text()
    assert "Theory and networks" in page and "Regimes of fine-tuning" in page
    assert "a formula gives head.minus, head.plus, stem.minus, stem.plus" in page
    assert "The rows were not all made alike" not in page
    assert (tmp_path / "report" / "theory.csv").read_text().count("\n") == 9
    assert {path.stem for path in (tmp_path / "report" / "figures").iterdir()} == {
        "theory", "regimes", "phase_diagram", "accuracy_by_scale",
    }  # fmt: skip
    images = tables.read(made_up(tmp_path / "images", of_images(tmp_path)))
    assert diagonal.table(images)[0].empty and regimes.table(images)[0].empty
