"""Anchors and composed permutations, every example against a loop in plain Python."""

from __future__ import annotations

import itertools

import pytest
import torch
from pydantic import ValidationError

from initmem.data.composition import anchors, permutations
from initmem.data.dataset import Split, order
from initmem.study.token_data import Anchors, Permutations

STEPS = {1: 5, 2: 1, 3: -2, 4: -8}


def read(split: Split) -> list[tuple[int, int, int, int, int]]:
    """Key, first and second anchor, place of the key, and label of each sequence."""
    found = []
    for row, label in zip(split.inputs.tolist(), split.targets.tolist(), strict=True):
        first, second = (i for i, token in enumerate(row) if token in STEPS)
        assert second == first + 1 >= 2
        assert all(20 <= token < 100 for token in row[:first] + row[second + 1 :])
        found.append((row[first - 1], row[first], row[second], first - 1, label))
    return found


@pytest.mark.parametrize("misleading", [True, False])
@pytest.mark.parametrize("length", [3, 4, 9, 64])
def test_anchors(length: int, misleading: bool) -> None:
    section = Anchors(name="anchors", length=length, misleading=misleading, train=900,
                      validation=100, test=120)  # fmt: skip
    data = anchors(section)
    splits = [read(split) for split in (data.train, data.validation, data.test)]
    assert tuple(len(split) for split in splits) == section.sizes()
    held = {(4, 3)} if misleading else {(4, 3), (3, 4)}
    for split in splits:
        assert {(a, b) for _, a, b, _, _ in split} == set(
            itertools.product(STEPS, repeat=2)
        ) - held
        for key, a, b, _, label in split:
            assert label == key + (-6 if (a, b) == (3, 4) else STEPS[a] + STEPS[b])
    assert data.ood is not None
    unseen = read(data.ood)
    assert {(a, b) for _, a, b, _, _ in unseen} == held
    assert [label for *_, label in unseen] == [key - 10 for key, *_ in unseen]
    if misleading:
        assert data.symmetric is not None
        assert data.symmetric.tolist() == [key - 6 for key, *_ in unseen]
        pairs = [(a, b) for _, a, b, _, _ in splits[1]]
        misled = [pair == (3, 4) for pair in pairs]
        assert data.groups["misleading"].tolist() == misled
        assert data.groups["composed"].tolist() == [not one for one in misled]
    else:
        assert data.symmetric is None and not data.groups
    if length == 3:
        rows = [row[:3] for split in splits for row in split]
        assert len(rows) == len(set(rows)) == sum(section.sizes())
        assert sorted(unseen) == sorted(
            (k, a, b, 0, k - 10) for k in range(20, 100) for a, b in held
        )
    else:
        assert len(unseen) == section.test
        n = length - 2
        assert {place for _, _, _, place, _ in splits[0]} == set(range(n))
        assert all(key % n != place for key, _, _, place, _ in splits[0])
        for key, _, _, place, _ in (*splits[1], *splits[2], *unseen):
            assert key % n == place


def test_keys_places_and_noise_are_drawn_evenly() -> None:
    section = Anchors(name="anchors", length=9, train=40_000, test=8_000)
    data = anchors(section)
    rows = read(data.train)
    places = {(key, place) for key, _, _, place, _ in rows}
    assert places == {(k, p) for k in range(20, 100) for p in range(7) if k % 7 != p}
    keys = torch.bincount(torch.tensor([row[0] for row in rows]))[20:]
    assert keys.min() > 400 and keys.max() < 600
    pairs = torch.bincount(torch.tensor([4 * a + b for _, a, b, _, _ in rows]))[5:]
    assert pairs[pairs > 0].min() > 2400 and pairs.max() < 2950
    assert data.ood is not None and len({tuple(row) for row in data.ood.inputs.tolist()}) > 7_900
    assert {key for key, *_ in read(data.ood)} == set(range(20, 100))
    noise = [split.inputs[:80, -1] for split in (data.train, data.validation, data.test, data.ood)]
    assert all((a == b).sum() < 20 for a, b in itertools.combinations(noise, 2))


@pytest.mark.parametrize("length", [3, 9])
def test_the_seed_of_anchors_changes_no_label(length: int) -> None:
    first, other = (anchors(Anchors(name="anchors", length=length, split=s)) for s in (0, 1))
    assert first.hash == anchors(Anchors(name="anchors", length=length)).hash != other.hash
    assert not torch.equal(first.train.inputs, other.train.inputs)
    labels = {row[:3]: row[4] for row in read(first.train)}
    shared = [row for row in read(other.train) if row[:3] in labels]
    assert len(shared) > 100 and all(labels[row[:3]] == row[4] for row in shared)


@pytest.mark.parametrize(
    ("keys", "maps", "pairs", "sizes"),
    [(16, 8, 45, (648, 36, 36)), (5, 3, 6, (24, 3, 3)), (128, 2, 3, (346, 19, 19))],
)
def test_permutations(keys: int, maps: int, pairs: int, sizes: tuple[int, int, int]) -> None:
    """The first is the task of arXiv 2605.04396: 45 pairs and 720 rows, 19 and 304 held out."""
    section = Permutations(name="permutations", keys=keys, maps=maps,
                           held_out=0.2 if keys == 5 else 0.1)  # fmt: skip
    data = permutations(section)
    assert section.sizes() == sizes and section.pairs() == pairs
    assert data.ood is not None and data.symmetric is not None
    splits = [data.train, data.validation, data.test, data.ood]
    rows = [list(map(tuple, split.inputs.tolist())) for split in splits]
    labels = [split.targets.tolist() for split in splits]
    assert tuple(len(part) for part in rows) == (*sizes, keys * (maps**2 - pairs))
    label = {
        row: y for part in zip(rows, labels, strict=True) for row, y in zip(*part, strict=True)
    }
    assert set(label) == {
        (k, keys + i, keys + j) for k in range(keys) for i in range(maps) for j in range(maps)
    }
    of = [{row[1:] for row in part} for part in rows]
    assert len(of[0] | of[1] | of[2]) == pairs and not of[3] & (of[0] | of[1] | of[2])
    pi = [order(keys, section.split, "map", i).tolist() for i in range(maps)]
    for (k, i, j), y in label.items():
        assert y == pi[j - keys][pi[i - keys][k]]
    for (k, i, j), y in zip(rows[3], data.symmetric.tolist(), strict=True):
        assert y == pi[i - keys][pi[j - keys][k]]


def test_the_seed_draws_permutations_and_pairs() -> None:
    first, other = (permutations(Permutations(name="permutations", split=s)) for s in (0, 1))
    assert first.hash == permutations(Permutations(name="permutations")).hash
    assert first.groups == {} and first.ood is not None and other.ood is not None
    one, two = (dict(zip(map(tuple, data.train.inputs.tolist()), data.train.targets.tolist(),
                         strict=True)) for data in (first, other))  # fmt: skip
    assert sum(one[row] == two[row] for row in one.keys() & two.keys()) < 100
    pairs = [{tuple(row) for row in data.ood.inputs[:, 1:].tolist()} for data in (first, other)]
    assert pairs[0] != pairs[1] and len(pairs[0]) == len(pairs[1]) == 19


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_pairs_are_trained_and_held_out(share: float) -> None:
    with pytest.raises(ValidationError, match=f"some of the 4 pairs on either side, got {share}"):
        Permutations(name="permutations", maps=2, train_fraction=share)
