"""Engines batched and graph: the same training as the plain module's, and a replica's bits are its
own. Without a GPU, graph runs each of its steps eagerly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from initmem.data.load import load
from initmem.study import size
from initmem.study.objective_section import NoPenalty, Radial
from initmem.study.recipe import Recipe
from initmem.training.batched import Batched, alone
from initmem.training.loop import ENGINES, train
from initmem.training.outcome import Outcome
from initmem.training.replica import Training
from initmem.training.resume import restore
from initmem.training.stack import shape
from tests.tiny import Memory, exhaust, recipe

CPU = torch.device("cpu")
ODD = {"name": "mlp", "width": 13, "depth": 3, "bias": True}
"""Sizes that no vector register divides."""
OPTIMS: list[dict[str, Any]] = [
    {"name": "sgd", "lr": 0.1, "l2": 0.01, "clip": 0.5},
    {"name": "momentum", "lr": 0.05, "l2": 1e-3, "schedule": "cosine", "warmup": 3},
    {"name": "momentum", "lr": 0.05, "nesterov": True, "weight_decay": 0.1},
    {"name": "adam", "lr": 0.01, "l2": 1e-3, "decay_window": "5-20"},
    {"name": "adamw", "lr": 0.01, "weight_decay": 0.1, "beta1": 0.8},
    {"name": "rmsprop", "lr": 0.003, "alpha": 0.9},
    {"name": "muon", "lr": 0.01, "weight_decay": 0.1},
]
RESNET = {"name": "resnet9", "width": 4}
CONV = {"name": "resnet9", "width": 8}
VIT = {"name": "vit", "width": 10, "heads": 2, "depth": 2}
SHORT = {"batch": 10, "steps": 30}
MODULAR = {"name": "modular", "p": 7}
GATED = {"gated": True, "head_width": 3, "mlp": 11, "activation": "relu", "positions": "none"}
PENALTY = {"name": "radial", "strength": 0.5, "radius": 2.0}
PULLED = recipe(
    data=MODULAR,
    model={"name": "token_mlp", "embedding": 5, "width": 13},
    optim={"lr": 0.1, "batch": 9, "steps": 30},
    penalty=PENALTY,
)
BATCHED = [recipe(model=ODD, optim={"batch": 7, "steps": 30, **optim}) for optim in OPTIMS]
GRAPH = [
    recipe(model=RESNET, optim={"batch": 10, "steps": 30, **optim})
    for optim in (OPTIMS[0], OPTIMS[1], OPTIMS[3], OPTIMS[6])
]
CASES = [
    *(("batched", of) for of in BATCHED),
    ("batched", recipe(model=ODD, precision="bf16")),
    ("batched", recipe(data={"crop": 1, "flip": True})),
    (
        "batched",
        recipe(
            data=MODULAR,
            model={"name": "transformer", "width": 12},
            optim={"name": "adamw", "lr": 0.01, "batch": None, "steps": 30},
        ),
    ),
    (
        "batched",
        recipe(
            data=MODULAR,
            model={"name": "transformer", "width": 10, "heads": 2, "norm_at": "post", **GATED},
            optim={"name": "adam", "lr": 0.01, "batch": 9, "steps": 30},
        ),
    ),
    ("batched", PULLED),
    ("batched", recipe(model=ODD, penalty={**PENALTY, "site": "last"}, precision="bf16")),
    ("batched", recipe(model=CONV, optim={"name": "momentum", "lr": 0.05, **SHORT})),
    ("batched", recipe(model=CONV, precision="bf16", data={"crop": 1, "flip": True})),
    (
        "batched",
        recipe(model={**CONV, "norm": "group"}, optim={"name": "muon", "lr": 0.01, **SHORT}),
    ),
    ("batched", recipe(model={**CONV, "norm": "none", "downsample": "average"})),
    ("batched", recipe(model={"name": "resnet20", "width": 8}, optim={"lr": 0.01, **SHORT})),
    *(("graph", of) for of in GRAPH),
    ("graph", recipe(model=RESNET, precision="bf16", data={"crop": 1, "flip": True})),
    (
        "graph",
        recipe(
            model=VIT, data={"crop": 1, "flip": True}, optim={"name": "adam", "lr": 0.01, **SHORT}
        ),
    ),
]
cases = pytest.mark.parametrize(
    ("engine", "of"),
    CASES,
    ids=[f"{engine}-{of.model.name}-{of.optim.name}-{of.precision}" for engine, of in CASES],
)


def begun(of: Recipe, seed: int, engine: str, device: torch.device = CPU) -> Training:
    return Training(of, seed, load(of.data, Path("data")).to(device), device, engine)


def finished(
    engine: str, *recipes: tuple[Recipe, int], device: torch.device = CPU
) -> list[Outcome]:
    """Each engine's own way: at once, or for loop one by one."""
    trainings = [begun(of, seed, engine, device) for of, seed in recipes]
    for team in [[t] for t in trainings] if engine == "loop" else [trainings]:
        exhaust(train(team, [Memory() for _ in team], 1000))
    return [training.outcome() for training in trainings]


