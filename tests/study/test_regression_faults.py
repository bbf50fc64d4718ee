"""What no diagonal network can be asked, with file, line and field."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.diagonal import DATA, EXACT, STUDY
from tests.study.helpers import faults, study
from tests.tiny import recipe


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("rho_ft: 0.1", "rho_ft: 0.3",
         "3: data.omega: omega rho_ft = 0.3 must be at most rho_pt = 0.2, the features that can "
         "be shared, got 1"),
        ("rho_pt: 0.2, rho_ft: 0.1", "rho_pt: 0.4, rho_ft: 0.7, omega: 0",
         "3: data.omega: (1 - omega) rho_ft = 0.7 must be at most 1 - rho_pt = 0.6, where new "
         "features can be, got 0"),
        ("rho_ft: 0.1", "rho_ft: 0.01",
         "3: data.d: too small for these tasks: 8 and 0 features, 0 of them shared, got 40"),
        ("alpha: 0.4", "alpha: 0.01", "3: data.alpha: alpha d must be at least 1, got 0.4"),
        ("alpha: 0.4", "alpha: 3000", "3: data.alpha: alpha d may be at most 100000, got 120000"),
        ("d: 40", "d: 5001", "3: data.d: must be less than or equal to 5000, got 5001"),
        ("name: oracle", "name: none",
         "6: init.gam: is the readout's scale after pretraining: set pretrain.name to oracle, or "
         "remove it, got 2"),
        ("name: oracle", "name: stage, steps: 5",
         "5: pretrain.name: stage draws the readout anew, diagonal has none to draw: take oracle, "
         "or none"),
        ("name: exact", "name: exact, lr: 0.1",
         "7: optim.lr: does not apply to exact, which has: name"),
        ("rule: diagonal, c: 0.1, gam: 2", "rule: diagonal, scale: 2",
         "6: init.scale: does not apply to diagonal, which has: rule, c, lam, gam"),
        ("name: exact}", "name: exact}\n  probes: {rank: true}",
         "8: probes.rank: reads networks with classes, diagonal has none"),
        ("name: exact}", "name: exact}\n  precision: bf16",
         "8: precision: diagonal is float64 throughout, got bf16"),
        ("seeds: 3", "resources: {engine: batched}",
         "11: resources.engine: batched trains no diagonal; write loop, or auto, which takes loop "
         "(at init.lam -0.9)"),
        ("seeds: 3", "resources: {engine: graph, device: cuda}",
         "11: resources.engine: graph trains no diagonal; write loop, or auto, which takes loop "
         "(at init.lam -0.9)"),
    ],
)  # fmt: skip
def test_a_study_that_asks_for_it(tmp_path: Path, old: str, new: str, fault: str) -> None:
    text = STUDY.replace("c: 0.1", "c: 0.1, gam: 2")
    assert text.count(old) == 1
    assert f"s.yaml:{fault}" in faults(tmp_path, text.replace(old, new))


def test_lam_of_minus_one_needs_a_readout(tmp_path: Path) -> None:
    text = STUDY.replace("-0.9, 0]", "-1, 0]")
    [fault] = faults(tmp_path, text)
    rule = "-1 needs init.gam above 0, for else nothing learns in fine-tuning; try -0.99999"
    assert fault == f"s.yaml:9: init.lam: {rule}, got -1 with gam 0"
    assert study(tmp_path, text.replace("c: 0.1", "c: 0.1, gam: 1e-6")).seeds == 3
    assert study(tmp_path, text.replace("name: oracle", "name: none")).seeds == 3


def test_a_fault_between_ranges_is_found(tmp_path: Path) -> None:
    """At the high ends of two and the low end of another."""
    ranges = (
        "ranges:\n  data.rho_pt: {low: 0.2, high: 0.5}\n  data.rho_ft: {low: 0.1, high: 0.4}\n"
        "  data.omega: {low: 0, high: 1}\nsearch: {draws: 2}\n"
    )
    text = STUDY.replace("rho_pt: 0.2, rho_ft: 0.1, ", "") + ranges
    [fault] = faults(tmp_path, text)
    assert fault.startswith(
        "s.yaml:15: data.omega: omega rho_ft = 0.4 must be at most rho_pt = 0.2"
    )
    assert fault.endswith("(at init.lam -0.9, data.rho_pt 0.2, data.rho_ft 0.4, data.omega 1.0)")


def test_its_rule_is_for_it_alone() -> None:
    with pytest.raises(ValidationError, match="go together, got diagonal and mlp"):
        recipe(init={"rule": "diagonal"})
    with pytest.raises(ValidationError, match="go together, got kaiming and diagonal"):
        recipe(data=DATA, model={"name": "diagonal"}, optim=EXACT)
    with pytest.raises(ValidationError, match=r"diagonal takes vector input, data\.name digits"):
        recipe(model={"name": "diagonal"}, init={"rule": "diagonal"})


@pytest.mark.parametrize(
    ("field", "old", "new"),
    [("optim", "sgd, lr: 0.1, batch: 20, steps: 9", "exact"),
     ("pretrain", "none", "oracle")],
)  # fmt: skip
def test_other_networks_have_neither_minimizer_nor_oracle(
    tmp_path: Path, field: str, old: str, new: str
) -> None:
    text = """\
recipe:
  data: {name: digits}
  model: {name: mlp}
  init: {rule: kaiming}
  optim: {name: sgd, lr: 0.1, batch: 20, steps: 9}
  pretrain: {name: none}
axes: {init.scale: [1, 2]}
"""
    [fault] = faults(tmp_path, text.replace(f"name: {old}", f"name: {new}"))
    line = {"optim": 5, "pretrain": 6}[field]
    assert fault == f"s.yaml:{line}: {field}.name: {new} is for model.name diagonal, got mlp"
