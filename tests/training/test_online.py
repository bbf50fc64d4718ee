"""Networks with planted features: their start, their steps, when they stop and what is read."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

import initmem
from initmem.data.preferences import gaussian_pairs
from initmem.study.load import load
from initmem.study.plan import arms, cell
from initmem.study.recipe import Recipe
from initmem.training.loop import train
from initmem.training.online import Online, preferred
from initmem.training.outcome import Outcome
from initmem.training.probes.features import mean_cosine
from tests.pairs import STUDY, begun, pairs, planted
from tests.tiny import Memory, exhaust, study


def trained(training: Online, memory: Memory | None = None) -> Outcome:
    exhaust(train([training], [memory or Memory()], checkpoint_every=15))
    return training.outcome()


def weights(training: Online) -> Tensor:
    """On-target neurons, then off-target ones."""
    return torch.cat([p.detach().clone() for p in training.network.parameters()])


def test_the_start_is_planted() -> None:
    training = begun(planted(init={"scale": 2.0, "spread": 0.6}, rho=0.3, subspaces="hard"))
    known, (on_ND, off_MD) = training.geometry, training.network.parameters()
    torch.testing.assert_close(weights(training).norm(dim=1), torch.full((8,), 2.0))
    torch.testing.assert_close(on_ND @ known.V1 @ known.V1.T, on_ND.detach())
    torch.testing.assert_close(off_MD @ known.V2 @ known.V2.T, off_MD.detach())
    torch.testing.assert_close((off_MD @ known.theta2).abs(), torch.full((2,), 1.6))
    drawn = training.audit.drawn
    assert [(d.tensor, d.group) for d in drawn] == [
        ("stem.weight", "stem"),
        ("body.weight", "body"),
    ]
    assert all(d.asked_std == pytest.approx(d.measured_std) == pytest.approx(0.5) for d in drawn)


def test_arms_rho_and_scales_of_a_seed_share_the_start() -> None:
    first = weights(begun(planted()))
    for arm, scale in (("w2s_projected", 1.0), ("w2s_inside", 3.0)):
        torch.testing.assert_close(
            weights(begun(planted(arm, init={"scale": scale}))), scale * first
        )
    other = weights(begun(planted(rho=0.5)))
    assert torch.equal(other[:6], first[:6]) and not torch.equal(other[6:], first[6:])
    assert not torch.equal(weights(begun(planted(), seed=1)), first)


@pytest.mark.parametrize("arm", ["sft", "w2s_localized", "w2s_projected"])
@pytest.mark.parametrize(("sign", "output"), [(1, 0.0), (-1, 0.0), (1, 4.0)])
def test_the_gradient_in_closed_form(arm: str, sign: int, output: float) -> None:
    """G_j = mean of (y - p) a_j (1(w_j x > b) x - 1(w_j x' > b) x'), with p = 1/2 in the limit of
    small outputs."""
    training = begun(planted(arm, model={"sign": sign, "output": output}))
    inputs, labels_B = training.batch(training.chosen())
    training.loss(inputs, labels_B).backward()
    gradient = torch.cat([p.grad for p in training.network.parameters() if p.grad is not None])
    seen, w_ND = training.geometry.seen, weights(training)
    x_B2D = inputs if seen is None else inputs @ seen.T
    active_B2N = ((x_B2D @ w_ND.T) > 0.5).float()
    mean_B2 = sign * (x_B2D @ w_ND.T - 0.5).relu().mean(dim=2)
    p_B = torch.sigmoid(output * (mean_B2[:, 0] - mean_B2[:, 1]))
    error_B = sign * (labels_B - p_B) / len(labels_B)
    signed_B2 = torch.stack([error_B, -error_B], dim=1)
    expected = torch.einsum("bp,bpn,bpd->nd", signed_B2, active_B2N, x_B2D)
    torch.testing.assert_close(-gradient, expected, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("arm", ["sft", "w2s_projected"])
@pytest.mark.parametrize("update", ["tangential", "free"])
def test_a_step_in_closed_form(arm: str, update: str) -> None:
    training = begun(planted(arm, optim={"update": update}, init={"scale": 1.5}, rho=0.4))
    known, before = training.geometry, weights(training)
    training.loss(*training.batch(training.chosen())).backward()
    gradient = -torch.cat([p.grad for p in training.network.parameters() if p.grad is not None])
    training.network.zero_grad()
    training.update()
    if arm == "w2s_projected":
        on, off = gradient[:6] @ known.V1 @ known.V1.T, gradient[6:] @ known.V2 @ known.V2.T
        gradient = torch.cat([on, off])
    if update == "tangential":
        gradient -= (gradient * before).sum(1, keepdim=True) / 1.5**2 * before
    expected = before + 0.5 * gradient
    if update == "tangential":
        expected *= 1.5 / expected.norm(dim=1, keepdim=True)
    torch.testing.assert_close(weights(training), expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("arm", "update"), [("w2s_projected", "tangential"), ("sft", "free"),
                                             ("w2s_localized", "tangential")])  # fmt: skip
def test_what_many_steps_keep(arm: str, update: str) -> None:
    training = begun(planted(arm, optim={"update": update, "stop_alignment": 1.0}, rho=0.4))
    for _ in range(100):
        training.update()
    known, w_ND = training.geometry, weights(training)
    unit = torch.allclose(w_ND.norm(dim=1), torch.ones(8), atol=1e-5)
    assert unit == (update == "tangential")
    stays = {V: torch.allclose(w @ V @ V.T, w, atol=1e-4)
             for V, w in ((known.V1, w_ND[:6]), (known.V2, w_ND[6:]))}  # fmt: skip
    assert stays[known.V1] == (arm != "sft") and stays[known.V2] == (arm == "w2s_projected")


def test_training_goes_on_beyond_the_stop_rule() -> None:
    training = begun(planted())
    outcome = trained(training)
    curve = {p["step"]: p for p in outcome.curve}
    met = next(step for step, p in curve.items() if p["alignment"] >= 0.95)
    assert 10 < met < 200 and outcome.steps == 10 * math.ceil(0.15 * met)
    row = outcome.row()
    assert (row["state"], row["aligned_step"], row["steps"]) == (
        "interpolated",
        met,
        outcome.steps,
    )
    read = {(r["step"], r["quantity"]): r["value"] for r in row["readings"]}
    assert {step for step, _ in read} == {0, *curve}
    assert {(r["quantity"], r["where"]) for r in row["readings"]} == {
        ("on_target", "stem"), ("to_limit", "stem"), ("kept", "body"), ("captured", "body"),
    }  # fmt: skip
    assert all(p["alignment"] == read[step, "to_limit"] for step, p in curve.items())
    assert row["final.alignment"] == read[outcome.steps, "to_limit"] > 0.95
    assert read[0, "kept"] == pytest.approx(math.sqrt(0.99)) and read[met, "kept"] < 0.99
    assert 0 < row["final.ood_accuracy"] < row["final.test_accuracy"] <= 100
    assert set(row["final.test_predictions"]) == {0, 1}
    assert [norm["group"] for norm in row["norms"]] == ["stem", "body", "all"]


@pytest.mark.parametrize("goal", [1.0, 0.95])
def test_a_budget_that_ends_before_the_rule_is_met(goal: float) -> None:
    outcome = trained(begun(planted(optim={"steps": 20, "stop_alignment": goal})))
    assert (outcome.steps, outcome.aligned_step, outcome.state()) == (20, None, "undertrained")


def test_the_limit_of_an_arm_is_what_counts() -> None:
    """A weak teacher's pupil meets the rule far from theta_1."""
    training = begun(planted("w2s_inside", cosine=0.5))
    outcome = trained(training)
    last = {r["quantity"]: r["value"] for r in outcome.readings if r["step"] == outcome.steps}
    assert outcome.aligned_step and last["to_limit"] > 0.95 and last["on_target"] < 0.75


def cut_equals_uncut(of: Recipe) -> None:
    whole, cut = Memory(), Memory()
    first, second = begun(of), begun(of)
    uncut = trained(first, whole)
    assert uncut.steps > 15
    cut.saved[15] = whole.saved[15]
    again = trained(second, cut)
    assert again.row() == uncut.row() and torch.equal(again.losses_T, uncut.losses_T)
    assert torch.equal(weights(first), weights(second))


def test_a_training_that_was_cut_equals_one_that_was_not() -> None:
    cut_equals_uncut(planted(rho=0.4))


@pytest.mark.parametrize("arm", [0, 1, 2])
def test_at_the_papers_sizes_too(arm: int) -> None:
    """The study, with a shorter budget and fewer pairs."""
    path = Path(__file__).parents[2] / "studies/weak_to_strong/wide.yaml"
    fewer = ["optim.batch=64", "optim.steps=26", "data.validation=50", "data.test=40"]
    of = load(path, fewer)
    recipe = cell(of, arms(of)[arm], 0, {"optim.lr": 0.1}).replicas[0].recipe
    assert recipe.data.d == 1024
    cut_equals_uncut(recipe)


def test_at_small_outputs_neurons_do_not_know_of_each_other() -> None:
    """So that the on-target neurons are the same at every rho, and in the limit of outputs."""
    alone, other = (begun(planted(rho=rho)) for rho in (0.0, 0.8))
    near, far = (begun(planted(model={"output": output})) for output in (1e-3, 30.0))
    for training in (alone, other, near, far):
        for _ in range(20):
            training.update()
    ours, *theirs = (t.network.stem.weight.detach() for t in (alone, other, near, far))
    torch.testing.assert_close(ours, theirs[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(ours, theirs[1], atol=0.02, rtol=0)  # a flip of a threshold
    assert (ours - theirs[2]).abs().max() > 0.1
    torch.testing.assert_close(near.losses_T[:20], alone.losses_T[:20], atol=5e-3, rtol=0)


@pytest.mark.parametrize("cosine", [0.0, 0.6, 0.95])
def test_pairwise_accuracy_of_one_direction(cosine: float) -> None:
    """p^2 + (1 - p)^2 with p = 1 - acos(cosine) / pi."""
    data = gaussian_pairs(pairs("w2s_plain", test=20_000, cosine=cosine, d=4, s=2))
    assert data.geometry is not None
    right = preferred(3 * data.geometry.teacher[None], data.test.inputs, "h2") == data.test.targets
    p = 1 - math.acos(cosine) / math.pi
    expected = p**2 + (1 - p) ** 2
    assert right.double().mean().item() == pytest.approx(expected, abs=4 * math.sqrt(1 / 80_000))


def test_a_cosine_has_no_sign_and_no_length() -> None:
    rows = torch.tensor([[3.0, 4.0], [-0.3, -0.4], [0.0, 2.0]])
    assert mean_cosine(rows, torch.tensor([2.0, 0.0])) == pytest.approx(0.4)


def test_a_study_leaves_rows(tmp_path: Path) -> None:
    of = study(tmp_path, text=STUDY, name="pairs")
    initmem.run(of, tmp_path / "run", local=True)
    rows = initmem.rows(tmp_path / "run")
    assert len(rows) == 8 and rows["parameters"].eq(80).all() and rows["error"].isna().all()
    assert rows["data_hash"].nunique() == 8 and rows["seed"].nunique() == 2
    assert rows["steps"].eq(40).all() and {len(r) for r in rows["readings"]} == {4 * 5}
    for _, same in rows.groupby(["data.arm", "seed"]):
        assert same["final.alignment"].std() < 1e-5 and same["final.ood_accuracy"].nunique() == 2
    again = initmem.run(study(tmp_path, text=STUDY, name="pairs"), tmp_path / "run", local=True)
    assert (again.done, again.trained) == (8, 0)
