"""Counts of rows: each record is read once, and nothing of it is kept."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from initmem.records import store as store_module
from initmem.records.store import Store
from initmem.records.tally import Tally
from initmem.study.plan import Cell, arms, cell
from initmem.study.spec import Study
from tests.records.test_store import row
from tests.tiny import study


def drawn(of: Study, draw: int) -> Cell:
    return cell(of, arms(of)[0], draw, {"optim.lr": 0.01 * (draw + 1), "optim.l2": 0.01})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    of = study(tmp_path)
    made = Store(tmp_path / "run")
    made.create(of)
    for draw in (0, 1):
        for replica in drawn(of, draw).replicas:
            made.put(row(replica, **{"run.repeated_steps": 7 * draw}))
    return made


def test_a_record_is_read_once_and_counted_once(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, read = store.open(), Counter[str]()
    other = Store(store.address)
    whole = other.files.read

    def counted(name: str) -> bytes | None:
        read[name] += 1
        return whole(name)

    monkeypatch.setattr(other.files, "read", counted)
    tally = Tally(other, of)
    assert len(list(tally.news())) == 8 and list(tally.news()) == []
    assert tally.states() == {"interpolated": 8} and tally.total(tally.fresh) == 0
    for replica in drawn(of, 2).replicas:
        store.put(row(replica, state="plateaued"))
    assert len(tally.cell(drawn(of, 2)) or ()) == 4
    tally.look()
    assert tally.states() == {"interpolated": 8, "plateaued": 4}
    assert tally.total(tally.fresh) == 4 and tally.total(tally.repeated) == 28
    arm = arms(of)[0].id
    assert tally.states({arm: 1}) == {"interpolated": 4}
    assert tally.total(tally.repeated, {arm: 1}) == 0 and tally.total(tally.fresh, {arm: 2}) == 0
    assert set(read.values()) == {1}


def test_a_forgotten_row_counts_no_more_until_it_is_trained_again(store: Store) -> None:
    of = store.open()
    tally = Tally(store, of)
    tally.look()
    one = drawn(of, 1).replicas[0]
    tally.forget(one.id)
    assert store.done(one) is None and tally.states() == {"interpolated": 7}
    assert tally.total(tally.repeated) == 21
    store.put(row(one, state="diverged"))
    tally.look()
    assert tally.states() == {"interpolated": 7, "diverged": 1}
    assert tally.total(tally.fresh) == 1
    tally.forget(one.id)
    assert tally.total(tally.fresh) == 0 and tally.states() == {"interpolated": 7}


def test_rows_of_other_studies_are_seen_and_not_counted(tmp_path: Path, store: Store) -> None:
    fewer = study(tmp_path, "seeds=1", "search.draws=1")
    tally = Tally(store, fewer)
    assert len(list(tally.news())) == 8 and tally.states() == {"interpolated": 2}


def test_a_store_keeps_the_last_rows_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "RECENT", 3)
    other = Store(store.address)
    rows = other.rows()
    assert len(rows) == 8 and len(other._recent) == 3 and other.rows() == rows
