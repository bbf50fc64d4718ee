"""Records survive, damage is found, and tables have the declared columns."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from initmem.records import rows as row_module
from initmem.records.checkpoints import Checkpoints
from initmem.records.files import LocalFiles, seal, unseal
from initmem.records.rows import SCHEMA, complete, from_text, to_text
from initmem.records.store import Store
from initmem.study.plan import Replica
from initmem.study.recipe import flatten
from initmem.study.spec import Study, UserError
from tests.tiny import first_cell, study


def row(replica: Replica, **more: object) -> dict[str, object]:
    return complete(
        {
            "study": "tiny", "arm": replica.arm, "cell": replica.cell, "draw": replica.draw,
            "replica": replica.id, "seed": replica.seed, "memory_axis": "init.scale",
            **flatten(replica.recipe), "state": "interpolated",
            "selected.test_accuracy": 0.1 + 0.2, "selected.test_predictions": bytes(range(256)),
            "curve": [{"step": 1, "train_accuracy": 1 / 3}], **more,
        }
    )  # fmt: skip


@pytest.fixture
def of(tmp_path: Path) -> Study:
    return study(tmp_path)


@pytest.fixture
def store(tmp_path: Path, of: Study) -> Store:
    made = Store(tmp_path / "run")
    made.create(of)
    for replica in first_cell(of).replicas:
        made.put(row(replica))
    return made


def test_a_row_survives_its_text_exactly(of: Study) -> None:
    made = row(first_cell(of).replicas[0])
    back = from_text(to_text(made))
    assert back == made and back["selected.test_accuracy"].hex() == (0.1 + 0.2).hex()
    assert "nan" not in to_text(made).decode().lower().split('"selected.test_predictions"')[0]


def test_a_record_older_than_a_field_has_its_default(of: Study) -> None:
    made = row(first_cell(of).replicas[0])
    old = json.loads(to_text(made))
    for field in ("init.kappa", "pretrain.name", "optim.decay_window", "eval_every"):
        del old[field]
    assert from_text(json.dumps(old).encode()) == {**made, "eval_every": None}
    with pytest.raises(ValueError, match=r"optim\.lr: required"):
        from_text(json.dumps({k: v for k, v in old.items() if k != "optim.lr"}).encode())


def test_schema_has_every_field_a_recipe_can_set() -> None:
    from initmem.study.recipe import field_types

    assert set(field_types()) <= set(SCHEMA.names)
    with pytest.raises(AssertionError, match="not in the schema"):
        complete({"optim.learning_rate": 1})


def test_rows_are_ordered_and_read_back_by_another_store(store: Store, of: Study) -> None:
    other = Store(store.address)
    assert other.open() == of
    scales = [(r["init.scale"], r["seed"]) for r in other.rows()]
    assert scales == [(1.0, 0), (1.0, 1), (2.0, 0), (2.0, 1)]
    assert other.rows() == store.rows()


@pytest.mark.parametrize("cut", ["empty", "half", "last byte", "bit"])
def test_a_damaged_record_is_named_set_aside_and_not_done(
    store: Store, of: Study, cut: str, capsys: pytest.CaptureFixture[str]
) -> None:
    replica = first_cell(of).replicas[1]
    path = Path(store.address, "records", f"{replica.id}.sealed")
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 4
    damage = {"empty": b"", "half": content[: len(content) // 2], "last byte": content[:-1],
              "bit": bytes(flipped)}  # fmt: skip
    path.write_bytes(damage[cut])
    fresh = Store(store.address)
    assert fresh.done(replica) is None and fresh.cell(first_cell(of)) is None
    said = capsys.readouterr().err
    assert said == f"{path}: record: damaged; `initmem run` trains the replica again\n"
    assert len(fresh.rows()) == 3 and path.read_bytes() == damage[cut], "reading changes nothing"
    fresh.put(row(replica))
    assert path.with_suffix(".damaged").read_bytes() == damage[cut]
    assert len(Store(store.address).rows()) == 4


@pytest.mark.parametrize("text", [b"", b"7", b"{}", b"[]", b"no json", b'{"replica": "REPLICA"}'])
def test_a_record_that_holds_no_row_is_damaged_too(
    store: Store, of: Study, text: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    replica = first_cell(of).replicas[1].id
    path = Path(store.address, "records", f"{replica}.sealed")
    path.write_bytes(seal(text.replace(b"REPLICA", replica.encode())))
    assert len(Store(store.address).rows()) == 3
    assert "record: not of this replica, or of another version" in capsys.readouterr().err


def test_a_record_of_another_default_is_noticed(store: Store, of: Study) -> None:
    replica = first_cell(of).replicas[0]
    store.put({**row(replica), "optim.clip": 1.0})
    with pytest.raises(UserError, match=r"optim\.clip 1\.0 -> None"):
        Store(store.address).done(replica)


def test_export_has_every_column_and_page_checksums(store: Store) -> None:
    parquet, plain = store.export()
    table = pq.read_table(parquet, page_checksum_verification=True)
    assert table.schema.equals(SCHEMA) and len(table) == 4
    frame = pd.read_csv(plain)
    assert len(frame) == 4 and "selected.test_predictions" not in frame and "curve" not in frame
    first = Path(parquet).read_bytes(), Path(plain).read_bytes()
    assert (*(Path(p).read_bytes() for p in Store(store.address).export()),) == first


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no study\.sealed"):
        Store(tmp_path / "nothing").open()
    (tmp_path / "study.sealed").write_bytes(seal(b'{"name": "x"}'))
    with pytest.raises(UserError, match=r"study\.sealed: run: of another version"):
        Store(tmp_path).open()


def test_a_damaged_study_is_named_and_written_anew_by_the_next_run(
    store: Store, of: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(store.address, "study.sealed")
    path.write_bytes(path.read_bytes().replace(b"digits", b"digitz"))
    with pytest.raises(UserError, match=r"study\.sealed: run: damaged; `initmem run STUDY"):
        Store(store.address).open()
    fresh = Store(store.address)
    assert fresh.known() is None and "damaged; it is written anew" in capsys.readouterr().err
    fresh.create(of)
    assert fresh.open() == of and len(fresh.rows()) == 4


def test_every_flipped_bit_is_found() -> None:
    sealed = seal(bytes(range(100)))
    for place in range(8 * len(sealed)):
        wrong = bytearray(sealed)
        wrong[place // 8] ^= 1 << place % 8
        assert unseal(bytes(wrong)) is None
    assert unseal(sealed) == bytes(range(100))


def test_checkpoints_keep_two_and_fall_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = Checkpoints(LocalFiles(tmp_path), "r")
    assert kept.latest() is None
    for step in (5, 10, 15):
        kept.save(step, f"state {step}".encode())
    names = sorted(p.name for p in (tmp_path / "r").iterdir())
    assert names == ["0000000010.sealed", "0000000015.sealed"]
    assert kept.latest() == b"state 15"
    newest = tmp_path / "r" / names[1]
    newest.write_bytes(newest.read_bytes()[:-3])
    assert kept.latest() == b"state 10"
    assert "damaged, set aside" in capsys.readouterr().err
    kept.remove()
    assert not (tmp_path / "r").exists()


def test_the_meter_counts_what_kills_made_in_vain(tmp_path: Path) -> None:
    kept = Checkpoints(LocalFiles(tmp_path), "r")
    first = kept.meter()
    first.starts_at(0)
    for step in range(1, 18):
        first.reached(step)
    second = kept.meter()  # as after a kill: nothing was closed
    second.starts_at(10)
    second.reached(11)
    third = kept.meter()
    third.starts_at(10)
    assert (kept.meter().repeated, kept.meter().resumed) == (7 + 1, 2)


def test_binary_columns_are_known() -> None:
    predictions = ["selected.test_predictions", "final.test_predictions"]
    assert row_module._BINARY == [*predictions, "cosines", "confidences"]
