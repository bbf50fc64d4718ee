"""The loop: a run cut anywhere equals one that was never cut; what it reports is exact. That it
computes what a plain script does is in test_golden.py."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from initmem.data.dataset import Split, assemble_tokens, order
from initmem.data.load import load
from initmem.study.recipe import Recipe
from initmem.training.checkpoint import pack, unpack
from initmem.training.loop import train
from initmem.training.outcome import Outcome
from initmem.training.replica import Training
from tests.tiny import Memory, exhaust, recipe

CPU = torch.device("cpu")
CUT = [
    recipe(model={"name": "resnet9", "width": 4},
           optim={"name": "momentum", "lr": 0.05, "batch": 20, "steps": 30, "schedule": "cosine",
                  "warmup": 3, "l2": 1e-3}),
    recipe(model={"name": "resnet20", "width": 4, "norm": "group"},
           optim={"name": "muon", "lr": 0.01, "batch": 20, "steps": 30, "weight_decay": 0.1}),
    recipe(model={"name": "resnet9", "width": 4, "norm": "none", "downsample": "average"},
           data={"crop": 1, "flip": True},
           optim={"name": "rmsprop", "lr": 1e-3, "batch": 20, "steps": 30}),
    recipe(optim={"name": "adam", "lr": 0.01, "batch": 7, "steps": 30, "clip": 1.0}),
    recipe(data={"name": "modular", "p": 7}, model={"name": "transformer", "width": 16},
           optim={"name": "adamw", "lr": 0.01, "batch": None, "steps": 30, "weight_decay": 1.0}),
    recipe(precision="bf16"),
    recipe(data={"name": "modular", "p": 7}, model={"name": "token_mlp", "width": 16},
           penalty={"name": "radial", "strength": 0.5},
           optim={"name": "adamw", "lr": 0.01, "batch": 10, "steps": 30}),
    recipe(data={"name": "modular", "p": 7, "equals": False},
           model={"name": "transformer", "width": 16, "tied": True, "gated": True},
           optim={"name": "adam", "lr": 0.01, "batch": 10, "steps": 30}),
    recipe(model={"name": "vit", "width": 8, "depth": 2}, data={"crop": 1, "flip": True},
           optim={"name": "muon", "lr": 0.01, "batch": 20, "steps": 30}),
]  # fmt: skip


def start(of: Recipe, seed: int = 0) -> Training:
    torch.set_num_threads(1)
    return Training(of, seed, load(of.data, Path("data")), CPU)


def finish(of: Recipe, seed: int = 0, checkpoints: Memory | None = None) -> Outcome:
    training = start(of, seed)
    exhaust(train([training], [checkpoints or Memory()], checkpoint_every=7))
    return training.outcome()


def same(a: Outcome, b: Outcome) -> None:
    assert torch.equal(a.losses_T, b.losses_T)
    assert a.row() == b.row()


@pytest.mark.parametrize("of", CUT, ids=lambda r: f"{r.model.name}-{r.optim.name}-{r.precision}")
def test_cut_runs_are_bitwise_equal_to_uncut_ones(of: Recipe) -> None:
    """Steps 7, 14, 21, 28 lie in the middle of epochs and of evaluation intervals."""
    whole = Memory()
    uncut = finish(of, checkpoints=whole)
    assert sorted(whole.saved) == [7, 14, 21, 28]
    for step in whole.saved:
        cut = Memory()
        cut.saved[step] = whole.saved[step]
        same(finish(of, checkpoints=cut), uncut)


def test_checkpoints_made_under_other_conditions_are_not_used() -> None:
    of, whole, other = recipe(), Memory(), Memory()
    uncut = finish(of, checkpoints=whole)
    state = unpack(whole.saved[14])
    state["conditions"]["threads"] += 1
    state["losses"] += 1
    other.saved[14] = pack(state)
    same(finish(of, checkpoints=other), uncut)


def test_checkpoints_of_a_gpu_are_read_onto_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Step counters stay there; loading takes to the GPU what belongs on it."""
    of, whole = CUT[3], Memory()  # adam
    monkeypatch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:0")
    uncut = finish(of, checkpoints=whole)
    saved = unpack(whole.saved[14])
    assert saved["optimizers"][0]["state"][0]["step"] == 14
    cut = Memory()
    cut.saved[14] = whole.saved[14]
    same(finish(of, checkpoints=cut), uncut)


def test_two_runs_are_equal_and_two_seeds_are_not() -> None:
    of = recipe()
    same(finish(of), finish(of))
    assert not torch.equal(finish(of).losses_T, finish(of, seed=1).losses_T)


def test_a_network_that_answers_twice_is_trained_on_the_mean_over_answers() -> None:
    of = recipe(data={"name": "addition", "digits": 1, "train": 30, "validation": 9, "test": 8},
                model={"name": "transformer", "width": 8},
                optim={"name": "adam", "lr": 0.01, "batch": 10, "steps": 30})  # fmt: skip
    splits = [Split(torch.randint(12, (n, 5)), torch.randint(12, (n, 2))) for n in (30, 9, 8)]
    training = Training(of, 0, assemble_tokens(of.data, splits), CPU)
    logits_BTC = training.network(splits[0].inputs)
    assert logits_BTC.shape == (30, 2, 12)
    expected = -logits_BTC.log_softmax(-1).gather(-1, splits[0].targets[..., None]).mean()
    torch.testing.assert_close(training.loss(splits[0].inputs, splits[0].targets), expected)
    exhaust(train([training], [Memory()], 1000))
    outcome = training.outcome()
    assert outcome.curve[-1]["train_loss"] < expected
    assert len(outcome.final.test_predictions) == 8 * 2


