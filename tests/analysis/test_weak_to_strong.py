"""What is learned and kept: paired by seed, at the stop rule and at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.stats import ttest_1samp

from analysis import __main__ as report
from analysis import learned, preserved, tables, weak_to_strong
from initmem.study.plan import Replica
from initmem.study.preference_data import GaussianPairs
from tests.analysis import make
from tests.pairs import STUDY

ARMS = "[sft, sft_localized, w2s_plain, w2s_localized]"
CONTROLS = STUDY.replace("[sft, w2s_projected]", ARMS).replace("seeds: 2", "seeds: 3")
COSINES = (
    CONTROLS.replace("data.rho: [0, 0.5]", "data.cosine: [0.4, 0.8]")
    .replace("memory_axis: data.rho", "memory_axis: data.cosine")
    .replace(ARMS, "[w2s_plain, w2s_localized]")
)
RATES = CONTROLS.replace(
    "memory_axis", "ranges:\n  optim.lr: {low: 0.1, high: 0.4, log: true, points: 2}\nmemory_axis"
)
RATES = RATES.replace("lr: 0.3, ", "")
THRESHOLDS = CONTROLS.replace(
    "memory_axis: data.rho", "  model.threshold: [0.5, 1]\nmemory_axis: data.rho"
)
SCALES = CONTROLS.replace("data.rho: [0, 0.5]", "init.scale: [1, 3]").replace(
    "memory_axis: data.rho", "memory_axis: init.scale"
)  # fmt: skip
LOCALIZED = ("sft_localized", "w2s_localized")


def change(replica: Replica) -> dict[str, Any]:
    """Localized arms keep .9 at the stop, others .5 less rho / 5; all lose .1 after it, without
    localization. The stop is step 20 of 30; w2s_plain with seed 2 does not reach it."""
    data, seed = replica.recipe.data, replica.seed
    assert isinstance(data, GaussianPairs)
    weak, localized = data.arm.startswith("w2s"), data.arm in LOCALIZED
    wide = localized and replica.recipe.init.scale > 1  # type: ignore[union-attr]  # of planted
    kept = (0.9 if localized else 0.5 - data.rho / 5) - (0.3 + 0.01 * seed) * wide + 0.01 * seed
    target = (0.9 if localized else data.cosine) if weak else 0.97
    met = not (data.arm == "w2s_plain" and seed == 2)
    readings, curve = [], []
    for step, later in ((0, 0), (20, 0), (30, 1)):
        lost = later * (0.1 + 0.01 * seed) * (not localized)
        values = {"on_target": target + 0.001 * seed, "to_limit": 0.96}
        values |= {"kept": kept - lost, "captured": data.rho}
        readings += [
            {"step": step, "probe": "features", "quantity": q, "where": "body", "value": v}
            for q, v in values.items()
        ]
        if step:
            point = {"step": step, "train_accuracy": 60.0, "train_loss": 0.0}
            point |= {"validation_accuracy": 80.0 + later, "validation_loss": 0.0}
            curve.append(point | {"ood_accuracy": 70.0 - later, "alignment": 0.96})
    state = "interpolated" if met else "undertrained"
    return {"readings": readings, "curve": curve, "aligned_step": 20 if met else None,
            "state": state, "steps": 30, "selected.ood_accuracy": 70.0}  # fmt: skip


def made(folder: Path, text: str = CONTROLS) -> tables.Run:
    return tables.read(make.run(folder / "run", make.study(folder, text), change))


def test_means_at_the_stop_and_at_the_end(tmp_path: Path) -> None:
    table = learned.means(made(tmp_path)).set_index(["data.arm", "data.rho", "when"])
    assert len(table) == 16
    stop, end = (table.loc[("sft", 0.5, when)] for when in ("stop", "end"))
    assert (stop["kept"], end["kept"]) == pytest.approx((0.41, 0.30))
    assert (stop["step"], end["step"], stop["task_1"], end["task_2"]) == (20, 30, 80, 69)
    known = ttest_1samp([0.4, 0.41, 0.42], 0).confidence_interval(0.95)
    assert (stop["kept.low"], stop["kept.high"]) == pytest.approx((known.low, known.high))
    missed = table.loc[("w2s_plain", 0, "stop")]
    assert (missed["n"], missed["met"]) == (3, 2) and missed["step"] == pytest.approx(70 / 3)


def test_what_preserves_is_told_apart(tmp_path: Path) -> None:
    run = made(tmp_path)
    table = preserved.contrasts(run).set_index(["what", "place"])
    assert len(table) == 8, "two changes at once are not told where they can be taken apart"
    by_data = table.loc[("localized data, under the truth", "rho 0.5")]
    assert by_data["difference"] == pytest.approx(0.5) and by_data["n"] == 3
    teacher = table.loc["the weak teacher, on localized data"]
    assert teacher["difference"].abs().max() < 1e-9
    said = " ".join(learned.said(run))
    assert "w2s_localized passes its teacher: on target 0.901 (0.899 to 0.903) against 0.6" in said
    assert "w2s_plain is not told from its teacher" in said
    assert "Between stop and end sft loses at rho 0 (-0.11, -0.15 to -0.07); rho 0.5" in said
    assert "Between stop and end w2s_localized loses nothing" in said
    assert "loses nothing that is beyond its spread; n = 2 seeds." in said
    assert "+0.79); n = 3 seeds, 2 of 6 pairs with a network short of the stop rule." in said
    assert (
        "Networks that did not meet the stop rule within their budget, read at their last step: 2 "
        "(w2s_plain 2)."
    ) in said


def test_the_teacher_and_the_way_to_train_are_summed_up() -> None:
    ends = {
        "the weak teacher, alone": [(-1, 1), (-2, -1)],
        "localized data, under the weak teacher": [(1, 2), (1, 2)],
        "localized data, under the truth": [(1, 2), (-1, 1)],
        "projected updates, under the weak teacher": [(-1, 1), (-2, -1)],
        "projected updates, under the truth": [(1, 2), (-2, -1)],
    }
    lines = [
        {"what": what, "low": lo, "high": hi} for what, each in ends.items() for lo, hi in each
    ]
    assert preserved.summed(pd.DataFrame(lines)) == [
        "The weak teacher alone is not seen to preserve: more is kept than under the truth at 0 "
        "of 2 places, less at 1.",
        "Localized data preserve, whoever labels: under the weak teacher more is kept at 2 of 2 "
        "places, less at 0; under the truth more is kept at 1 of 2 places, less at 0.",
        "Projected updates are not seen to preserve: under the weak teacher more is kept at 0 of "
        "2 places, less at 1; under the truth more is kept at 1 of 2 places, less at 1.",
    ]


def gone(replica: Replica) -> dict[str, Any]:
    """Sft diverges at threshold 1; all else ends at its budget, without the stop rule met."""
    late = change(replica) | {"state": "undertrained", "aligned_step": None}
    diverged = replica.recipe.data.arm == "sft" and replica.recipe.model.threshold == 1  # type: ignore[union-attr]  # two_layer has one
    return late | (make.lost("diverged") if diverged else {})


def test_who_is_missing_is_said_and_leaves_the_figure_whole(tmp_path: Path) -> None:
    run = tables.read(make.run(tmp_path / "run", make.study(tmp_path, THRESHOLDS), gone))
    seen = weak_to_strong.view(run)
    assert "Networks that diverged or failed, left out: 6 (sft 6)." in seen["said"]
    assert not [text for text in seen["said"] if text.startswith("Between")]
    panels = weak_to_strong.draw(run, learned.means(run))["kept_over_rho"].axes
    assert [panel.get_title(loc="left") for panel in panels] == [
        "model.threshold 0.5",
        "model.threshold 1",
    ]
    assert [len(panel.lines) for panel in panels] == [8, 6], "a line an arm and time"


def test_a_budget_that_ends_before_the_time_beyond(tmp_path: Path) -> None:
    text = CONTROLS.replace("steps: 40", "steps: 40, beyond: 2")
    said = learned.said(made(tmp_path, text))
    assert any("ended before the time asked for beyond it: 22 (" in text for text in said)


def test_a_second_listed_field_has_panels(tmp_path: Path) -> None:
    text = CONTROLS.replace("memory_axis", "  init.scale: [1, 3]\nmemory_axis")
    run = made(tmp_path, text)
    drawn = weak_to_strong.draw(run, learned.means(run))
    assert [len(drawn[name].axes) for name in ("kept_over_rho", "kept_over_scale")] == [2, 2]
    assert {len(line.get_xdata()) for line in drawn["kept_over_rho"].axes[0].lines} == {2}


def test_a_study_of_arms_alone(tmp_path: Path) -> None:
    text = CONTROLS.replace("  data.rho: [0, 0.5]\n", "").replace(
        "axis: data.rho", "axis: data.arm"
    )
    said = " ".join(learned.said(made(tmp_path, text)))
    assert "(w2s_localized against w2s_plain): keeps more at rho 0 (+0.44" in said


def test_a_larger_scale(tmp_path: Path) -> None:
    said = " ".join(learned.said(made(tmp_path, SCALES)))
    assert "Scale 3 against 1, sft_localized at the stop: keeps less (-0.31, " in said
    assert "Scale 3 against 1, sft at the end: is undecided (+0.00" in said


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (COSINES, "on_target_over_cosine"),
        (SCALES, "kept_over_scale"),
        (RATES, "map"),
    ],
)
def test_a_figure_for_what_a_study_lists(tmp_path: Path, text: str, name: str) -> None:
    run = made(tmp_path, text)
    assert set(weak_to_strong.draw(run, learned.means(run))) == {name}


def test_command_and_report(tmp_path: Path) -> None:
    made(tmp_path)
    result = CliRunner().invoke(
        weak_to_strong.main, [str(tmp_path / "run"), "--figures", str(tmp_path)]
    )
    assert result.exit_code == 0, result.output
    assert (tmp_path / "kept_over_rho.png").exists() and "2 met" in result.output
    assert CliRunner().invoke(report.main, [str(tmp_path / "run")]).exit_code == 0
    page = (tmp_path / "run/report/report.html").read_text()
    assert "<h2>Planted features</h2>" in page and "passes its teacher" in page


def test_any_other_study_has_nothing_to_show(tmp_path: Path) -> None:
    run = tables.read(make.run(tmp_path / "run", make.study(tmp_path), rows=4))
    assert learned.means(run).equals(pd.DataFrame())
    result = CliRunner().invoke(weak_to_strong.main, [str(tmp_path / "run")])
    assert result.exit_code == 2 and "data.name gaussian_pairs" in result.output
