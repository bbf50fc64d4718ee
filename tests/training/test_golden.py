"""What training computes has not changed: it is what a plain script computes, on any machine, and
what it was, on the kinds of CPU that golden.json knows."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
import torch

from initmem.data.load import load
from initmem.records.rows import Row
from initmem.training.loop import train
from initmem.training.replica import Training
from tests.tiny import Memory, exhaust
from tests.training.golden import PATH, RECIPES, columns, digest, key, trained, write
from tests.training.plain import plain

KNOWN = json.loads(PATH.read_text())
CPU = torch.device("cpu")


@pytest.mark.parametrize("name", RECIPES)
def test_every_bit_is_that_of_a_plain_script(name: str) -> None:
    of = RECIPES[name]
    torch.set_num_threads(1)
    training = Training(of, 4, load(of.data, Path("data")), CPU)
    exhaust(train([training], [Memory()], checkpoint_every=7))
    ours = {tensor: value.clone() for tensor, value in training.network.state_dict().items()}
    state, losses_T, predictions = plain(of, 4)
    assert losses_T.shape == (30,) and torch.equal(training.losses_T, losses_T)
    assert ours.keys() == state.keys()
    assert [tensor for tensor in ours if not torch.equal(ours[tensor], state[tensor])] == []
    final = training.outcome().final
    assert final is not None and final.test_predictions == predictions


@pytest.mark.parametrize("name", RECIPES)
def test_rows_are_those_that_are_known(name: str, tmp_path: Path) -> None:
    known = KNOWN["kinds"].get(key())
    if known is None:
        add = "python -m tests.training.golden, on a commit that is trusted, adds it"
        pytest.skip(f"{key()}: not in golden.json; {add}")
    rows = trained(RECIPES[name], tmp_path)
    assert [(row["init.scale"], row["seed"]) for row in rows] == [
        (0.5, 0),
        (0.5, 1),
        (1.0, 0),
        (1.0, 1),
    ]
    assert digest(rows, KNOWN["columns"]) == known[name]


def test_every_column_is_known_but_what_may_differ() -> None:
    assert len(set(KNOWN["columns"])) == len(KNOWN["columns"])
    assert {
        "state",
        "threads",
        "data_hash",
        "final.test_predictions",
        "curve/train_loss",
        "norms/distance",
        "audit/measured_std",
    } < set(KNOWN["columns"])
    assert set(KNOWN["columns"]) <= set(columns())
    assert not [c for c in KNOWN["columns"] if c.startswith(("run.", "version."))]
    assert all(known.keys() == RECIPES.keys() for known in KNOWN["kinds"].values())


def test_a_hash_tells_a_bit_and_is_blind_to_other_columns() -> None:
    row: Row = {"a": 0.1, "curve": [{"loss": 1.0, "step": 1}]}
    names = ["a", "curve/loss"]
    later = {**row, "b": 2, "curve": [{"loss": 1.0, "step": 2, "new": 3}]}
    assert digest([row], names) == digest([later], names)
    assert digest([row], names) != digest([{**row, "a": 0.1 + 2**-56}], names)
    assert digest([row], names) != digest([{**row, "curve": [{"loss": -1.0}]}], names)
    assert digest([{**row, "curve": None}], names) != digest([{**row, "curve": []}], names)


def test_known_hashes_are_not_overwritten_unasked(tmp_path: Path) -> None:
    path = tmp_path / "golden.json"
    write(path, "a", {"x": "1", "y": "2"}, replace=False)
    write(path, "b", {"x": "3"}, replace=False)
    write(path, "a", {"x": "1", "y": "2", "z": "4"}, replace=False)
    with pytest.raises(click.ClickException, match=r"a: y: trains to other rows .*--replace"):
        write(path, "a", {"x": "1", "y": "5"}, replace=False)
    kept = json.loads(path.read_text())
    assert kept["kinds"] == {"a": {"x": "1", "y": "2", "z": "4"}, "b": {"x": "3"}}
    assert kept["columns"] == columns()
    write(path, "a", {"x": "1", "y": "5"}, replace=True)
    assert json.loads(path.read_text())["kinds"]["a"] == {"x": "1", "y": "5"}