def test_selected_is_the_earliest_best_and_final_the_last() -> None:
    outcome = finish(recipe(optim={"lr": 0.05, "steps": 60}))
    curve = outcome.curve
    assert [p["step"] for p in curve] == [10, 20, 30, 40, 50, 60]
    top = max(p["validation_accuracy"] for p in curve)
    assert outcome.selected.step == next(
        p["step"] for p in curve if p["validation_accuracy"] == top
    )
    assert outcome.final.step == 60
    targets = load(recipe().data, Path("data")).test.targets.numpy()
    for predictor in (outcome.selected, outcome.final):
        predicted = np.frombuffer(predictor.test_predictions, dtype=np.uint8)
        assert predictor.test_accuracy == 100 * (predicted == targets).sum() / len(targets)


def test_the_last_step_is_evaluated_even_off_the_interval() -> None:
    outcome = finish(recipe(optim={"steps": 25}))
    assert [p["step"] for p in outcome.curve] == [10, 20, 25]


def test_divergence_is_a_state_with_its_step_and_last_finite_loss() -> None:
    row = finish(recipe(optim={"lr": 1e38})).row()
    assert row["state"] == "diverged"
    assert 1 <= row["diverged_step"] <= 10 and row["steps"] == 10
    assert np.isfinite(row["last_finite_loss"]) and "final.test_accuracy" not in row


def test_states() -> None:
    learned = finish(recipe(optim={"steps": 300, "lr": 0.3}))
    assert learned.state() == "interpolated"
    first = next(p["step"] for p in learned.curve if p["train_accuracy"] >= 99.5)
    assert learned.row()["interpolated_step"] == first
    assert learned.row()["interpolated_epoch"] == first / 3
    held = finish(recipe(optim={"steps": 300, "lr": 0.1, "l2": 0.2}))
    assert held.state() == "plateaued"
    assert held.curve[-1]["train_accuracy"] < 99.5
    dead = finish(recipe(optim={"steps": 300, "lr": 0.1, "l2": 3.0}))
    assert dead.tenths()[1] == pytest.approx(math.log(10), abs=0.01)
    assert dead.state() == "undertrained", "nothing is learned that could be remembered"
    assert held.tenths()[0] == pytest.approx(held.losses_T[240:270].double().mean().item())
    assert finish(recipe(optim={"steps": 60, "lr": 0.05})).state() == "undertrained"


def test_a_loss_that_is_flat_for_want_of_a_learning_rate_is_no_plateau() -> None:
    ended = finish(recipe(optim={"steps": 300, "lr": 0.01, "schedule": "cosine"}))
    before, last = ended.tenths()
    assert before is not None and last is not None
    assert abs(last - before) < 0.02 * before and last < 0.98 * ended.constant_loss
    assert ended.state() == "undertrained"


def test_stop_loss_ends_training() -> None:
    outcome = finish(recipe(optim={"steps": 300, "lr": 0.3, "stop_loss": 0.1}))
    assert outcome.steps < 300 and outcome.final.train_loss <= 0.1
    assert all(p["train_loss"] > 0.1 for p in outcome.curve[:-1])


def test_norms_and_distance() -> None:
    training = start(recipe())
    before = training.network.get_parameter("stem.weight").detach().clone().double()
    exhaust(train([training], [Memory()], 1000))
    after = training.network.get_parameter("stem.weight").detach().clone().double()
    stem: dict[str, Any] = next(n for n in training.outcome().norms if n["group"] == "stem")
    assert stem["initial"] == pytest.approx(before.norm().item())
    assert stem["final"] == pytest.approx(after.norm().item())
    assert stem["distance"] == pytest.approx(((after - before).norm() / before.norm()).item())
    cosine = (before * after).sum() / (before.norm() * after.norm())
    assert stem["cosine"] == pytest.approx(cosine.item())


def test_every_epoch_has_its_own_order_and_covers_the_data() -> None:
    first, second = order(60, 0, "order", 0), order(60, 0, "order", 1)
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(60))
    assert first.tolist() != second.tolist()


def test_bf16_differs_from_float32_but_not_by_much() -> None:
    a, b = finish(recipe()), finish(recipe(precision="bf16"))
    assert not torch.equal(a.losses_T, b.losses_T)
    np.testing.assert_allclose(a.losses_T, b.losses_T, rtol=0.1)


def test_steps_to_are_the_first_evaluations_with_these_shares() -> None:
    outcome = finish(recipe(steps_to={"train": 0.5, "validation": 1.0}))
    row = outcome.row()
    fitted = [p["step"] for p in outcome.curve if p["train_accuracy"] >= 50]
    assert row["steps_to_train"] == fitted[0] in (10, 20, 30)
    assert row["steps_to_validation"] is None, "null is never within the budget"
    assert row["total_steps"] == 30


def test_training_ends_at_the_validation_accuracy_to_stop_at() -> None:
    whole = finish(recipe()).curve
    share = whole[1]["validation_accuracy"] / 100
    assert whole[0]["validation_accuracy"] < 100 * share
    outcome = finish(recipe(optim={"stop_validation": share}))
    assert outcome.curve == whole[:2] and outcome.steps == 20
