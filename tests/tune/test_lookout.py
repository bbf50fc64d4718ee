"""Lost workers: a block goes to another, until one replica has cost too many."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import initmem
from initmem.records.store import Store
from initmem.records.tally import Tally
from initmem.search.agenda import Agenda
from initmem.study.spec import UserError
from initmem.tune.block import train_block
from initmem.tune.place import here
from initmem.tune.room import Room
from initmem.tune.searcher import AgendaSearcher, Lookout, Refusals
from initmem.tune.watch import Watch
from tests.tiny import exhaust, study

ROOM = Room("cpu", {"CPU": 1, "GPU": 0.0}, 1, 1, False)

ERRORS = """Failure # 1 (occurred at 2026-01-01_00-00-00)
an older one
Failure # 2 (occurred at 2026-01-01_00-00-01)
The actor died unexpectedly.
\tmore about it
"""


def test_a_replica_that_costs_too_many_workers_is_failed_and_its_block_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = study(tmp_path, "resources.retries=1")
    store = Store(tmp_path / "run")
    store.create(of)
    (tmp_path / "error.txt").write_text(ERRORS)
    agenda = Agenda(of, store.cell, {})
    refusals = Refusals(ROOM.each, print)
    searcher = AgendaSearcher(agenda, store.address, tmp_path, ROOM, refusals)
    searcher.suggest("t1")
    block = searcher.blocks["t1"]
    lookout = Lookout(Watch(Tally(store, of), agenda), searcher, of.resources.retries)
    trial = SimpleNamespace(trial_id="t1", error_file=str(tmp_path / "error.txt"))

    lookout.on_trial_recover(1, [], trial)
    first, second = block.replicas[:2]
    store.checkpoints_of(first.id).save(7, b"got on")
    lookout.on_trial_recover(2, [], trial)
    assert store.rows() == [], "it got to another checkpoint in between"
    lookout.on_trial_recover(3, [], trial)
    said = capsys.readouterr().err
    assert said.count("worker lost once, given to another: The actor died unexpectedly.") == 2
    why = "worker lost 2 times: The actor died unexpectedly."
    assert [(r["replica"], r["state"], r["error"]) for r in store.rows()] == [
        (first.id, "failed", why)
    ]
    lookout.on_trial_recover(4, [], trial)
    assert f"{second.id}: worker lost once" in capsys.readouterr().err

    exhaust(train_block(of, block, Store(store.address), tmp_path, here(of)))
    states = {row["replica"]: row["state"] for row in Store(store.address).rows()}
    assert set(states) == {replica.id for replica in block.replicas}
    assert [name for name, state in states.items() if state == "failed"] == [first.id]


def test_a_block_that_tune_gives_up_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error that names one worker twice is one loss."""
    of = study(tmp_path, "search.draws=1", "resources.retries=1")
    store = Store(tmp_path / "run")
    store.create(of)
    gone = f"Failure # 1 (occurred at 2026)\nThe actor {'0af7' * 8} is unavailable\n"
    (tmp_path / "error.txt").write_text(gone)
    agenda = Agenda(of, store.cell, {})
    searcher = AgendaSearcher(agenda, store.address, tmp_path, ROOM, Refusals(ROOM.each, print))
    lookout = Lookout(Watch(Tally(store, of), agenda), searcher, of.resources.retries)
    trial = SimpleNamespace(trial_id="t1", error_file=str(tmp_path / "error.txt"))
    assert searcher.suggest("t1")["block"] == 0
    lookout.on_trial_recover(1, [], trial)
    searcher.on_trial_complete("t1", error=True)
    assert searcher.suggest("t2") is None, "the block is not lost, and not all is done"
    lookout.on_trial_error(1, [], trial)
    assert capsys.readouterr().err.count("worker lost once") == 1
    assert searcher.suggest("t3")["block"] == 0 and searcher.suggest("t4") is None
    searcher.on_trial_complete("t3", {"done": True})
    assert searcher.suggest("t5") == AgendaSearcher.FINISHED and store.rows() == []


def test_what_no_worker_can_mend_ends_the_run() -> None:
    refusals = Refusals(ROOM.each, print)
    assert not refusals("t1", {"done": True}) and not refusals.stop_all()
    assert not refusals("t1", {"done": True, "refused": "disk full"}) and refusals.stop_all()
    refusals("t2", {"refused": "another"})
    assert refusals.first == "disk full"


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:99999", "nowhere.invalid:6379"])
def test_a_cluster_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(UserError, match=f"--address: {address}: no head answers .*; start Ray"):
        initmem.run(study(tmp_path), tmp_path / "run")
    assert Store(tmp_path / "run").rows() == []
