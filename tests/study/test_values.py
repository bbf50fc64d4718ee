"""Which values a field takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from initmem.study.plan import arms, resolve
from tests.study.helpers import changed, faults, study


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E-3", 0.001),
        ("1.e-3", 0.001),
        (".001", 0.001),
        ("+1e+0", 1.0),
        ("1", 1.0),
        ("99999999999999999", 1e17),
    ],
)
def test_a_real_field_takes_every_way_to_write_a_number(
    tmp_path: Path, text: str, value: float
) -> None:
    loaded = study(tmp_path, changed(("batch: 50", f"batch: 50, clip: {text}")))
    recipe = resolve(loaded, {"init.scale": 1, "optim.lr": 0.01, "optim.l2": 0.01})
    assert type(recipe.optim.clip) is float
    assert recipe.optim.clip == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0", "must be greater than 0, got 0"),
        ("-1", "must be greater than 0, got -1"),
        (".nan", "must be a finite number, got nan"),
        (".NAN", "must be a finite number, got nan"),
        (".inf", "must be a finite number, got inf"),
        ("-.Inf", "must be a finite number, got -inf"),
        ("1e999", "must be a finite number, got inf"),
        ("true", "must be a valid number, got true"),
        ("null", "must be a valid number, got null"),
        ("yes", "must be a valid number, got 'yes'"),
        ("'0.5'", "must be a valid number, got '0.5'"),
        ("1_000", "must be a valid number, got '1_000'"),
        ("0x10", "must be a valid number, got '0x10'"),
        ("2001-99-99", "must be a valid number, got '2001-99-99'"),
        ("[1]", "must be a valid number, got [1]"),
    ],
)
def test_a_scale_is_a_positive_finite_number(tmp_path: Path, text: str, problem: str) -> None:
    found = faults(tmp_path, changed(("0.25, 1, 2, 3", f"0.25, 4, {text}")))
    assert found == [f"s.yaml:9: init.scale: {problem}"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("true", "must be a valid integer, got true"),
        ("8.0", "must be a valid integer, got 8.0"),
        ("1e3", "must be a valid integer, got 1000.0"),
        ("'8'", "must be a valid integer, got '8'"),
        (".nan", "must be a valid integer, got nan"),
        ("null", "must be a valid integer, got null"),
        ("0", "must be greater than or equal to 1, got 0"),
        ("-8", "must be greater than or equal to 1, got -8"),
    ],
)
def test_an_integer_field_takes_integers_alone(tmp_path: Path, text: str, problem: str) -> None:
    found = faults(tmp_path, changed(("width: 8", f"width: {text}")))
    assert found == [f"s.yaml:4: model.width: {problem}"]


def test_a_number_of_many_digits_is_refused(tmp_path: Path) -> None:
    found = faults(tmp_path, changed(("width: 8", f"width: {'9' * 5000}")))
    assert found == ["s.yaml:4: recipe.model.width: a number with too many digits"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1", "must be less than 1, got 1"),
        ("-0.1", "must be greater than or equal to 0, got -0.1"),
        (".nan", "must be a finite number, got nan"),
        ("true", "must be a valid number, got true"),
        ("10%", "must be a valid number, got '10%'"),
    ],
)
def test_label_noise_is_a_share_less_than_all(tmp_path: Path, text: str, problem: str) -> None:
    found = faults(tmp_path, changed(("train: 500", f"train: 500, label_noise: {text}")))
    assert found == [f"s.yaml:3: data.label_noise: {problem}"]


@pytest.mark.parametrize("text", ["true", "True", "TRUE"])
def test_true_is_a_boolean(tmp_path: Path, text: str) -> None:
    loaded = study(tmp_path, changed(("train: 500", f"train: 500, flip: {text}")))
    assert loaded.recipe["data.flip"] is True


@pytest.mark.parametrize("text", ["on", "yes", "1"])
def test_nothing_else_is_a_boolean(tmp_path: Path, text: str) -> None:
    [found] = faults(tmp_path, changed(("train: 500", f"train: 500, flip: {text}")))
    assert found.startswith("s.yaml:3: data.flip: must be a valid boolean, got ")


def test_null_is_a_value_where_a_field_allows_it(tmp_path: Path) -> None:
    loaded = study(tmp_path, changed(("batch: 50", "batch: null")))
    recipe = resolve(loaded, {"init.scale": 1, "optim.lr": 0.01, "optim.l2": 0.01})
    assert recipe.batch == 500
    assert recipe.total_steps == 100


def test_a_value_of_no_member_of_a_union_is_said_once(tmp_path: Path) -> None:
    found = faults(tmp_path, changed(("seeds: 2", "resources: {replicas: some}")))
    text = "must be a valid integer or must be one of all, got 'some'"
    assert found == [f"s.yaml:13: resources.replicas: {text}"]


def test_a_long_value_is_cut_in_the_message(tmp_path: Path) -> None:
    [found] = faults(tmp_path, changed(("norm: batch", f"norm: {'x' * 3000}")))
    assert found.startswith("s.yaml:4: model.norm: must be one of none, batch, group, got 'xxx")
    assert len(found) < 150


@pytest.mark.parametrize("text", ["3-3", "-1-3", "1", "0-1.5", "5-", "a", "[0, 5]", "0 - 5"])
def test_a_decay_window_is_two_steps_in_order(tmp_path: Path, text: str) -> None:
    (found,) = faults(tmp_path, changed(("batch: 50", f"batch: 50, decay_window: {text}")))
    rule = "must be a valid string" if text in ("1", "[0, 5]") else "must be FROM-TO, two steps"
    assert found.startswith(f"s.yaml:6: optim.decay_window: {rule}")


def test_decay_windows_are_an_axis(tmp_path: Path) -> None:
    axis = "axes:\n  optim.decay_window: [null, 0-500, 500-1000]"
    loaded = study(tmp_path, changed(("axes:", axis)))
    windows = [arm.values["optim.decay_window"] for arm in arms(loaded)]
    assert windows == [None, "0-500", "500-1000"]
    late = changed(("batch: 50", "batch: 50, decay_window: 500-1001"))
    (found,) = faults(tmp_path, late)
    assert found.startswith(
        "s.yaml:6: optim.decay_window: must end within the budget of 1000 steps"
    )
