"""On a GPU: the bits that the tests of the loop hold on a CPU. `python -m benchmarks.gpu_check`
holds the same, and whole studies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import initmem
from initmem.data.load import load
from initmem.study.recipe import Recipe, variants
from initmem.training.loop import train
from initmem.training.replica import Training
from initmem.tune.place import Place
from initmem.tune.process import arithmetic
from tests.tiny import Memory, exhaust, recipe, study
from tests.training.test_engines import (
    cases as engines,
)
from tests.training.test_engines import (
    depends_on_no_neighbour,
    takes_the_plain_modules_step,
)
from tests.training.test_loop import CUT

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use")

WIDE = recipe(model={"name": "resnet9", "width": 8},
              optim={"name": "momentum", "lr": 0.05, "batch": 20, "steps": 30,
                     "schedule": "cosine"})  # fmt: skip
HEADS = {"name": "heads", "n": 5, "strength": 0.5, "control": 2}
HEADED = recipe(model={"name": "resnet9", "width": 8}, random_labels=HEADS)
BUILT = [recipe(model={"name": name, "width": 4}, init={"rule": rule})
         for name in sorted(n for n, v in variants("model").items() if v.kind == "image")
         for rule in sorted(set(variants("init")) - {"diagonal", "planted"})
         ] + [CUT[4]]  # fmt: skip


def begun(of: Recipe, device: str) -> Training:
    return Training(of, 0, load(of.data, Path("data")).to(device), torch.device(device))


def trained(of: Recipe, device: str, checkpoints: Memory) -> Training:
    training = begun(of, device)
    exhaust(train([training], [checkpoints], checkpoint_every=7))
    return training


def weights(training: Training) -> dict[str, bytes]:
    state = training.network.state_dict()
    return {name: bytes(weight.cpu().numpy()) for name, weight in state.items()}


def cut_equals_uncut(of: Recipe, device: str) -> None:
    """Step 14 lies in the middle of an epoch and of an evaluation interval."""
    whole, cut = Memory(), Memory()
    uncut = trained(of, device, whole)
    cut.saved[14] = whole.saved[14]
    again = trained(of, device, cut)
    assert weights(again) == weights(uncut)
    assert torch.equal(again.losses_T, uncut.losses_T) and again.curve == uncut.curve
    counters = [state.get("step") for o in again.stepper.optimizers for state in o.state.values()]
    assert {c.device.type for c in counters if c is not None} <= {"cpu"}, "read once a step"


def starts_as_on_a_cpu(of: Recipe, device: str) -> None:
    ours, cpu = begun(of, device), begun(of, "cpu")
    assert weights(ours) == weights(cpu) and ours.audit == cpu.audit


@pytest.fixture
def deterministic() -> Iterator[None]:
    with arithmetic(threads=1, deterministic=True):
        yield


@pytest.mark.parametrize(
    "of", [*CUT, WIDE, HEADED], ids=lambda r: f"{r.model.name}-{r.optim.name}"
)
def test_cut_runs_are_bitwise_equal_to_uncut_ones(of: Recipe, deterministic: None) -> None:
    cut_equals_uncut(of, "cuda")


@engines
def test_a_replica_depends_on_its_neighbours_in_no_bit(
    engine: str, of: Recipe, deterministic: None
) -> None:
    depends_on_no_neighbour(engine, of, torch.device("cuda"))


@engines
def test_the_first_step_is_the_plain_modules(engine: str, of: Recipe) -> None:
    takes_the_plain_modules_step(engine, of, torch.device("cuda"))


@pytest.mark.parametrize("of", BUILT, ids=lambda r: f"{r.model.name}-{r.init.rule}")
def test_networks_start_as_on_a_cpu(of: Recipe) -> None:
    starts_as_on_a_cpu(of, "cuda")


def test_the_generator_of_the_gpu_is_left_alone() -> None:
    before = torch.cuda.get_rng_state()
    trained(WIDE, "cuda", Memory())
    assert torch.equal(torch.cuda.get_rng_state(), before)


def test_deterministic_holds_for_its_study_alone(tmp_path: Path) -> None:
    for value in (True, False):
        of = study(tmp_path, "resources.device=cuda", f"resources.deterministic={value}")
        initmem.run(of, tmp_path / str(value), local=True)
        assert torch.are_deterministic_algorithms_enabled() is value
        rows = initmem.rows(tmp_path / str(value))
        assert set(rows["deterministic"]) == {value}
        assert set(rows["device"]) == {torch.cuda.get_device_name()}


def test_a_block_is_measured_and_fits_its_share(tmp_path: Path) -> None:
    from initmem.tune.fit import fitting, measure

    of = study(tmp_path, "resources.device=cuda", "model={name: resnet9, width: 8}")
    found = measure(of, Path("data"))
    assert found.gpu == torch.cuda.get_device_name() and found.seconds > 0
    assert found.total == torch.cuda.mem_get_info()[1]
    parameters = 4 * sum(p.numel() for p in begun(WIDE, "cpu").network.parameters())
    assert parameters < found.held < found.block < found.total
    assert fitting(found.block, found.total) >= 1


def test_a_share_of_a_gpus_memory_is_no_more_than_that() -> None:
    place = Place(torch.device("cuda"), 0.1)
    place.hold()
    assert place.limit
    try:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(place.limit + 2**28, dtype=torch.uint8, device=place.device)
        torch.empty(place.limit // 2, dtype=torch.uint8, device=place.device)
        assert place.limit // 2 <= place.peaks()["run.gpu_peak"] <= place.limit
    finally:
        Place(place.device, 1.0).hold()
