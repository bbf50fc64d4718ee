"""Probes leave training as it is, to the bit, and are read when they should be. What each of them
says is in test_probe_values.py."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from initmem.data.load import load
from initmem.records.rows import complete, from_text, to_text
from initmem.study import size
from initmem.study.plan import Replica
from initmem.study.recipe import Recipe
from initmem.training.batched import Batched
from initmem.training.checkpoint import unpack
from initmem.training.loop import train
from initmem.training.outcome import Outcome
from initmem.training.probes import PROBES as READERS
from initmem.training.probes import curvature, read
from initmem.training.probes.weights import packed_cosines
from initmem.training.replica import Training
from initmem.training.resume import packed
from initmem.tune.block import head
from tests.tiny import Memory, exhaust, first_cell, recipe, study

PROBES = READERS.keys() - {"random_labels", "features"}
"""Those that are switches of the section `probes`, but for that of planted features, which
test_online.py looks at."""
CPU = torch.device("cpu")
MODULAR = {"name": "modular", "p": 7}
FORMER = {"name": "transformer", "width": 12}
MLP = recipe(model={"depth": 2})
TOKENS = recipe(data=MODULAR, model={"name": "token_mlp", "embedding": 4, "width": 8},
                penalty={"name": "radial"}, optim={"steps": 10, "batch": 8})  # fmt: skip
ATTENTION = recipe(data=MODULAR, model=FORMER, optim={"name": "adamw", "lr": 0.01, "steps": 20,
                   "batch": 8})  # fmt: skip
VIT = recipe(model={"name": "vit", "width": 8, "depth": 2}, optim={"steps": 10})
RESNET = recipe(model={"name": "resnet9", "width": 8}, optim={"steps": 10})
CASES = [
    ("loop", MLP, {"sink"}),
    ("loop", TOKENS, {"sink"}),
    ("loop", ATTENTION, {"radial_share"}),
    ("loop", RESNET, {"sink", "radial_share", "hessian"}),
    ("batched", MLP, {"sink"}),
    ("batched", ATTENTION, {"radial_share"}),
    ("loop", VIT, {"sink"}),
]


def some(first: int, end: int) -> pytest.MarkDecorator:
    chosen = CASES[first:end]
    names = [f"{engine}-{of.model.name}" for engine, of, _ in chosen]
    return pytest.mark.parametrize(("engine", "of", "without"), chosen, ids=names)


@pytest.fixture(autouse=True)
def _few_products(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setattr(curvature, "VECTORS", 3)
    monkeypatch.setattr(curvature, "TOLERANCE", 0.1)


def probed(of: Recipe, without: set[str] = frozenset(), **more: Any) -> Recipe:
    switches = dict.fromkeys(PROBES - without, True)
    return Recipe.model_validate({**of.model_dump(), "probes": switches | more})


def begun(of: Recipe, engine: str = "loop", seed: int = 0) -> Training:
    return Training(of, seed, load(of.data, Path("data")), CPU, engine)


def finished(of: Recipe, engine: str, *memories: Memory, checkpoint_every: int = 7) -> Outcome:
    """Of two in a stack, the last."""
    count = 1 if engine == "loop" else 2
    trainings = [begun(of, engine, seed) for seed in range(count)]
    places = memories or [Memory() for _ in trainings]
    exhaust(train(trainings, places, checkpoint_every))
    assert all(0 <= t.probing <= t.seconds for t in trainings)
    return trainings[-1].outcome()


def text(outcome: Outcome) -> str:
    return json.dumps({**outcome.row(), "cosines": (outcome.cosines or b"").hex()}, default=repr)


@some(0, 7)
def test_with_and_without_probes_all_else_is_equal(
    engine: str, of: Recipe, without: set[str]
) -> None:
    plain, seen = finished(of, engine), finished(probed(of, without, every=8), engine)
    assert not plain.readings and plain.cosines is None and seen.cosines
    assert {reading["probe"] for reading in seen.readings} == PROBES - without
    assert torch.equal(plain.losses_T, seen.losses_T)
    ours, theirs = seen.row(), plain.row()
    assert {name for name in ours if ours[name] != theirs[name]} == {"readings", "cosines"}


@some(1, 5)
def test_killed_and_resumed_readings_are_those_of_a_whole_run(
    engine: str, of: Recipe, without: set[str]
) -> None:
    of = probed(of, without, every=8)
    whole = [Memory() for _ in range(1 if engine == "loop" else 2)]
    uncut = finished(of, engine, *whole, checkpoint_every=8)
    cut = [Memory() for _ in whole]
    for memory, kept in zip(cut, whole, strict=True):
        memory.saved[8] = kept.saved[8]
        state = unpack(kept.saved[8])
        assert 0 < state["probing"] < state["seconds"]
    assert text(finished(of, engine, *cut)) == text(uncut)


@some(0, 4)
def test_a_reading_changes_nothing(engine: str, of: Recipe, without: set[str]) -> None:
    training = begun(probed(of, without))
    for _ in range(2):
        training.update()
    numpys, torchs = np.random.get_state()[1].tolist(), torch.get_rng_state()
    hooks = [len(m._forward_hooks) for m in training.network.modules()]
    before = packed(training)
    for mode in (True, False):
        training.network.train(mode)
        assert read(training) == read(training), "what is random depends on the seed alone"
        assert {m.training for m in training.network.modules()} == {mode}
    assert packed(training) == before
    assert all(p.grad is None and p.requires_grad for p in training.network.parameters())
    assert hooks == [len(m._forward_hooks) for m in training.network.modules()]
    assert not training.penalty.seen
    assert np.random.get_state()[1].tolist() == numpys
    assert torch.equal(torch.get_rng_state(), torchs)


@pytest.mark.parametrize(
    ("every", "optim", "steps"),
    [
        (None, {"steps": 30}, [0, 10, 20, 30]),
        (None, {"steps": 25}, [0, 10, 20, 25]),
        (4, {"steps": 9}, [0, 4, 8, 9]),
        (100, {"steps": 30}, [0, 30]),
        (15, {"steps": 30, "stop_loss": 2.5}, [0, 10]),
    ],
)
def test_steps_of_the_readings(every: int | None, optim: dict[str, Any], steps: list[int]) -> None:
    of = recipe(optim=optim, probes={"radius": True, "groups": True, "every": every})
    readings = finished(of, "loop").readings
    assert [r["step"] for r in readings if r["quantity"] == "weight_norm"] == steps
    assert len(readings) == 5 * len(steps)
    if "stop_loss" not in optim:
        assert size.readings(of) == (len(steps), 5)
    assert finished(recipe(probes={"every": 4}), "loop").readings == []


def test_seconds_of_probes_are_counted_once_and_with_those_who_took_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a clock that stands still but for a step of the stack (2 s) and a probe (5 s)."""
    now, step = [0.0], Batched.update

    def passes(seconds: float) -> dict[tuple[str, str], float]:
        now[0] += seconds
        return {("a", "b"): 1.0}

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setitem(READERS, "radius", lambda training: passes(5))
    monkeypatch.setattr(Batched, "update", lambda self: passes(2) and step(self))
    ofs = recipe(), recipe(probes={"radius": True})
    trainings = [Training(of, 0, load(of.data, Path("data")), CPU, "batched") for of in ofs]
    memories = [Memory(), Memory()]
    exhaust(train(trainings, memories, checkpoint_every=7))
    assert [(t.probing, t.seconds) for t in trainings] == [(0, 30), (20, 50)]
    states = [unpack(memory.saved[14]) for memory in memories]
    assert [(s["probing"], s["seconds"]) for s in states] == [(0, 14), (10, 24)]


