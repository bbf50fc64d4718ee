"""The benchmark of speed: its peers train what initmem trains, and its clock sees children."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks.speed import gates, goals, kernels, peers, timing, variants, whole_study
from benchmarks.speed.workloads import NAMED, WORKLOADS, Workload
from initmem.tune.process import arithmetic

named = pytest.mark.parametrize("work", WORKLOADS, ids=lambda work: work.name)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with arithmetic(1, deterministic=False):
        yield


@named
def test_all_take_the_step_of_the_naive_loop(work: Workload) -> None:
    found = gates.gaps(work.tiny())
    assert set(found) >= {"naive_loop float32", "vmap float32", "ours float32", "ours bf16"}
    assert max(gap.step for name, gap in found.items() if "float32" in name) < 2e-5


@named
def test_all_train_on(work: Workload) -> None:
    """Through the end of an epoch, and the networks of a batched peer are not the same."""
    for name, variant in variants.variants(work.tiny()).items():
        peer = variant(work.tiny(), "float32")
        peer.steps(5)
        flat = [torch.cat([p.flatten() for p in of.values()]) for of in peer.weights()]
        assert all(of.isfinite().all() for of in flat), name
        assert len({float(of.detach().norm()) for of in flat}) == peer.networks, name


def test_a_gate_finds_a_missing_penalty(monkeypatch: pytest.MonkeyPatch) -> None:
    without = {**NAMED["MLP 64-32-10 b128"].optim, "l2": 0.0}

    def wrong(work: Workload, precision: str) -> peers.Peer:
        return peers.preloaded(dataclasses.replace(work, optim=without), precision)

    monkeypatch.setattr(gates, "variants", lambda work: {"wrong": wrong})
    with pytest.raises(AssertionError, match="MLP 64-32-10 b128: wrong float32 is not"):
        gates.gaps(NAMED["MLP 64-32-10 b128"])


def test_orders_are_shuffles() -> None:
    work = NAMED["MLP 64-32-10 b128"].tiny()
    batches = [next(found) for found in [peers.orders(work, 3)] for _ in range(4)]
    epoch_RN = torch.cat(batches, dim=1)
    assert (epoch_RN.sort(dim=1).values == torch.arange(work.images)).all()
    assert not (epoch_RN[0] == epoch_RN[1]).all()


def test_rounds_take_turns() -> None:
    calls: list[str] = []

    def of(name: str) -> timing.Clock:
        return lambda n: calls.append(name) or 1.0

    found = timing.interleaved({"a": of("a"), "b": of("b")}, {"a": 1, "b": 2}, rounds=3)
    assert "".join(calls) == "abbaab" and all(len(times) == 3 for times in found.values())


def test_a_table_and_its_goals() -> None:
    work = NAMED["ResNet-9 w8 16x16 b128"]
    of = kernels.measure(work, rounds=2, least=0.0, tiny=True)
    lines = [*kernels.table(of), *kernels.notes(of)]
    assert len([line for line in lines if line.startswith("| ")]) == 1 + len(of.seconds)
    assert any("vmap does not run in bf16" in line for line in lines)
    kept = goals.verdicts({work.name: of}, None)
    measured = [verdict.goal.against for verdict in kept if verdict.found]
    assert measured == ["naive_loop", "vmap", "hfta_like"]
    rows = list(goals.table(kept))
    assert len(rows) == 2 + len(kept)
    assert sum("no GPU here: not measured" in row for row in rows) == len(kept) - len(measured)


def test_cpu_seconds_are_those_of_children_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    burn = "import time\nwhile time.process_time() < 0.7: pass"
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])\n{burn}"
    (tmp_path / "burning.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = whole_study.spent(["burning"])
    assert 0.9 < found.cpu_s < 1.8 and found.wall_s > 0.6
    with pytest.raises(subprocess.CalledProcessError):
        whole_study.spent(["no_such_module_at_all"])
