"""Random-label heads: what they measure is right, and measuring changes no bit of the network."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from initmem.data.load import load
from initmem.study.recipe import Recipe
from initmem.training.loop import train
from initmem.training.outcome import Outcome
from initmem.training.random_labels import Head, avoidance, complexity, pooled, random_labels
from initmem.training.replica import Training
from tests.tiny import Memory, exhaust, recipe

CPU = torch.device("cpu")
RESNET = {"model": {"name": "resnet9", "width": 8}, "data": {"crop": 1, "flip": True}}
DEEP = {"model": {"depth": 2}, "optim": {"clip": 1.0}}
TOKENS = {
    "data": {"name": "modular", "p": 7, "equals": False},
    "model": {"name": "transformer", "width": 8, "heads": 2},
    "penalty": {"name": "radial"},
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def headed(sections: dict[str, Any], **fields: object) -> Recipe:
    return recipe(**sections, random_labels={"name": "heads", **fields})


def begun(of: Recipe, seed: int = 0) -> Training:
    return Training(of, seed, load(of.data, Path("data")), CPU)


def finished(of: Recipe, memory: Memory | None = None, seed: int = 0) -> Training:
    training = begun(of, seed)
    exhaust(train([training], [memory or Memory()], 7))
    return training


def said(outcome: Outcome, quantity: str, where: str) -> list[float]:
    """Over the readings."""
    keys = ("probe", "quantity", "where")
    wanted = ("random_labels", quantity, where)
    return [one["value"] for one in outcome.readings if tuple(one[k] for k in keys) == wanted]


@pytest.mark.parametrize("sections", [RESNET, DEEP, TOKENS], ids=["resnet9", "mlp", "tokens"])
def test_heads_that_measure_change_no_bit(sections: dict[str, Any]) -> None:
    plain = finished(recipe(**sections))
    seen = finished(headed(sections, control=2, confidence=True))
    assert torch.equal(plain.losses_T, seen.losses_T)
    ours, theirs = plain.outcome().row(), seen.outcome().row()
    apart = {name for name in ours if ours[name] != theirs[name]}
    assert apart == {"readings", "confidences"}


@pytest.mark.parametrize("sections", [RESNET, TOKENS], ids=["resnet9", "tokens"])
def test_a_cut_training_ends_with_the_same_bits(sections: dict[str, Any]) -> None:
    of = headed(sections, strength=0.5, control=2, confidence=True, n=5)
    whole, memory = finished(of), Memory()
    exhaust(train([begun(of)], [memory], 7))
    del memory.saved[max(memory.saved)]  # go on from the one before
    ours, theirs = whole.outcome().row(), finished(of, memory).outcome().row()
    assert ours == theirs and ours["confidences"]


def test_a_label_is_its_examples_for_good_and_none_is_the_tasks() -> None:
    assert torch.equal(random_labels(100, 7, 3), random_labels(100, 7, 3))
    assert not torch.equal(random_labels(100, 7, 3), random_labels(100, 7, 4))
    counts_n = torch.bincount(random_labels(100_000, 4, 0), minlength=4)
    assert (counts_n - 25_000).abs().max() < 5 * math.sqrt(100_000 * 3 / 16)
    pair = [begun(headed(DEEP, at="last", strength=s)).random_labels for s in (0.0, 1.0)]
    assert torch.equal(pair[0].labels_N, pair[1].labels_N)
    assert torch.equal(pair[0].heads[0].linear.weight, pair[1].heads[0].linear.weight)


def test_learning_moves_heads_alone_and_the_strength_the_network_alone() -> None:
    training = begun(headed(DEEP, strength=2.0, n=5, standardize=False))
    chosen_B = training.chosen()
    task = training.loss(*training.batch(chosen_B))
    whole = training.random_labels.added_to(task, chosen_B)
    (whole - task).backward()
    slope = {name: p.grad for name, p in training.network.named_parameters()}
    assert slope["stem.weight"].any() and slope["body.0.weight"].any()  # type: ignore[union-attr]  # there is one
    assert not slope["head.weight"].any(), "the readout has no part in it"  # type: ignore[union-attr]  # likewise
    heads = training.random_labels.heads
    assert all(p.grad is None for head in heads for p in head.parameters())
    before = {name: p.clone() for name, p in training.network.state_dict().items()}
    kept = {name: g.clone() for name, g in slope.items() if g is not None}
    training.random_labels.learn(chosen_B)
    assert all(p.grad.any() for head in heads for p in head.parameters())  # type: ignore[union-attr]  # they learned
    for name, parameter in training.network.named_parameters():
        assert torch.equal(parameter, before[name]) and torch.equal(parameter.grad, kept[name])


def test_avoidance_is_minus_log_of_one_minus_p_with_slope_p() -> None:
    logits_BN = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    labels_B = torch.tensor([0, 1, 2, 3, 0, 1])
    p_B = logits_BN.softmax(dim=1).gather(1, labels_B[:, None]).squeeze(1)
    loss = avoidance(logits_BN, labels_B)
    torch.testing.assert_close(loss, -(1 - p_B).log().mean())
    (slope_BN,) = torch.autograd.grad(loss, logits_BN)
    torch.testing.assert_close(slope_BN.gather(1, labels_B[:, None]).squeeze(1), p_B / 6)
    certain = torch.tensor([[80.0, 0.0]], requires_grad=True)  # 1 - p is 0 in float32
    (slope,) = torch.autograd.grad(avoidance(certain, torch.tensor([0])), certain)
    assert slope.tolist() == [[1.0, -1.0]]


def test_a_head_sees_features_of_any_size_alike() -> None:
    h_BD, labels_B = torch.rand(20, 6), torch.randint(0, 3, (20,))
    torch.manual_seed(0)
    head = Head(6, 3, standardize=True)
    logits_BN = head(h_BD)
    torch.testing.assert_close(head(100 * h_BD + 7), logits_BN, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(head.judged(h_BD), logits_BN)
    plain = Head(6, 3, standardize=False)
    assert F.cross_entropy(plain(100 * h_BD), labels_B) > F.cross_entropy(plain(h_BD), labels_B)


def test_pooled_features() -> None:
    image, sequence = torch.rand(2, 3, 4, 4), torch.rand(2, 5, 3)
    assert torch.equal(pooled(image), image.mean(dim=(2, 3)))
    assert (
        torch.equal(pooled(sequence), sequence.mean(dim=1)) and pooled(image[:, :, 0, 0]).ndim == 2
    )


def test_complexity_is_0_at_chance_and_the_correlation_of_signs() -> None:
    assert [complexity(share, 4) for share in (0.25, 1.0)] == [0, 1]
    assert complexity(0.8, 2) == pytest.approx(2 * 0.8 - 1) and complexity(0.0, 100) < 0


@pytest.mark.parametrize(("width", "least", "most"), [(128, 0.99, 1.0), (1, -0.05, 0.2)])
def test_a_wide_layer_memorizes_all_and_a_single_unit_nothing(
    width: int, least: float, most: float
) -> None:
    """60 examples in general position are told apart by linear functions of 128 features, each
    with a label of its own; one feature orders them and no more."""
    sections = {"model": {"width": width}, "optim": {"lr": 1e-3, "steps": 300}, "eval_every": 300}
    outcome = finished(headed(sections, lr=0.03, n=10, control=100, confidence=True)).outcome()
    first, last = said(outcome, "complexity", "hidden.0")
    assert -0.1 < first < 0.15 and least <= last <= most
    assert said(outcome, "control_complexity", "hidden.0")[-1] == pytest.approx(last, abs=0.12)
    assert said(outcome, "chance", "hidden.0") == [10.0, 10.0]
    accuracy = said(outcome, "accuracy", "hidden.0")[-1] / 100
    assert (
        complexity(accuracy, 10) == last
        and len(said(outcome, "running_accuracy", "hidden.0")) == 1
    )
    p_N = np.frombuffer(outcome.confidences or b"", "<f2").astype(float)
    assert p_N.shape == (60,) and p_N.mean() == pytest.approx(
        said(outcome, "confidence", "hidden.0")[-1], abs=1e-3
    )


def test_a_strength_takes_random_labels_out_and_its_sign_is_right() -> None:
    sections = {"model": {"depth": 2, "width": 64}, "eval_every": 200,
                "optim": {"name": "adam", "lr": 2e-3, "batch": 20, "steps": 600}}  # fmt: skip
    for seed in range(3):
        known: dict[tuple[float, str], list[float]] = {}
        for strength, suppress in ((0.0, "all"), (1.0, "all"), (10.0, "last")):
            of = headed(sections, strength=strength, suppress=suppress, lr=5e-3, n=10)
            outcome = finished(of, seed=seed).outcome()
            known[strength, suppress] = [
                said(outcome, "accuracy", f"hidden.{i}")[-1] for i in range(2)
            ]
            assert outcome.state() == "interpolated", "the task is learned all the same"
        free, all_, last = known.values()
        assert min(free) > 90 and all_[0] < 60 and all_[1] < 30, "chance is 10"
        assert last[1] < 40 and last[0] > 90, "only where it acts"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"at": "body.9"}, r"unknown layer 'body.9', the network has hidden.0, hidden.1"),
        ({"at": "hidden.0,hidden.0,hidden.1"}, r"3 heads for 2 layers, a layer has one"),
        ({"at": "hidden.0", "suppress": "hidden.1"}, r"random_labels.at has hidden.0"),
        ({"n": 1}, "greater than or equal to 2"),
        ({"strength": -1.0}, "greater than or equal to 0"),
    ],
)
def test_bad_heads_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        headed(DEEP, **fields)
    with pytest.raises(ValueError, match=r"needs an optim\.batch of 2"):
        headed({"optim": {"batch": 1}})
