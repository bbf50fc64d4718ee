"""What sections say of their data sets before these are made, against the data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from initmem.data.dataset import Split, assemble_tokens
from initmem.data.load import load
from initmem.study.recipe import variants
from initmem.study.token_data import Addition, Modular, Text, Tokens

SECTIONS: list[dict[str, Any]] = [
    {"name": "modular", "p": 7},
    {"name": "modular", "p": 7, "operation": "divide", "equals": False},
    {"name": "addition", "digits": 1, "train": 70, "validation": 20, "test": 10},
    {"name": "addition", "digits": 4, "order": "reversed", "square": True},
    {"name": "anchors"},
    {"name": "anchors", "length": 9, "misleading": False},
    {"name": "permutations"},
    {"name": "permutations", "keys": 5, "maps": 3, "held_out": 0.3},
    {"name": "text"},
    {"name": "text", "length": 7, "train": 30, "validation": 20, "test": 10},
]


def test_no_data_set_of_tokens_is_left_out() -> None:
    tokens = {name for name, one in variants("data").items() if issubclass(one, Tokens)}
    assert {one["name"] for one in SECTIONS} == tokens


@pytest.mark.parametrize("fields", SECTIONS, ids=lambda f: "-".join(map(str, f.values())))
def test_sizes_shape_and_answers(fields: dict[str, Any]) -> None:
    section: Any = variants("data")[fields["name"]].model_validate(fields)
    data = load(section, Path("nowhere"))
    length, vocabulary, classes = section.shape()
    assert (data.kind, data.shape, data.vocabulary) == ("tokens", (length,), vocabulary)
    assert data.classes == classes and data.whole == section.whole
    splits = [data.train, data.validation, data.test]
    assert tuple(len(split.inputs) for split in splits) == section.sizes()
    answers = () if section.answers() == 1 else (section.answers(),)
    for split in [*splits, *([data.ood] if data.ood else [])]:
        assert split.inputs.shape[1:] == (length,) and split.targets.shape[1:] == answers
        assert split.inputs.dtype == split.targets.dtype == torch.int64
        assert 0 <= split.inputs.min() and split.inputs.max() < vocabulary
        assert 0 <= split.targets.min() and split.targets.max() < classes
    if data.symmetric is not None:
        assert data.ood is not None and data.symmetric.shape == data.ood.targets.shape
        assert data.symmetric.dtype == torch.int64
    for group in data.groups.values():
        assert group.dtype == torch.bool and group.shape == data.validation.targets.shape
        assert group.any()


def test_the_hash_covers_what_is_out_of_distribution() -> None:
    section = Modular(name="modular", p=5)
    splits = [Split(torch.zeros(2, 3).long(), torch.zeros(2).long()) for _ in range(4)]
    plain = assemble_tokens(section, splits[:3])
    zeros, ones = (assemble_tokens(section, splits[:3], Split(splits[3].inputs, targets))
                   for targets in (torch.zeros(2).long(), torch.ones(2).long()))  # fmt: skip
    assert len({plain.hash, zeros.hash, ones.hash}) == 3


def test_groups_of_nothing_are_left_out() -> None:
    split = Split(torch.zeros(2, 3).long(), torch.zeros(2).long())
    groups = {"some": torch.tensor([True, False]), "none": torch.tensor([False, False])}
    found = assemble_tokens(Modular(name="modular"), [split] * 3, groups=groups).groups
    assert list(found) == ["some"] and found["some"].tolist() == [True, False]


def test_accuracy_of_whole_examples_and_of_answers() -> None:
    right = torch.tensor([[True, True], [True, False], [False, False], [True, True]])
    sums = load(Addition(name="addition", digits=1, train=8, validation=4, test=4), Path())
    text = load(Text(name="text", train=8, validation=4, test=4), Path())
    assert sums.whole and not text.whole
    assert (sums.accuracy(right), text.accuracy(right)) == (50, 62.5)
    assert sums.accuracy(right[:, 0]) == text.accuracy(right[:, 0]) == 75
