"""Diagonal networks: their start, gradient descent and the minimizer that it ends at."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import initmem
from initmem.data.load import load, of_seed
from initmem.models.diagonal import Diagonal
from initmem.study.recipe import Recipe
from initmem.study.seeds import fold
from initmem.theory.diagonal import Array, Init
from initmem.theory.minimizer import minimizer
from initmem.theory.simulate import finetuned
from initmem.theory.tasks import Task
from initmem.training.loop import train
from initmem.training.replica import Training
from tests.diagonal import DESCENT, EXACT, STUDY, diagonal
from tests.tiny import Memory, exhaust, study


def begun(of: Recipe, seed: int = 0) -> Training:
    torch.set_num_threads(1)
    data = load(of_seed(of.data, seed), Path("nowhere"))
    return Training(of, seed, data, torch.device("cpu"))


def trained(of: Recipe, checkpoints: Memory | None = None) -> Training:
    training = begun(of)
    exhaust(train([training], [checkpoints or Memory()], checkpoint_every=300))
    return training


def parts(training: Training) -> tuple[Array, Array, Array, Array]:
    """w+, w-, v+, v-."""
    network = training.network
    assert isinstance(network, Diagonal)
    w, v = network.stem, network.head
    found = [p.detach().numpy().copy() for p in (w.plus, w.minus, v.plus, v.minus)]
    return found[0], found[1], found[2], found[3]


def beta(training: Training) -> Array:
    assert isinstance(training.network, Diagonal)
    return np.asarray(training.network.beta_D.detach())


def test_the_start_without_pretraining_is_a_formula() -> None:
    training = begun(diagonal(EXACT, "none", c=0.5, lam=-0.6))
    w_plus, w_minus, v_plus, v_minus = parts(training)
    np.testing.assert_allclose([w_plus, w_minus], math.sqrt(0.1))
    np.testing.assert_allclose([v_plus, v_minus], math.sqrt(0.4))
    audit = training.audit
    assert audit.assigned == ["stem.plus", "stem.minus", "head.plus", "head.minus"]
    assert not audit.drawn and not audit.untouched


@pytest.mark.parametrize("init", [Init(1e-3, -0.99, 1e-6), Init(1.0, 0.5, 2.0)])
def test_the_start_after_the_oracle_is_what_the_theory_says(init: Init) -> None:
    training = begun(diagonal(EXACT, c=init.c, lam=init.lam, gam=init.gam))
    pretrained = training.data.pretrained
    assert pretrained is not None and not beta(training).any()
    w_plus, w_minus, v_plus, v_minus = parts(training)
    np.testing.assert_array_equal([w_plus, v_plus], [w_minus, v_minus])
    root_D = 2 * (w_plus**2 + v_plus**2)
    np.testing.assert_allclose(root_D, init.finetuning_root(pretrained.numpy()), rtol=1e-12)
    np.testing.assert_allclose(v_plus, init.gam / math.sqrt(2))


@pytest.mark.parametrize("lam", [-1.0, 0.3])
def test_the_minimizer_is_that_of_the_theory_and_keeps_what_the_flow_keeps(lam: float) -> None:
    init, seed = Init(0.1, lam, 0.2), fold(0, "regression")
    training = begun(diagonal(EXACT, c=0.1, lam=lam, gam=0.2))
    w_D, _, v_D, _ = parts(training)
    exhaust(train([training], [Memory()], 1))
    w_plus, w_minus, v_plus, v_minus = parts(training)
    np.testing.assert_allclose(w_plus**2 - v_plus**2, w_D**2 - v_D**2, atol=1e-12)
    np.testing.assert_allclose(w_minus**2 - v_minus**2, w_D**2 - v_D**2, atol=1e-12)
    np.testing.assert_allclose(w_plus * w_minus + v_plus * v_minus, w_D**2 + v_D**2)
    row = training.outcome().row()
    [error] = finetuned(Task(0.25, 0.25, 0.5), init, 16, [0.25], seed)
    assert row["final.test_loss"] == pytest.approx(error, rel=1e-6)
    target_D = training.data.test.targets.numpy()
    left = error / np.square(target_D).mean()
    assert row["final.test_accuracy"] == pytest.approx(100 * (1 - left))
    assert (row["state"], row["steps"], row["final.test_predictions"]) == ("interpolated", 1, None)
    assert row["final.train_loss"] < 1e-16 and row["selected.step"] == 1
    assert [norm["group"] for norm in row["norms"]] == ["stem", "head", "all"]


@pytest.mark.parametrize("lam", [-1.0, 0.7])
def test_one_task_alone_knows_of_no_lam(lam: float) -> None:
    training = trained(diagonal(EXACT, "none", c=0.1, lam=lam))
    train = training.data.train
    expected_D = minimizer(train.inputs.numpy(), train.targets.numpy(), 0.2)
    np.testing.assert_allclose(beta(training), expected_D, atol=1e-8)


def test_it_is_trained_by_the_loop_alone() -> None:
    of = diagonal(EXACT)
    assert (of.total_steps, of.unstacked, of.stacks, of.graphed) == (1, "diagonal", False, False)


@pytest.mark.parametrize(
    ("pretrain", "init"),
    [("oracle", {"c": 0.3, "lam": -0.5, "gam": 0.5}), ("oracle", {"c": 1.0}),
     ("none", {"c": 0.3, "lam": 0.9})],
)  # fmt: skip
def test_gradient_descent_ends_at_the_minimizer(pretrain: str, init: dict[str, float]) -> None:
    descended = trained(diagonal(DESCENT, pretrain, **init))
    assert descended.step < 4000 and descended.curve[-1]["train_loss"] <= 1e-9
    settled = trained(diagonal(EXACT, pretrain, **init))
    assert np.abs(beta(settled)).max() > 0.3
    assert np.abs(beta(descended) - beta(settled)).max() < 1e-3
    for found_D, expected_D in zip(parts(descended), parts(settled), strict=True):
        np.testing.assert_allclose(found_D, expected_D, atol=2e-3)


def test_a_descent_that_was_cut_equals_one_that_was_not() -> None:
    of = diagonal({**DESCENT, "steps": 800}, c=0.3)
    whole, cut = Memory(), Memory()
    uncut = trained(of, whole)
    cut.saved[300] = whole.saved[300]
    again = trained(of, cut)
    assert torch.equal(again.losses_T, uncut.losses_T) and again.curve == uncut.curve
    np.testing.assert_array_equal(parts(again), parts(uncut))


def test_a_study_of_both_leaves_rows(tmp_path: Path) -> None:
    descent = "  optim: {name: sgd, lr: 0.05, batch: null, steps: 12}"
    texts = {"exact": STUDY, "sgd": STUDY.replace("  optim: {name: exact}", descent)}
    for name, text in texts.items():
        initmem.run(study(tmp_path, text=text, name=name), tmp_path / name, local=True)
        rows = initmem.rows(tmp_path / name)
        assert len(rows) == 6 and rows["final.test_loss"].notna().all()
        assert rows["data_hash"].nunique() == rows["seed"].nunique() == 3
        assert rows["final.test_predictions"].isna().all() and rows["parameters"].eq(160).all()
        assert {len(names) for names in rows["assigned"]} == {4}
    again = initmem.run(study(tmp_path, text=STUDY, name="exact"), tmp_path / "exact", local=True)
    assert (again.done, again.trained) == (6, 0)