def test_what_does_not_exist_is_null() -> None:
    diverged = finished(probed(recipe(optim={"lr": 1e38}), {"sink"}, every=1), "loop").row()
    assert diverged["state"] == "diverged" and diverged["cosines"] is None
    at = {step: [r["value"] for r in diverged["readings"] if r["step"] == step] for step in (0, 9)}
    assert len(at[0]) == len(at[9]) and None not in at[0]
    assert [r["quantity"] for r in diverged["readings"] if r["step"] == 9 if r["value"] is not None
            ] == ["accuracy"]  # fmt: skip


def test_a_row_keeps_readings_and_the_final_cosines(tmp_path: Path) -> None:
    of = probed(recipe(optim={"lr": 0.3, "steps": 60}), {"sink"})
    training = begun(of)
    exhaust(train([training], [Memory()], 1000))
    final = packed_cosines(training.network)
    outcome = training.outcome()
    assert outcome.selected.step < outcome.final.step, "the network is the selected one"
    assert outcome.cosines == final != packed_cosines(training.network)
    replica: Replica = first_cell(study(tmp_path)).replicas[0]
    row = complete({**head(study(tmp_path), replica), **outcome.row()})
    back = from_text(to_text(row))
    assert back["readings"] == row["readings"] and back["cosines"] == final
    norm = [r["value"] for r in back["readings"] if r["quantity"] == "weight_norm"]
    norms = next(n for n in back["norms"] if n["group"] == "all")
    assert [norm[0], norm[-1]] == pytest.approx([norms["initial"], norms["final"]], rel=1e-12)
    groups = [r["value"] for r in back["readings"] if r["probe"] == "groups" and r["step"]]
    curve = [(p["validation_loss"], p["validation_accuracy"]) for p in back["curve"]]
    assert groups == pytest.approx([value for point in curve for value in point])
    losses = [r["value"] for r in back["readings"] if r["probe"] == "hessian"
              if r["quantity"] == "loss" and r["step"]]  # fmt: skip
    assert losses == pytest.approx([p["train_loss"] for p in back["curve"]])


@pytest.mark.parametrize(
    ("of", "without"), [(MLP, {"sink"}), (TOKENS, {"sink"}), (RESNET, {"sink", "radial_share"}),
                        (VIT, {"sink"}), (ATTENTION, {"radius", "radial_share", "rank"})]
)  # fmt: skip
def test_the_plan_knows_how_many_numbers_are_read(of: Recipe, without: set[str]) -> None:
    of = probed(of, without)
    training, times = begun(of), 1 + of.total_steps // of.evaluation_interval
    assert size.readings(of) == (times, len(read(training)))


def test_a_reading_is_about_as_large_as_told() -> None:
    training = begun(probed(TOKENS, {"sink", "hessian"}))
    bare = len(packed(training))
    for training.step in range(0, 1000, 100):
        training.readings += read(training)
    training.step, count = 0, len(training.readings)
    each = (len(packed(training)) - bare) / count
    assert each == pytest.approx(size.PACKED_READING_BYTES, rel=0.2)
    written = len(json.dumps(training.readings, separators=(",", ":"))) / count
    assert written == pytest.approx(size.READING_BYTES, rel=0.2)


@pytest.mark.parametrize("name", ["radial_share", "sink"])
def test_probes_of_what_the_network_lacks_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"resnet9 has no (pre-activations|attention)"):
        probed(RESNET, PROBES - {name})


def test_the_sink_of_a_vit_is_refused() -> None:
    with pytest.raises(ValueError, match="reads causal attention, vit has none"):
        probed(VIT)