def same(a: Outcome, b: Outcome) -> None:
    assert torch.allclose(a.losses_T, b.losses_T, rtol=0, atol=0, equal_nan=True)
    assert a.row() == b.row()


def depends_on_no_neighbour(engine: str, of: Recipe, device: torch.device = CPU) -> None:
    by_itself = finished(engine, (of, 3), device=device)[0]
    wild = of.model_copy(update={"optim": of.optim.model_copy(update={"lr": 1e30})})
    for neighbours in ([(of, 4)], [(of, 0), (of, 1)], [(wild, 3), (of, 5), (of, 6), (of, 7)]):
        *_, last = finished(engine, *neighbours, (of, 3), device=device)
        same(last, by_itself)


def takes_the_plain_modules_step(engine: str, of: Recipe, device: torch.device = CPU) -> None:
    plain = begun(of, 1, "loop", device)
    before = {k: v.clone() for k, v in plain.network.state_dict().items()}
    stacked = ENGINES[engine]([begun(of, 0, engine, device), begun(of, 1, engine, device)])
    plain.update()
    stacked.update()
    # bf16 has 8 bits; Muon's iteration in bf16 magnifies the small directions of a gradient.
    bound = 0.15 if of.optim.name == "muon" else 0.02 if of.precision == "bf16" else 1e-5
    ends = [dict(t.network.named_parameters()) for t in (plain, stacked.members[1])]
    flat = [torch.cat([end[key].flatten() for key in end]).detach() for end in ends]
    moved = flat[0] - torch.cat([before[key].flatten() for key in ends[0]])
    assert (flat[1] - flat[0]).norm() / moved.norm() < bound


@cases
def test_a_replica_depends_on_its_neighbours_in_no_bit(engine: str, of: Recipe) -> None:
    depends_on_no_neighbour(engine, of)


@pytest.mark.parametrize("at", [0, 7, 9, 11])
def test_nor_with_two_threads(at: int) -> None:
    torch.set_num_threads(2)
    try:
        depends_on_no_neighbour(*CASES[at])
    finally:
        torch.set_num_threads(1)


@cases
def test_the_first_step_is_the_plain_modules(engine: str, of: Recipe) -> None:
    takes_the_plain_modules_step(engine, of)


@cases
def test_thirty_steps_stay_close_to_the_plain_modules(engine: str, of: Recipe) -> None:
    """Rules that act later than the first step: momentum, schedules, windows of decay."""
    plain, ours = finished("loop", (of, 1))[0], finished(engine, (of, 0), (of, 1))[1]
    rough = of.optim.name == "muon" or of.precision == "bf16"
    loose = 0.1 if rough else 2e-3
    torch.testing.assert_close(ours.losses_T, plain.losses_T, rtol=loose, atol=loose)
    assert ours.final.train_loss == pytest.approx(plain.final.train_loss, rel=loose)


def test_each_has_its_own_rates() -> None:
    first, second = BATCHED[1], BATCHED[1].model_copy(deep=True)
    fields = {"lr": 0.02, "l2": 0.1, "momentum": 0.5, "clip": 0.3, "decay_window": "0-9"}
    second = second.model_copy(update={"optim": second.optim.model_copy(update=fields)})
    assert shape(first) == shape(second) != shape(BATCHED[2])
    together = finished("batched", (first, 0), (second, 0))
    same(together[0], finished("batched", (first, 0))[0])
    same(together[1], finished("batched", (second, 0))[0])
    assert together[0].losses_T[0] == together[1].losses_T[0]
    assert together[0].losses_T[5] != together[1].losses_T[5]


@pytest.mark.parametrize("site", ["pre", "post", "last"])
def test_each_has_its_own_penalty(site: str) -> None:
    free, weak, strong = (
        PULLED.model_copy(update={"penalty": Radial(name="radial", site=site, **fields)})
        for fields in ({"strength": 0.0}, {"strength": 0.01}, {"strength": 1.0, "radius": 3.0})
    )
    without = PULLED.model_copy(update={"penalty": NoPenalty(name="none")})
    assert shape(free) == shape(strong) != shape(without)
    together = finished("batched", (free, 0), (weak, 0), (strong, 0))
    for outcome, of in zip(together, (free, weak, strong), strict=True):
        same(outcome, finished("batched", (of, 0))[0])
        plain = finished("loop", (of, 0))[0]
        torch.testing.assert_close(outcome.losses_T, plain.losses_T, rtol=1e-4, atol=1e-4)
    same(together[0], finished("batched", (without, 0))[0])
    assert not torch.allclose(together[0].losses_T, together[2].losses_T, rtol=1e-2)


