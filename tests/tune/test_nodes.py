"""Many nodes, with GPUs that Ray believes in: the same rows, whatever becomes of the nodes."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import ray
import torch

import initmem
from initmem.records.store import Store
from initmem.study.plan import Block
from initmem.study.spec import UserError
from initmem.training.replica import Training
from initmem.tune import nodes, trainable
from initmem.tune.block import train_team
from initmem.tune.place import Place
from initmem.tune.room import Room, fitting, share
from tests.tiny import first_cell, study
from tests.tune.driving import cluster, comparable

NODE = {"num_cpus": 2, "num_gpus": 1}
STORY = "In the beginning was the word, and it was drawn at random. " * 100
TEXT = """
recipe:
  data: {name: text, file: story, length: 8, train: 200, validation: 20, test: 20}
  model: {name: transformer, depth: 1, heads: 1, width: 8}
  init: {rule: kaiming}
  optim: {name: sgd, batch: 8, steps: 400}
  eval_every: 200
axes:
  init.scale: [1, 2]
ranges:
  optim.lr: {low: 1e-2, high: 1e-1, log: true}
seeds: 2
search: {draws: 3, lag: 2}
resources: {checkpoint_every: 100}
"""
HALVES = "resources.gpus=0.5", "resources.replicas=1"


class Simulated(Place):
    """A share of a GPU that is none: trained on the CPU."""

    def __init__(self, device: torch.device, gpus: float | None) -> None:
        super().__init__(torch.device("cpu"), gpus)

    @property
    def limit(self) -> int:
        return 2 * 10**9

    def hold(self) -> None: ...

    def peaks(self) -> dict[str, Any]:
        return {"run.gpus": self.gpus, "run.host_peak": 1, "run.gpu_peak": 10**9}


def simulate(patch: pytest.MonkeyPatch, marks: Path, too_small: bool = False) -> None:
    """Workers train on `Simulated`, and leave a file each that names node and GPU; each node has
    a data folder of its own. too_small: seed 1 runs out of memory in a share of a GPU."""
    real, place, marks = trainable.BlockTrainable, Simulated, Path(marks)

    class OnSimulatedGpus(real):  # pickled by value, with all that it names
        def setup(self, config: dict[str, Any]) -> None:
            from initmem.tune import trainable

            node = ray.get_runtime_context().get_node_id()
            gpu = os.environ["CUDA_VISIBLE_DEVICES"]
            (marks / f"{node}-{gpu}-{os.getpid()}").touch()
            while (marks / "hold").exists():
                time.sleep(0.1)
            trainable.Place = place
            small = too_small and config["share"]["GPU"] < 1
            Training.update = out_of_memory if small else update
            config = {**config, "data": str(marks / f"data-{node}")}
            self.wanted = replace(self.wanted, device="cpu")
            super().setup(config)

    update = Training.update

    def out_of_memory(self: Training) -> None:
        if self.seed == 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4 GiB. GPU 0 has")
        update(self)

    marks.mkdir()
    patch.setattr(trainable, "BlockTrainable", OnSimulatedGpus)


def wait(until: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_node_lost_and_one_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three nodes, two blocks a GPU; a text that the driver alone has."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "story").write_text(STORY)
    of = study(tmp_path, *HALVES, text=TEXT)
    initmem.run(study(tmp_path, text=TEXT), tmp_path / "one", local=True, data=tmp_path / "data")
    marks, run = tmp_path / "marks", tmp_path / "run"
    simulate(monkeypatch, marks)
    with cluster(NODE, NODE, NODE) as made, ThreadPoolExecutor(1) as pool:
        training = pool.submit(initmem.run, of, run, cluster=made.address, data=tmp_path / "data")
        lost = made.list_all_nodes()[-1]
        wait(lambda: len(list(marks.glob(f"{lost.node_id}-*"))) == 2 and Store(run).names())
        (marks / "hold").touch()  # what starts from here on waits for the node that joins
        made.remove_node(lost, allow_graceful=False)
        joined = made.add_node(**NODE)
        wait(lambda: list(marks.glob(f"{joined.node_id}-*")))
        (marks / "hold").unlink()
        summary = training.result()
    assert summary.done == summary.trained == 12 and "failed" not in summary.states
    pd.testing.assert_frame_equal(comparable(tmp_path / "one"), comparable(run), check_exact=True)
    workers = Counter(mark.name.partition("-")[0] for mark in marks.glob("*-0-*"))
    assert len(workers) == 4 and workers[lost.node_id] == 2, "two workers on a node's one GPU"
    assert {path.read_text() for path in marks.glob("data-*/story")} == {STORY}


def test_out_of_memory_is_trained_again_with_a_whole_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    initmem.run(study(tmp_path), tmp_path / "one", local=True)
    of = study(tmp_path, "resources.gpus=0.5", "resources.on_oom=grow")
    simulate(monkeypatch, tmp_path / "marks", too_small=True)
    with cluster(NODE) as made:
        initmem.run(of, tmp_path / "run", cluster=made.address)
    pd.testing.assert_frame_equal(
        comparable(tmp_path / "one"), comparable(tmp_path / "run"), check_exact=True
    )
    rows = initmem.rows(tmp_path / "run")
    assert dict(zip(rows["seed"], rows["run.gpus"], strict=True)) == {0: 0.5, 1: 1.0}
    assert len(list((tmp_path / "run" / "records").glob("*.failed"))) == 6


def test_out_of_memory_is_a_row_with_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def update(self: Training) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4 GiB. GPU 0 has 1 TB")

    monkeypatch.setattr(Training, "update", update)
    of = study(tmp_path)
    replica = first_cell(of).replicas[0]
    place = Simulated(torch.device("cpu"), 0.5)
    kept = Store(tmp_path).checkpoints_of(replica.id)
    with pytest.raises(StopIteration) as end:
        next(train_team(of, [replica], tmp_path, [kept], "loop", place))
    (row,) = end.value.value
    assert row["state"] == "failed" and row["run.gpus"] == 0.5
    assert row["error"] == (
        "OutOfMemoryError: 1.0 of 2.0 GB held (0.5 of a GPU): "
        "CUDA out of memory. Tried to allocate 4 GiB."
    )


def test_a_node_with_other_code_gets_no_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    real = trainable.BlockTrainable

    class OtherCode(real):
        """Where there are two CPUs."""

        def setup(self, config: dict[str, Any]) -> None:
            here = ray.get_runtime_context().get_node_id()
            (node,) = (n for n in ray.nodes() if n["NodeID"] == here)
            if node["Resources"]["CPU"] == 2:
                self.wanted = replace(self.wanted, versions={"initmem": "0.0 (other)"})
            super().setup(config)

    monkeypatch.setattr(trainable, "BlockTrainable", OtherCode)
    with cluster({"num_cpus": 1}, {"num_cpus": 2}) as made:
        of = study(tmp_path, "resources.replicas=1", "search.draws=2")
        assert initmem.run(of, tmp_path / "run", cluster=made.address).done == 8
        said = capfd.readouterr().err
        assert said.count("gets no work: has initmem 0.1.0 (") == 1
        assert "the driver 0.0 (other): install the same on all nodes" in said
        of = study(tmp_path, "resources.cpus=2")
        with pytest.raises(UserError, match=r"(?s)gets no work: .*no other node has room"):
            initmem.run(of, tmp_path / "none", cluster=made.address)


def test_shares_of_a_gpu(tmp_path: Path) -> None:
    of = study(tmp_path, "resources.gpus=0.25", "resources.cpus=2")
    assert share(of, "cuda") == {"CPU": 2, "GPU": 0.25}
    assert share(of, "cpu") == {"CPU": 2, "GPU": 0.0}
    assert share(study(tmp_path, "resources.device=auto"), "cuda") == {"CPU": 1, "GPU": 1.0}
    third = share(study(tmp_path, "resources.gpus=0.333"), "cuda")
    assert fitting(third, {"CPU": 8, "GPU": 2}) == 6 and third["GPU"] * 3 <= 1
    assert fitting(third, {"CPU": 8}) == 0
    block = Block(first_cell(of), 0, (), whole_gpu=True)
    assert Room("cuda", third, None, 6, True).share(block) == {"CPU": 1, "GPU": 1.0}


def test_what_a_node_lacks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "run")
    store.files.write("owner.json", b'{"host": "a", "pid": 1, "since": "x"}')
    wanted = nodes.expected(store, [], tmp_path, "cpu", several=True)
    nodes.admit(wanted, store)
    with pytest.raises(nodes.Unfit, match=r"does not see the driver's run at .*that all nodes"):
        nodes.admit(wanted, Store(tmp_path / "elsewhere"))
    with pytest.raises(nodes.Unfit, match=r"has torch .*, the driver 1\.0"):
        nodes.admit(replace(wanted, versions={"torch": "1.0"}), store)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(nodes.Unfit, match="no GPU that torch can use"):
        nodes.admit(replace(wanted, device="cuda"), store)
    section = first_cell(study(tmp_path)).replicas[0].recipe.data
    nodes.provide(wanted, section, tmp_path)
    with pytest.raises(nodes.Unfit, match=r"makes other data of digits: .*, the driver 00"):
        nodes.provide(replace(wanted, hashes={section: "00"}), section, tmp_path)
