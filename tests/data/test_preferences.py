"""Pairs with preferences: their geometry, their stream, and which of it arms and seeds share."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from initmem.data.geometry import Geometry, geometry
from initmem.data.load import of_seed
from initmem.data.preferences import batch, gaussian_pairs, hermite
from tests.pairs import drawn, pairs

ARMS = ("sft", "w2s_localized", "w2s_projected", "w2s_plain", "sft_localized", "sft_projected",
        "w2s_inside")  # fmt: skip


def near(ours: Tensor | float, theirs: Tensor | float) -> None:
    torch.testing.assert_close(torch.as_tensor(ours), torch.as_tensor(theirs), atol=1e-6, rtol=0,
                               check_dtype=False)  # fmt: skip


@pytest.mark.parametrize("subspaces", ["nested", "hard"])
@pytest.mark.parametrize("rho", [-0.3, 0.0, 0.8])
def test_two_subspaces_with_a_direction_in_each(rho: float, subspaces: str) -> None:
    known = drawn(rho=rho, subspaces=subspaces)
    for V_DS, theta_D in ((known.V1, known.theta1), (known.V2, known.theta2)):
        assert V_DS.shape == (16, 4)
        near(V_DS.T @ V_DS, torch.eye(4))
        near(V_DS @ (V_DS.T @ theta_D), theta_D)
        near(theta_D.norm(), 1.0)
    near(known.theta1 @ known.theta2, rho)
    near(known.V2[:, 0], known.theta2)
    near(known.V1 @ (known.V1.T @ known.theta2), rho * known.theta1)
    of_second = (known.V2.T @ known.theta1).square().sum()
    if subspaces == "nested":
        near(known.V2 @ (known.V2.T @ known.theta1), rho * known.theta2)
    else:  # two directions of V_2 have cosine rho to theta_1, and rho^2 to each other
        near(of_second, 2 * rho**2 / (1 + rho**2))


def test_at_rho_1_both_tasks_are_one() -> None:
    known = drawn(rho=1.0)
    near(known.theta1, known.theta2)
    near(known.V2.T @ known.V2, torch.eye(4))


@pytest.mark.parametrize("arm", ARMS)
def test_teacher_limit_and_what_training_sees(arm: str) -> None:
    cosine = {"cosine": 0.3} if arm.startswith("w2s") else {}
    known, data = drawn(arm, **cosine), pairs(arm, **cosine)
    near(known.teacher.norm(), 1.0)
    near(known.teacher @ known.theta1, 0.3 if data.weak else 1.0)
    held = known.V1 @ (known.V1.T @ known.teacher)
    if arm in ("sft", "sft_localized", "sft_projected"):
        near(known.limit, known.theta1)
    elif arm in ("w2s_plain", "w2s_inside"):
        near(known.limit, known.teacher)
        near(held.norm(), 1.0) if arm == "w2s_inside" else near(known.limit @ known.theta1, 0.3)
    else:
        near(known.limit @ known.theta1, 0.3 / held.norm())
        assert held.norm() < 0.9 and known.limit @ known.theta1 > 0.3
    seen = known.seen
    if arm in ("sft", "w2s_plain"):
        assert seen is None
        return
    assert seen is not None
    near(seen.T @ seen, torch.eye(seen.shape[1]))
    if data.localized:
        near(seen, known.V1)
    else:
        for v in (known.V1, known.V2, known.teacher):
            near(seen @ (seen.T @ v), v)


@pytest.mark.parametrize("fields", [{"cosine": 1.0}, {"d": 8}])
def test_a_teacher_inside_both_subspaces_is_seen(fields: dict[str, float]) -> None:
    known = drawn("w2s_projected", **fields)
    assert known.seen is not None and known.seen.shape[1] == 8
    near(known.seen @ (known.seen.T @ known.teacher), known.teacher)


def test_localization_filters_an_isotropic_error() -> None:
    """cosine m / sqrt(m^2 + (1 - m^2) s/d); for an error orthogonal to theta_1 the share is
    (s - 1) / (d - 1), a mean over draws."""
    found = [drawn("w2s_localized", seed, d=64, s=8) for seed in range(200)]
    held = torch.tensor([float((k.V1.T @ k.teacher).square().sum()) for k in found])
    expected = 0.36 + 0.64 * 7 / 63
    assert abs(held.mean() - expected) < 4 * held.std() / math.sqrt(200)


def test_arms_and_rho_of_a_seed_share_all_that_they_can() -> None:
    known = {(arm, rho): drawn(arm, rho=rho) for arm in ARMS for rho in (0.0, 0.5)}
    first = known["sft", 0.0]
    for (arm, rho), other in known.items():
        assert torch.equal(first.V1, other.V1) and torch.equal(first.theta1, other.theta1)
        assert torch.equal(first.V2[:, 1:], other.V2[:, 1:])
        near(other.theta2, rho * first.theta1 + math.sqrt(1 - rho**2) * first.theta2)
        assert torch.equal(known[arm, 0.0].teacher, other.teacher)
    assert torch.equal(known["w2s_plain", 0.0].teacher, known["w2s_projected", 0.0].teacher)
    assert not torch.equal(drawn(seed=1).theta1, first.theta1)


def test_the_stream_is_a_function_of_seed_and_step() -> None:
    data = pairs("w2s_plain", split=3)
    known = geometry(data)
    one, again = (batch(data, known, 100, 5, 7) for _ in range(2))
    assert torch.equal(one.inputs, again.inputs) and torch.equal(one.targets, again.targets)
    assert one.inputs.shape == (100, 2, 16) and one.inputs.dtype == torch.float32
    for seed, step in ((5, 8), (6, 7)):
        assert not torch.equal(batch(data, known, 100, seed, step).inputs, one.inputs)
    other = pairs("sft", split=3)
    assert torch.equal(batch(other, geometry(other), 100, 5, 7).inputs, one.inputs)


@pytest.mark.parametrize("arm", ["sft", "w2s_projected", "w2s_localized"])
def test_labels_are_drawn_by_the_teachers_rewards(arm: str) -> None:
    """Their squared error about the probabilities has the mean of p (1 - p)."""
    data = pairs(arm, reward=3.0, link="h4", split=0)
    known: Geometry = geometry(data)
    made = batch(data, known, 20_000, 0, 0)
    inputs = made.inputs if known.seen is None else made.inputs @ known.seen.T
    rewards_N2 = 3 * hermite("h4", inputs @ known.teacher)
    p_N = torch.sigmoid(rewards_N2[:, 0] - rewards_N2[:, 1])
    residual_N = (made.targets - p_N).square()
    assert abs((residual_N - p_N * (1 - p_N)).mean()) < 4 * residual_N.std() / math.sqrt(20_000)
    held = inputs @ known.V1 @ known.V1.T
    if arm == "w2s_localized":
        near(held / inputs.norm(), inputs / inputs.norm())
    assert (held @ known.theta1).std().item() == pytest.approx(1, rel=0.02)


def test_samples_are_ordered_by_the_true_rewards() -> None:
    data = pairs("w2s_localized", rho=0.2)
    made = gaussian_pairs(of_seed(data, 4))
    known, ood = made.geometry, made.ood
    assert known is not None and ood is not None and (made.kind, made.shape) == ("pairs", (16,))
    sizes = [len(s.targets) for s in (made.train, made.validation, made.test, ood)]
    assert sizes == [50, 50, 40, 40] and data.sizes() == (50, 50, 40)
    for split, theta in ((made.validation, known.theta1), (made.test, known.theta1),
                         (ood, known.theta2)):  # fmt: skip
        sizes_N2 = (split.inputs @ theta).abs()
        assert torch.equal(split.targets, (sizes_N2[:, 0] > sizes_N2[:, 1]).long())
    assert made.train.inputs.shape == (50, 2, 16)
    near(made.train.inputs @ known.V1 @ known.V1.T, made.train.inputs)
    assert of_seed(data, 4) == of_seed(data.model_copy(update={"split": 4}), 9)
    moved = made.to("cpu").geometry
    assert moved is not None and torch.equal(moved.limit, known.limit)


@pytest.mark.parametrize("link", ["h2", "h4", "h6"])
def test_links_are_normalized_hermite_polynomials(link: str) -> None:
    z = torch.linspace(-9, 9, 100_001, dtype=torch.float64)
    weights = torch.exp(-z.square() / 2)
    weights /= weights.sum()
    g = hermite(link, z)
    for other in ("h2", "h4", "h6"):
        near((weights * g * hermite(other, z)).sum(), float(link == other))
    near((weights * g).sum(), 0.0)
