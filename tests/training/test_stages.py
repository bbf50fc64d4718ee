"""Two trainings of one network: what the second begins with, and that a run cut in either stage
equals one that was never cut."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from initmem.records.meter import Meter
from initmem.study.recipe import Recipe
from initmem.training.loop import train
from initmem.training.outcome import Outcome
from initmem.training.replica import Training
from initmem.training.resume import follow
from initmem.training.stages import Stages, begin, train_stages
from tests.tiny import Memory, exhaust, recipe

CPU, FOLDER = torch.device("cpu"), Path("data")
FIRST = {"name": "stage", "classes": "rest", "train": 90, "steps": 20, "lr": 0.05}
IMAGES = {"data": {"name": "digits", "classes": "7-9", "train": 40, "validation": 30}}
MLP = recipe(**IMAGES, optim={"name": "momentum", "lr": 0.1, "batch": 20, "steps": 30},
             pretrain=FIRST)  # fmt: skip
RESNET = recipe(**IMAGES, model={"name": "resnet9", "width": 8}, pretrain=FIRST)
TOKENS = recipe(
    data={"name": "modular", "p": 7},
    model={"name": "transformer", "width": 12},
    optim={"name": "adamw", "lr": 0.01, "batch": 9, "steps": 30},
    pretrain={"name": "stage", "operation": "subtract", "steps": 20},
)
CASES = [("loop", MLP), ("loop", RESNET), ("batched", MLP), ("batched", TOKENS), ("graph", MLP)]


class Counted(Memory):
    """Keeps its meter, as a folder does."""

    def __init__(self, *saved: tuple[int, bytes]) -> None:
        super().__init__()
        self.saved, self.counts = dict(saved), Meter(None)

    def meter(self) -> Meter:
        return self.counts


def begun(of: Recipe, engine: str = "loop", seeds: Sequence[int] = (0,)) -> Stages:
    torch.set_num_threads(1)
    return begin([(of, seed) for seed in seeds], FOLDER, CPU, engine)


def finish(of: Recipe, engine: str, checkpoints: Sequence[Memory]) -> list[Outcome]:
    stages = begun(of, engine, range(len(checkpoints)))
    exhaust(train_stages(stages, checkpoints, checkpoint_every=7))
    return [training.outcome() for training in stages[-1]]


def same(a: Outcome, b: Outcome) -> None:
    assert torch.equal(a.losses_T, b.losses_T)
    assert a.row() == b.row()


def weights(of: Training) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in of.network.state_dict().items()}


@pytest.mark.parametrize(("engine", "of"), CASES, ids=[f"{e}-{r.model.name}" for e, r in CASES])
def test_cut_runs_are_bitwise_equal_to_uncut_ones(engine: str, of: Recipe) -> None:
    """Steps 7 and 14 lie in the first stage, 20 to 48 are steps 0 to 28 of the second."""
    count = 1 if engine == "loop" else 2
    whole = [Counted() for _ in range(count)]
    uncut = finish(of, engine, whole)
    assert sorted(whole[0].saved) == [7, 14, 20, 27, 34, 41, 48]
    assert (whole[0].counts.furthest, whole[0].counts.resumed) == (50, 0)
    for step in (14, 20, 41):
        cut = [Counted((step, one.saved[step])) for one in whole]
        for a, b in zip(finish(of, engine, cut), uncut, strict=True):
            same(a, b)
        assert all(one.counts.resumed == 1 and one.counts.furthest == 50 for one in cut)
        assert min(cut[0].saved) == step, "a stage that is done is not trained again"


def test_replicas_of_a_team_go_on_from_different_stages() -> None:
    whole = [Memory(), Memory()]
    uncut = finish(MLP, "batched", whole)
    cut = [Counted((7, whole[0].saved[7])), Counted((34, whole[1].saved[34]))]
    for a, b in zip(finish(MLP, "batched", cut), uncut, strict=True):
        same(a, b)


def test_checkpoints_of_other_recipes_are_of_neither_stage() -> None:
    whole = Memory()
    finish(MLP, "loop", [whole])
    longer = recipe(**IMAGES, pretrain={**FIRST, "steps": 21})
    for step in (14, 41):
        cut = Counted((step, whole.saved[step]))
        same(finish(longer, "loop", [cut])[0], finish(longer, "loop", [Memory()])[0])
        assert cut.counts.resumed == 0


@pytest.mark.parametrize("of", [MLP, RESNET, TOKENS], ids=lambda r: r.model.name)
def test_the_second_training_begins_with_all_of_the_first_but_the_readout(of: Recipe) -> None:
    stages = begun(of)
    [first], [second] = stages
    drawn = weights(second)
    exhaust(train([first], [Memory()], 1000))
    ended = weights(first)
    follow(second, first)
    for name, value in weights(second).items():
        head = name.startswith("head")
        assert torch.equal(value, drawn[name] if head else ended[name]), name
    assert second.network.get_parameter("head.weight").shape[0] == second.data.classes
    exhaust(train([second], [Memory()], 1000))
    at_once = begun(of)
    exhaust(train_stages(at_once, [Memory()], 1000))
    assert torch.equal(second.losses_T, at_once[-1][0].losses_T)


def test_the_first_training_is_what_its_recipe_gives_alone() -> None:
    outcome = finish(MLP, "loop", [Memory()])[0]
    alone = recipe(
        data={"name": "digits", "classes": "0-6", "train": 90, "validation": 30},
        optim={"name": "momentum", "lr": 0.05, "batch": 20, "steps": 20},
    )
    assert MLP.pretraining == alone.model_copy(update={"data": MLP.pretraining.data})
    assert MLP.pretraining.data.labels() == alone.data.labels()
    row, [[plain]] = outcome.row(), begun(alone)
    exhaust(train([plain], [Memory()], 1000))
    last = plain.curve[-1]
    assert row["first.steps"] == 20 and row["steps"] == 30
    assert row["first.train_accuracy"] == last["train_accuracy"]
    assert row["first.validation_loss"] == last["validation_loss"]
    assert row["first.state"] == plain.outcome().row()["state"]


def test_norms_are_measured_from_the_first_initialization() -> None:
    [[first], [second]] = stages = begun(MLP)
    stem, head = first.start["stem.weight"].clone(), second.start["head.weight"].clone()
    exhaust(train_stages(stages, [Memory()], 1000))
    ended = weights(second)
    norms: dict[str, Any] = {n["group"]: n for n in second.outcome().norms}
    for group, start in (("stem", stem), ("head", head)):
        end = ended[f"{group}.weight"]
        assert norms[group]["initial"] == pytest.approx(start.norm().item())
        far = ((end - start).norm() / start.norm()).item()
        assert norms[group]["distance"] == pytest.approx(far, rel=1e-5)


def test_inputs_are_standardized_as_those_of_the_first_training() -> None:
    [[first], [second]] = begun(MLP)
    assert torch.equal(first.data.mean, second.data.mean)
    assert torch.equal(first.data.sd, second.data.sd)
    assert first.data.hash != second.data.hash


@pytest.mark.parametrize("engine", ["loop", "batched"])
def test_who_diverges_in_the_first_training_ends_there(engine: str) -> None:
    kept = [Memory(), Memory()]
    wild = MLP.model_copy(update={"pretrain": MLP.pretrain.model_copy(update={"lr": 1e38})})
    torch.set_num_threads(1)
    replicas = [(wild, 0), (MLP, 1)] if engine == "batched" else [(wild, 0)]
    stages = begin(replicas, FOLDER, CPU, engine)
    exhaust(train_stages(stages, kept[: len(replicas)], checkpoint_every=7))
    row = stages[-1][0].outcome().row()
    assert (row["state"], row["first.state"], row["steps"]) == ("diverged", "diverged", 0)
    assert 1 <= row["diverged_step"] <= row["first.steps"] == 10
    assert row["curve"] == [] and "selected.test_accuracy" not in row
    if engine == "batched":
        same(stages[-1][1].outcome(), finish(MLP, "batched", [Memory(), Memory()])[1])


def test_a_first_training_that_stops_early_is_numbered_as_one_that_did_not() -> None:
    early = MLP.model_copy(update={"pretrain": MLP.pretrain.model_copy(update={"stop_loss": 9.0})})
    kept = Counted()
    outcome = finish(early, "loop", [kept])[0]
    assert outcome.row()["first.steps"] == 10
    assert sorted(kept.saved) == [7, 20, 27, 34, 41, 48] and kept.counts.repeated == 0