@pytest.mark.parametrize("engine", ["batched", "graph"])
def test_who_ends_early_leaves_the_others_as_they_were(engine: str) -> None:
    stops = recipe(optim={"lr": 0.5, "steps": 60, "stop_loss": 1.0})
    wild = recipe(optim={"lr": 1e38, "steps": 60})
    slow = recipe(optim={"lr": 0.01, "steps": 60})
    together = finished(engine, (stops, 0), (wild, 0), (slow, 0))
    assert [o.state() for o in together] == ["undertrained", "diverged", "undertrained"]
    assert [o.steps for o in together] == [finished(engine, (stops, 0))[0].steps, 10, 60]
    for outcome, of in zip(together, (stops, wild, slow), strict=True):
        same(outcome, finished(engine, (of, 0))[0])


@cases
def test_cut_runs_are_bitwise_equal_to_uncut_ones(engine: str, of: Recipe) -> None:
    """Also when the kill fell between the checkpoints of two replicas."""
    whole = [Memory(), Memory()]
    trainings = [begun(of, 0, engine), begun(of, 1, engine)]
    exhaust(train(trainings, whole, checkpoint_every=7))
    uncut = [training.outcome() for training in trainings]
    assert sorted(whole[0].saved) == sorted(whole[1].saved) == [7, 14, 21, 28]
    for steps in ((14, 14), (21, 14)):
        cut = [Memory(), Memory()]
        for memory, kept, step in zip(cut, whole, steps, strict=True):
            memory.saved[step] = kept.saved[step]
        again = [begun(of, 0, engine), begun(of, 1, engine)]
        exhaust(train(again, cut, checkpoint_every=1000))
        for training, before in zip(again, uncut, strict=True):
            same(training.outcome(), before)


def test_a_checkpoint_holds_one_replica_and_is_of_its_engine() -> None:
    of, memory = BATCHED[1], [Memory() for _ in range(8)]
    trainings = [begun(of, seed, "batched") for seed in range(8)]
    exhaust(train(trainings, memory, checkpoint_every=29))
    one = Memory()
    exhaust(train([begun(of, 0, "batched")], [one], checkpoint_every=29))
    assert abs(len(memory[0].saved[29]) - len(one.saved[29])) < 64  # digits of the seconds
    plain = begun(of, 0, "loop")
    assert not restore(plain, one.saved[29]) and plain.step == 0


def test_what_batched_trains_not() -> None:
    plain = {"name": "transformer", "width": 12}
    data = {**MODULAR, "equals": False}
    assert PULLED.stacks and recipe(model=ODD, penalty=PENALTY).stacks
    pulled = recipe(data=data, model=plain, penalty=PENALTY)
    tied = recipe(data=data, model={**plain, "tied": True})
    text = recipe(data={"name": "text"}, model=plain)
    assert [of.unstacked for of in (pulled, tied, text, recipe(model=VIT))] == [
        "transformer with a penalty",
        "transformer with model.tied true",
        "data set that asks 64 times, as text does",
        "vit",
    ]


def test_large_networks_train_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    of = BATCHED[0]
    assert not alone(of, CPU) and alone(recipe(model={"name": "resnet9", "width": 64}), CPU)
    monkeypatch.setattr(size, "LARGE", 0)
    assert alone(of, CPU) and not alone(of, torch.device("cuda"))
    assert len(Batched([begun(of, 0, "batched")]).rows) == 1


def test_engines_agree_in_distribution() -> None:
    """Test accuracy of 48 networks by each engine, paired by seed: the mean difference is within
    four standard errors of nothing, and no more than a point."""
    of = recipe(optim={"lr": 0.2, "steps": 90})
    pairs = [(of, seed) for seed in range(48)]
    ours, theirs = (
        torch.tensor([outcome.selected.test_accuracy for outcome in finished(engine, *pairs)])
        for engine in ("batched", "loop")
    )
    apart = ours - theirs
    error = float(apart.std()) / len(pairs) ** 0.5
    assert abs(float(apart.mean())) <= max(4 * error, 1e-9) and abs(float(apart.mean())) < 1
    assert float(ours.std()) == pytest.approx(float(theirs.std()), rel=0.2)
