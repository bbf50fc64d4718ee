"""torch's arithmetic, bit for bit, and L2 never taken for decoupled decay."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from initmem.study.recipe import Recipe
from initmem.study.schedule import learning_rate
from initmem.training.optimizers import Stepper
from tests.tiny import recipe


def problem() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    network = nn.Sequential()
    network.stem = nn.Linear(6, 8)
    network.body = nn.Sequential(nn.ReLU(), nn.Linear(8, 8))
    network.head = nn.Linear(8, 3)
    return network, torch.randn(16, 6), torch.randint(0, 3, (16,))


def trained(of: Recipe, steps: int = 5) -> list[torch.Tensor]:
    network, x, y = problem()
    stepper = Stepper(of.optim, network, of.total_steps)
    for step in range(steps):
        nn.functional.cross_entropy(network(x), y).backward()
        stepper.step(step)
    return [p.detach() for p in network.parameters()]


def reference(make: Any, steps: int = 5) -> list[torch.Tensor]:
    network, x, y = problem()
    optimizer = make(network.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    return [p.detach() for p in network.parameters()]


def optim(**fields: Any) -> Recipe:
    return recipe(optim={"lr": 0.05, "steps": 30, "batch": 20, **fields})


O = torch.optim  # noqa: E741 - stands in a table
SAME = [
    (optim(name="sgd", l2=0.1), lambda p: O.SGD(p, 0.05, weight_decay=0.1)),
    (optim(name="momentum", l2=0.1), lambda p: O.SGD(p, 0.05, 0.9, weight_decay=0.1)),
    (
        optim(name="momentum", nesterov=True, momentum=0.8),
        lambda p: O.SGD(p, 0.05, 0.8, nesterov=True),
    ),
    (optim(name="adam", l2=0.1), lambda p: O.Adam(p, 0.05, weight_decay=0.1)),
    (optim(name="adamw", weight_decay=0.1), lambda p: O.AdamW(p, 0.05, weight_decay=0.1)),
    (optim(name="rmsprop", l2=0.1), lambda p: O.RMSprop(p, 0.05, weight_decay=0.1)),
]


@pytest.mark.parametrize(("of", "make"), SAME, ids=lambda v: getattr(v, "optim", v) and None)
def test_equals_torch(of: Recipe, make: Any) -> None:
    for ours, theirs in zip(trained(of), reference(make), strict=True):
        assert torch.equal(ours, theirs)


def test_decoupled_decay_under_sgd_is_not_l2() -> None:
    """theta <- (1 - lr wd) theta - lr g, and with momentum the two differ."""
    network, x, y = problem()
    before = [p.detach().clone() for p in network.parameters()]
    nn.functional.cross_entropy(network(x), y).backward()
    expected = [
        (1 - 0.05 * 0.1) * p - 0.05 * q.grad
        for p, q in zip(before, network.parameters(), strict=True)
    ]
    for ours, theirs in zip(
        trained(optim(name="sgd", weight_decay=0.1), 1), expected, strict=True
    ):
        torch.testing.assert_close(ours, theirs)
    decay, l2 = optim(name="momentum", weight_decay=0.1), optim(name="momentum", l2=0.1)
    assert not torch.allclose(trained(decay)[0], trained(l2)[0], atol=1e-6)


def test_muon_takes_the_body_and_adamw_the_rest() -> None:
    network, *_ = problem()
    muon, adamw = Stepper(optim(name="muon").optim, network, 30).optimizers
    assert isinstance(muon, O.Muon) and isinstance(adamw, O.AdamW)
    assert [tuple(p.shape) for p in muon.param_groups[0]["params"]] == [(8, 8)]
    assert len(adamw.param_groups[0]["params"]) == 5


def test_muon_on_a_kernel_is_muon_on_the_flat_matrix() -> None:
    torch.manual_seed(0)
    network = nn.Module()
    network.body = nn.Conv2d(3, 4, 3, bias=False)
    network.head = nn.Linear(2, 2, bias=False)
    flat = nn.Parameter(network.body.weight.detach().reshape(4, 27).clone())
    reference = O.Muon([flat], 0.05, 0, 0.95, adjust_lr_fn="match_rms_adamw")
    stepper = Stepper(optim(name="muon").optim, network, 30)
    for step in range(3):
        gradient = torch.randn(4, 3, 3, 3)
        network.head.weight.grad = torch.zeros(2, 2)
        network.body.weight.grad, flat.grad = gradient.clone(), gradient.reshape(4, 27).clone()
        stepper.step(step)
        reference.step()
    assert torch.equal(network.body.weight.detach().reshape(4, 27), flat.detach())


def test_clipping_comes_before_l2() -> None:
    network, x, y = problem()
    before = [p.detach().clone() for p in network.parameters()]
    (1000 * nn.functional.cross_entropy(network(x), y)).backward()
    Stepper(optim(name="sgd", lr=1.0, clip=0.5, l2=1.0).optim, network, 30).step(0)
    moved = [b - p.detach() - b for b, p in zip(before, network.parameters(), strict=True)]
    norm = torch.cat([m.flatten() for m in moved]).norm()
    assert norm.item() == pytest.approx(0.5, rel=1e-4)


def test_schedules() -> None:
    flat = optim(name="sgd").optim
    assert {learning_rate(flat, step, 30) for step in range(30)} == {0.05}
    cosine = optim(name="sgd", schedule="cosine").optim
    rates = [learning_rate(cosine, step, 30) for step in range(30)]
    assert rates[0] == 0.05 and rates[15] == pytest.approx(0.025)
    assert rates == sorted(rates, reverse=True) and 0 < rates[-1] < 0.001
    warm = optim(name="sgd", warmup=4).optim
    assert [learning_rate(warm, step, 30) for step in range(6)] == pytest.approx(
        [0.01, 0.02, 0.03, 0.04, 0.05, 0.05]
    )


@pytest.mark.parametrize("decay", [{"l2": 0.1}, {"weight_decay": 0.1}])
def test_decay_acts_within_its_window_alone(decay: dict[str, float]) -> None:
    whole, plain = optim(name="momentum", **decay), optim(name="momentum")
    windowed = optim(name="momentum", **decay, decay_window="2-4")
    for steps, same in ((2, plain), (4, None), (5, None)):
        equal = [
            torch.equal(a, b)
            for a, b in zip(trained(windowed, steps), trained(same or plain, steps), strict=True)
        ]
        assert all(equal) == (same is not None)
    every = optim(name="momentum", **decay, decay_window="0-30")
    assert all(map(torch.equal, trained(every), trained(whole)))
