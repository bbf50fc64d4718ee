"""Fine-tuning accuracy over the size of the training set, and which initialization helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import ttest_1samp

from analysis import __main__ as report
from analysis import fine_tuning, tables
from initmem.study.plan import Replica
from tests.analysis import make

STUDY = """
name: tuned
recipe:
  data: {name: digits, classes: 8-9, validation: 100}
  model: {name: mlp, width: 8}
  init: {rule: kaiming}
  optim: {name: sgd, lr: 0.1, batch: 10, steps: 30}
  pretrain: {name: stage, classes: rest, train: 500}
axes:
  init.kappa: [0.5, 1, 4]
  data.train: [10, 100]
memory_axis: init.kappa
seeds: 4
"""
SPLITS = STUDY.replace("100]\n", "100]\n  data.split: [0, 1, 2]\n")
NOISE = {0: 0.0, 1: 0.5, 2: -0.25, 3: 1.0}
"""By seed: of all values, and, a tenth, of each."""


def accuracy(replica: Replica) -> float:
    kappa, train = replica.recipe.init.kappa, replica.recipe.data.train
    own = 0.1 * NOISE[replica.seed] * kappa
    return 90 + 2 * (train == 100) - 3 * (kappa - 1) + 8 * NOISE[replica.seed] + own


def change(replica: Replica) -> dict[str, Any]:
    split = 5.0 * replica.recipe.data.split * (replica.recipe.init.kappa - 1)
    return {"selected.test_accuracy": accuracy(replica) + split}


def made(folder: Path, text: str = STUDY, of: make.Change = change) -> tables.Run:
    return tables.read(make.run(folder / "run", make.study(folder, text), of))


def test_values_are_compared_seed_by_seed(tmp_path: Path) -> None:
    means, differences = fine_tuning.table(made(tmp_path))
    assert len(means) == 6 and set(means["n"]) == set(means["networks"]) == {4}
    line = means[(means["value"] == 0.5) & (means["amount"] == 10)].iloc[0]
    assert line["mean"] == pytest.approx(91.5 + 8.05 * 1.25 / 4)
    assert line["high"] - line["low"] > 8, "seeds differ by much"
    own = np.array([-0.05 * noise for noise in NOISE.values()])
    for amount in (10, 100):
        [found] = differences[
            (differences["value"] == 0.5) & (differences["amount"] == amount)
        ].to_dict("records")
        assert found["reference"] == 1 and found["verdict"] == "helps" and found["n"] == 4
        assert found["difference"] == pytest.approx(1.5 + own.mean())
        wide = ttest_1samp(1.5 + own, 0).confidence_interval(1 - 0.05 / 4)  # 4 lines together
        assert (found["low"], found["high"]) == pytest.approx((wide.low, wide.high))
    whole = differences[differences["amount"].isna()]
    assert list(whole["verdict"]) == ["helps", "hurts"] and list(whole["value"]) == [0.5, 4]
    wide = ttest_1samp(1.5 + own, 0).confidence_interval(1 - 0.05 / 2)
    assert tuple(whole.iloc[0][["low", "high"]]) == pytest.approx((wide.low, wide.high))


def test_with_several_splits_a_unit_is_a_split(tmp_path: Path) -> None:
    means, differences = fine_tuning.table(made(tmp_path, SPLITS))
    assert set(means["n"]) == {3} and set(means["networks"]) == {12}
    whole = differences[differences["amount"].isna()].set_index("value")
    assert set(whole["unit"]) == {"task"} and set(whole["n"]) == {3}
    own = 0.3 * np.mean(list(NOISE.values()))
    each = -9 + own + np.array([0.0, 15.0, 30.0])
    assert whole.loc[4, "difference"] == pytest.approx(each.mean())
    wide = ttest_1samp(each, 0).confidence_interval(1 - 0.05 / 2)
    assert whole.loc[4, "high"] == pytest.approx(wide.high)
    assert whole.loc[4, "verdict"] == "undecided"


def test_networks_that_did_not_train_are_in_no_mean_and_counted(tmp_path: Path) -> None:
    def lost(replica: Replica) -> dict[str, Any]:
        gone = replica.recipe.init.kappa == 4 and replica.seed < 3
        return change(replica) | (make.lost("undertrained") if gone else {})

    run = made(tmp_path, of=lost)
    means, differences = fine_tuning.table(run)
    assert list(means[means["value"] == 4][["n", "lost"]].to_numpy().flat) == [1, 3, 1, 3]
    of_4 = differences[differences["value"] == 4]
    assert set(of_4["verdict"]) == {"undecided"} and of_4["low"].isna().all()
    text = fine_tuning.texts(means, differences)
    assert list(text["data.train"]) == ["10", "100"] and "n = 1, 3 not trained" in text["4"][0]
    assert "n = 1 seed." in " ".join(fine_tuning.said(differences))


def test_panels_are_the_other_axes_and_networks_without_a_pretraining_are_left_out(
    tmp_path: Path,
) -> None:
    text = STUDY.replace("name: stage, ", "").replace(
        "100]\n", "100]\n  optim.batch: [5, 10]\n  pretrain.name: [none, stage]\n"
    ).replace(", batch: 10", "")  # fmt: skip
    means, _ = fine_tuning.table(made(tmp_path, text))
    assert list(means["panel"].unique()) == ["optim.batch 5", "optim.batch 10"]
    assert set(means["networks"]) == {4}


def test_the_command_and_the_report(tmp_path: Path) -> None:
    made(tmp_path)
    folder = str(tmp_path / "run")
    done = CliRunner().invoke(fine_tuning.main, [folder, "--figure", str(tmp_path / "a.png")])
    assert done.exit_code == 0 and (tmp_path / "a.png").stat().st_size > 10_000
    sentence = "init.kappa 0.5 helps against 1: +1.5 (+1.4 to +1.5) points over all amounts, n = 4"
    assert sentence in done.output
    assert CliRunner().invoke(report.main, [folder]).exit_code == 0
    page = (tmp_path / "run" / "report" / "report.html").read_text()
    assert page.count("<h2>Fine-tuning</h2>") == 1 and "init.kappa 4 hurts against 1" in page
    assert (tmp_path / "run" / "report" / "fine_tuning.csv").exists()


def test_other_studies_have_none(tmp_path: Path) -> None:
    made(tmp_path, make.STUDY, lambda replica: {})
    done = CliRunner().invoke(fine_tuning.main, [str(tmp_path / "run")])
    assert done.exit_code == 2 and "needs a study with a pretrain stage" in done.stderr
