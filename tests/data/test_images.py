"""What is read is what was written, in the formats that torchvision reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from initmem.data.dataset import Dataset, order
from initmem.data.load import load
from initmem.study.data_section import Digits
from initmem.study.recipe import variants
from initmem.study.spec import UserError
from tests.data import files


def section(name: str, **fields: Any) -> Any:
    return variants("data")[name].model_validate({"name": name, **fields})


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a network call")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)


def rows(data: Dataset) -> list[tuple[int, bytes]]:
    """Label and pixels of all images, in order."""
    parts = (data.train, data.validation, data.test)
    return [
        (label, image.numpy().tobytes())
        for part in parts
        for label, image in zip(part.targets.tolist(), part.inputs, strict=True)
    ]


@pytest.mark.parametrize("name", files.NAMES)
def test_pixels_and_labels_round_trip(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = files.write(name, tmp_path, monkeypatch, train=60, test=30)
    data = load(section(name, train=40, validation=20, split=2), tmp_path)
    drawn = order(60, 2, "split").numpy()
    for split, images, labels in (
        (data.train, written.images[drawn[:40]], written.labels[drawn[:40]]),
        (data.validation, written.images[drawn[40:]], written.labels[drawn[40:]]),
        (data.test, written.test_images, written.test_labels),
    ):
        assert split.inputs.dtype == torch.uint8 and split.targets.dtype == torch.int64
        assert np.array_equal(split.inputs.numpy(), images)
        assert np.array_equal(split.targets.numpy(), labels)
    assert data.kind == "image" and data.vocabulary == 0
    assert data.shape == ((1, 28, 28) if name == "fashion_mnist" else (3, 32, 32))
    assert data.classes == (100 if name == "cifar100" else 10)


def test_a_smaller_training_set_leaves_the_rest_unused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write("svhn", tmp_path, monkeypatch)
    data = load(section("svhn", train=10, validation=5), tmp_path)
    assert (len(data.train.targets), len(data.validation.targets)) == (10, 5)
    assert len(set(rows(data))) == 10 + 5 + 30


def test_too_few_images_name_the_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write("svhn", tmp_path, monkeypatch)
    with pytest.raises(UserError, match=r"^data\.train: .* 50 \+ 11, .* hold 60 images$"):
        load(section("svhn", train=50, validation=11), tmp_path)


def test_digits_are_the_1797_images_of_scikit_learn(tmp_path: Path) -> None:
    data = load(Digits(name="digits"), tmp_path)
    assert (data.shape, data.classes) == ((1, 8, 8), 10)
    assert [len(s.targets) for s in (data.train, data.validation, data.test)] == [500, 300, 997]
    images, labels = load_digits(return_X_y=True)
    expected = [
        (int(k), x.astype(np.uint8).tobytes()) for x, k in zip(images, labels, strict=True)
    ]
    assert sorted(rows(data)) == sorted(expected)
    assert data.train.inputs.dtype == torch.uint8 and data.train.inputs.max() == 16


def test_the_split_of_the_digits_follows_its_seed(tmp_path: Path) -> None:
    first = load(Digits(name="digits"), tmp_path)
    again = load(Digits(name="digits", crop=1), tmp_path)
    other = load(Digits(name="digits", split=1), tmp_path)
    assert first.hash == again.hash != other.hash
    assert load(Digits(name="digits", split=1), tmp_path) is other


def test_classes_are_numbered_anew_in_their_order(tmp_path: Path) -> None:
    data = load(Digits(name="digits", classes="2-3,9", train=100, validation=50), tmp_path)
    images, labels = load_digits(return_X_y=True)
    names = [2, 3, 9]
    expected = [
        (names.index(k), x.astype(np.uint8).tobytes())
        for x, k in zip(images, labels.tolist(), strict=True)
        if k in names
    ]
    assert data.classes == 3 and sorted(rows(data)) == sorted(expected)
    sizes = tuple(len(s.targets) for s in (data.train, data.validation, data.test))
    assert sizes == Digits(name="digits", classes="2-3,9", train=100, validation=50).sizes()


def test_classes_of_files_are_those_of_all_splits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = files.write("svhn", tmp_path, monkeypatch)
    chosen = section("svhn", classes="0,4-6", train=10, validation=5)
    data = load(chosen, tmp_path)
    kept = np.isin(written.test_labels, (0, 4, 5, 6))
    assert np.array_equal(data.test.inputs.numpy(), written.test_images[kept])
    named = np.array([0, 4, 5, 6])[data.test.targets.numpy()]
    assert np.array_equal(named, written.test_labels[kept]) and data.classes == 4
    with pytest.raises(UserError, match=r"hold \d+ images of classes 0,4-6$"):
        load(section("svhn", classes="0,4-6", train=50, validation=9), tmp_path)


def noisy(share: float, **fields: Any) -> Dataset:
    return load(Digits(name="digits", label_noise=share, **fields), Path("data"))


@pytest.mark.parametrize(
    ("share", "wrong"), [(0.0, 0), (0.0009, 0), (0.0011, 1), (0.1, 50), (0.2994, 150), (0.4, 200)]
)
def test_wrong_labels_are_as_many_as_asked_for_and_of_training_alone(
    share: float, wrong: int
) -> None:
    clean, data = noisy(0), noisy(share)
    assert int((data.train.targets != clean.train.targets).sum()) == wrong
    assert torch.equal(data.train.inputs, clean.train.inputs)
    for split in ("validation", "test"):
        assert torch.equal(getattr(data, split).targets, getattr(clean, split).targets)
    assert (data.hash == clean.hash) == (wrong == 0)


def test_wrong_labels_are_those_of_a_smaller_share_and_more() -> None:
    clean = noisy(0).train.targets
    few, many = noisy(0.1).train.targets, noisy(0.3).train.targets
    assert torch.equal(few[few != clean], many[few != clean])
    other = noisy(0.1, split=1).train.targets != noisy(0, split=1).train.targets
    assert other.sum() == 50 and not torch.equal(other, few != clean)


def test_a_wrong_label_is_any_other_class() -> None:
    clean, data = noisy(0, train=1400), noisy(0.9, train=1400)
    steps = (data.train.targets - clean.train.targets) % 10
    counts = steps.bincount(minlength=10)
    assert counts[0] == 140 and counts.sum() == 1400
    assert counts[1:].min() > 100 and counts[1:].max() < 180, "1260 / 9 = 140, sd 11"
    of_each = (clean.train.targets[steps > 0]).bincount() / clean.train.targets.bincount()
    assert of_each.min() > 0.8
    two = noisy(0.5, classes="3-4", train=100, validation=50).train.targets
    assert set(two.tolist()) == {0, 1}


def test_a_larger_training_set_begins_with_the_labels_of_a_smaller_one() -> None:
    targets = [noisy(0.4, train=n).train.targets[:200] for n in (200, 500)]
    clean = noisy(0).train.targets[:200]
    both = (targets[0] != clean) & (targets[1] != clean)
    assert both.sum() > 60 and torch.equal(targets[0][both], targets[1][both])


@pytest.mark.parametrize("name", files.NAMES)
def test_wrong_labels_of_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write(name, tmp_path, monkeypatch)
    clean, data = (
        load(section(name, train=40, validation=20, label_noise=n), tmp_path) for n in (0.0, 0.25)
    )
    wrong = data.train.targets != clean.train.targets
    assert wrong.sum() == 10 and data.train.targets.max() < data.classes
    for split in ("validation", "test"):
        assert torch.equal(getattr(data, split).targets, getattr(clean, split).targets)


def test_an_old_processed_folder_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write("fashion_mnist", tmp_path, monkeypatch)
    processed = tmp_path / "FashionMNIST" / "processed"
    processed.mkdir()
    for file in ("training.pt", "test.pt"):
        torch.save((torch.zeros(60, 28, 28), torch.zeros(60)), processed / file)
    data = load(section("fashion_mnist", train=40, validation=20), tmp_path)
    assert data.train.inputs.any()
