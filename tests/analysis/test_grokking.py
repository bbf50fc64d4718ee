"""Times to generalize: their table, ratios and sentences, curves and map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.collections import PathCollection

from analysis import curves, generalization, grokking, time_map
from initmem.study import plan
from tests.analysis import make, tokens

SLOW, FAST = [900, 700, 800, 600, 1000], [200, 100, 100, 200, 300]


def test_a_line_a_value_and_what_is_said_of_them(tmp_path: Path) -> None:
    run = tokens.run(tmp_path, tokens.listed({0: SLOW, 0.5: FAST}))
    table, ratios = grokking.made(run)
    names = ["value", "n", "generalized", "censored", "fitted", "median", "low", "high"]
    assert table[names].to_numpy().tolist() == [
        [0, 5, 5, 0, 100, 800, 600, 1000],
        [0.5, 5, 5, 0, 100, 200, 100, 300],
    ]
    assert (table["coverage"] == 0.9375).all() and (table["other_share"] == 0.99).all()
    assert table["other_median"].tolist() == [800, 200]
    assert ratios["ratio"].tolist() == [4] and ratios["seeds"].tolist() == [5]
    low, high = ratios[["low", "high"]].iloc[0]
    assert grokking.said(run, table, ratios) == [
        "Median steps to 95%: 800 at penalty.strength 0 (5 of 5, range 600 to 1,000), "
        "200 at 0.5 (5 of 5, range 100 to 300): 4 times fewer "
        f"(95% bootstrap interval {low:.3g} to {high:.3g}, n = 5 seeds)."
    ]


def test_a_median_beyond_the_budget_is_a_bound(tmp_path: Path) -> None:
    change = tokens.listed({0: [None, 900, None, None, 800], 0.5: FAST})
    run = tokens.run(tmp_path, change)
    table, ratios = grokking.made(run)
    text = grokking.texts(run, table)
    assert text["steps to 95%"].tolist() == ["> 1,000", "200"]
    assert text["93.75% interval"].tolist() == ["800 or more", "100 to 300"]
    assert text["range"].tolist() == ["from 800", "100 to 300"]
    assert grokking.compared(ratios)["reference / value"].tolist() == ["at least 5"]
    (said,) = grokking.said(run, table, ratios)
    assert "> 1,000 at penalty.strength 0 (2 of 5, from 800), 200 at 0.5" in said
    assert ": at least 5 times fewer (95% bootstrap interval" in said


def test_slower_is_said_as_more(tmp_path: Path) -> None:
    run = tokens.run(tmp_path, tokens.listed({0: FAST, 0.5: [None] * 5}))
    (said,) = grokking.said(run, *grokking.made(run))
    assert "> 1,000 at 0.5 (0 of 5): at least 5 times more" in said and " or more, n = 5" in said


def test_an_interval_around_one_tells_nothing_apart(tmp_path: Path) -> None:
    run = tokens.run(tmp_path, tokens.listed({0: FAST, 0.5: FAST[::-1]}))
    assert grokking.said(run, *grokking.made(run))[0].endswith("n = 5 seeds), not told apart.")


def test_an_end_at_a_smaller_share_leaves_nothing_to_say(tmp_path: Path) -> None:
    change = {**tokens.generalized(None), "steps": 300}
    for point in change["curve"]:
        point["validation_accuracy"] = 50.0
    text = tokens.STUDY
    run = tokens.run(tmp_path, lambda replica: change, text, "recipe.optim.stop_validation=0.5")
    assert grokking.said(run, *grokking.made(run)) == [
        "Steps to 95% are not known: training ended at a smaller share (optim.stop_validation)."
    ]


def test_diverged_and_failed_are_not_late(tmp_path: Path) -> None:
    def change(replica: plan.Replica) -> dict[str, object]:
        if replica.seed < 2 and tokens.strength(replica) == 0:
            state = ("diverged", "failed")[replica.seed]
            return {**tokens.generalized(None), **make.lost(state)}
        return tokens.generalized(400)

    run = tokens.run(tmp_path, change)
    line = generalization.table(run).iloc[0]
    assert (line["n"], line["censored"], line["diverged"], line["failed"]) == (3, 0, 1, 1)
    assert line["median"] == 400 and np.isnan(line["coverage"])
    said = grokking.said(run, *grokking.made(run))
    assert said[-1] == "No interval of 90% exists for the median of 3 times."


def test_ended_early_is_censored_there(tmp_path: Path) -> None:
    run = tokens.run(tmp_path, lambda replica: tokens.generalized(None, steps=300))
    assert generalization.table(run)["at_least"].tolist() == [300, 300]


def test_what_is_beyond_an_early_end_is_unknown(tmp_path: Path) -> None:
    """Ended at 95%, a network might have got to 99% at once or never."""

    def change(replica: plan.Replica) -> dict[str, object]:
        row = tokens.generalized(300, steps=300)
        row["curve"] = [{**p, "validation_accuracy": 96.0} for p in row["curve"][:3]]
        return row

    run = tokens.run(tmp_path, change, tokens.STUDY, "recipe.optim.stop_validation=0.95")
    table = generalization.table(run)
    assert table["median"].tolist() == [300, 300] and table["other_at_least"].isna().all()
    assert grokking.texts(run, table)["steps to 99%"].tolist() == ["-", "-"]


def test_two_shares_that_order_values_differently_are_both_said(tmp_path: Path) -> None:
    def change(replica: plan.Replica) -> dict[str, object]:
        late = tokens.strength(replica) == 0.5
        row = tokens.generalized(200 if late else 300)
        for point in row["curve"]:
            if late and 200 <= point["step"] < 900:
                point["validation_accuracy"] = 97.0
        return row

    run = tokens.run(tmp_path, change)
    assert grokking.said(run, *grokking.made(run))[-1] == (
        "95% and 99% order penalty.strength differently: 0.5 is sooner than 0 to 95%, and later "
        "to 99%."
    )


def decays(replica: plan.Replica) -> dict[str, object]:
    """Twice as fast with the decay, four times with the penalty, so that they multiply."""
    base = 800 if tokens.strength(replica) == 0 else 200
    return tokens.generalized(base // (2 if replica.recipe.optim.weight_decay > 0.05 else 1))


def test_arms_are_compared_at_equal_values(tmp_path: Path) -> None:
    run = tokens.run(tmp_path, decays, tokens.DECAYS)
    found = generalization.ratios(run)
    lines = found[["field", "shared", "reference", "other", "ratio"]].to_numpy().tolist()
    assert lines == [
        ["penalty.strength", "weight decay 0.01", "0", "0.5", 4],
        ["penalty.strength", "weight decay 0.1", "0", "0.5", 4],
        ["optim.weight_decay", "penalty.strength 0", "0.01", "0.1", 2],
        ["optim.weight_decay", "penalty.strength 0.5", "0.01", "0.1", 2],
    ]
    said = grokking.said(run, *grokking.made(run))
    assert [text.partition(":")[0] for text in said] == ["weight decay 0.01", "weight decay 0.1"]


def test_an_arm_without_a_field_is_compared_with_all_that_have_it(tmp_path: Path) -> None:
    text = tokens.STUDY.replace("  penalty: {name: radial}\n", "").replace(
        "memory_axis: penalty.strength\naxes:",
        "axes:\n  init.scale: [1, 2]\n  penalty.name: [none, radial]",
    )
    found = generalization.ratios(tokens.run(tmp_path, lambda r: tokens.generalized(300), text))
    of_name = found[found["field"] == "penalty.name"]
    assert of_name["other"].tolist() == [
        f"radial, penalty.strength {strength}" for strength in ("0", "0.5") for _ in range(2)
    ]
    assert set(of_name["shared"]) == {"init.scale 1", "init.scale 2"}


def test_many_cells_are_counted(tmp_path: Path) -> None:
    text = tokens.DECAYS.replace("[0.01, 0.1]", "[0.01, 0.02, 0.03, 0.1]")
    run = tokens.run(tmp_path, decays, text)
    assert grokking.said(run, *grokking.made(run)) == [
        "Soonest to 95%, by the median, is penalty.strength 0.5 in 4 of 4 cells."
    ]


def test_curves_keep_the_last_accuracy_of_who_ended_early(tmp_path: Path) -> None:
    def change(replica: plan.Replica) -> dict[str, object]:
        row = tokens.generalized(200 if replica.seed < 3 else 900)
        if replica.seed < 3:
            row["curve"] = row["curve"][:2]
        return row

    found, medians = curves.table(tokens.run(tmp_path, change))
    assert set(found["set"]) == {"validation", "training"} and found["seed"].nunique() == 5
    validation = medians[(medians["set"] == "validation") & (medians["value"] == 0)]
    assert validation["step"].tolist() == list(range(100, 1001, 100))
    assert validation["accuracy"].tolist() == [10.0] + [100.0] * 9
    assert len(found[(found["seed"] == 0) & (found["value"] == 0)]) == 2 * 2
    looks = {line.get_linestyle() for line in curves.draw(found, medians).axes[0].lines}
    assert {"-", "--"} <= looks


def test_the_fastest_and_the_slowest_cell_are_among_the_curves(tmp_path: Path) -> None:
    values = [1, 2, 3, 4, 5, 6, 7, 8]
    text = tokens.DECAYS.replace("[0.01, 0.1]", str(values))

    def change(replica: plan.Replica) -> dict[str, object]:
        return tokens.generalized(100 * int(replica.recipe.optim.weight_decay))

    found, _ = curves.table(tokens.run(tmp_path, change, text, "seeds=1"))
    panels = list(found["panel"].unique())
    assert len(panels) == curves.MOST == 6
    assert panels[0] == "weight decay 1" and panels[-1] == "weight decay 8"


def test_the_map_hatches_what_is_beyond_the_budget(tmp_path: Path) -> None:
    def change(replica: plan.Replica) -> dict[str, object]:
        late = tokens.strength(replica) == 0 and replica.recipe.optim.weight_decay < 0.05
        return tokens.generalized(None) if late else decays(replica)

    run = tokens.run(tmp_path, change, tokens.DECAYS)
    points, axes = time_map.table(run, generalization.table(run))
    assert axes["field"].tolist() == ["optim.weight_decay"]
    assert points[["place", "y", "late"]].to_numpy().tolist() == [
        [0, 0.01, True], [1, 0.01, False], [0, 0.1, False], [1, 0.1, False],
    ]  # fmt: skip
    panel = time_map.draw(points, axes).axes[0]
    assert [text.get_text() for text in panel.texts] == ["> 1k", "200", "400", "100"]
    marks = [mark for mark in panel.collections if isinstance(mark, PathCollection)]
    assert [bool(mark.get_hatch()) for mark in marks] == [True, False, False, False]


@pytest.mark.parametrize(
    ("steps", "text"),
    [(925, "925"), (9950, "9.9k"), (40_000, "40k"), (123_456, "123k"), (1.2e6, "1.2M")],
)
def test_steps_in_few_characters(steps: float, text: str) -> None:
    assert time_map.brief(steps) == text


def test_the_command(tmp_path: Path) -> None:
    tokens.run(tmp_path, tokens.listed({0: SLOW, 0.5: FAST}))
    folder, figure = str(tmp_path / "run"), tmp_path / "curves.png"
    done = CliRunner().invoke(grokking.main, [folder, "--figure", str(figure)])
    assert done.exit_code == 0 and done.output.splitlines()[-1].startswith("Median steps to 95%")
    assert figure.read_bytes().startswith(b"\x89PNG")
    images = str(make.run(tmp_path / "images", make.study(tmp_path), rows=8))
    for arguments, says in {
        (images,): "no data of tokens",
        (folder, "--figure", "curves.txt"): "must end in .png or .pdf",
        (folder, "--figure", str(tmp_path / "no" / "curves.png")): "is no folder",
        (str(tmp_path / "nowhere"),): "holds no study.sealed",
    }.items():
        done = CliRunner().invoke(grokking.main, list(arguments))
        assert done.exit_code == 2 and not done.stdout and says in done.stderr
