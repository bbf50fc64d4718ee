"""Splits, orders, hashes, standardization and augmentation, against plain loops."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from initmem.data.dataset import Dataset, Split, assemble, augment, draw, order, sample
from initmem.study.seeds import fold


def images(count: int, *, seed: int = 0, channels: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (count, channels, 5, 7)
    return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)


def dataset(inputs: torch.Tensor, sizes: tuple[int, int, int], seed: int = 0) -> Dataset:
    targets = torch.arange(len(inputs))
    return assemble("image", len(inputs), 0, *draw(inputs, targets, sizes, seed))


def test_splits_are_disjoint_and_cover_the_pool() -> None:
    parts = draw(images(20), torch.arange(20), (9, 6, 5), seed=3)
    assert [len(part.targets) for part in parts] == [9, 6, 5]
    assert sorted(torch.cat([part.targets for part in parts]).tolist()) == list(range(20))
    for part in parts:
        assert torch.equal(part.inputs, images(20)[part.targets])


def test_the_order_depends_on_the_names_of_its_stream() -> None:
    expected = torch.randperm(50, generator=torch.Generator().manual_seed(fold(4, "order", 2)))
    assert torch.equal(order(50, 4, "order", 2), expected)
    assert not torch.equal(order(50, 4, "order", 3), expected)


def test_a_sample_is_distinct_and_follows_its_stream() -> None:
    assert sorted(sample(30, 30, 4, "split").tolist()) == list(range(30))
    found = sample(10**12, 1000, 4, "split")
    assert found.dtype == torch.int64 and len(set(found.tolist())) == 1000
    assert 9.8e11 < found.max() < 10**12 and 0 <= found.min() < 2e10
    assert torch.equal(found, sample(10**12, 1000, 4, "split"))
    assert not torch.isin(found, sample(10**12, 1000, 5, "split")).any()


def test_same_seed_same_hash() -> None:
    first = dataset(images(20), (9, 6, 5), seed=0)
    assert first.hash == dataset(images(20), (9, 6, 5), seed=0).hash
    assert len(first.hash) == 16 and int(first.hash, 16)
    assert first.hash != dataset(images(20), (9, 6, 5), seed=1).hash


@pytest.mark.parametrize("change", ["pixel", "label", "shape", "dtype"])
def test_the_hash_covers_bytes_shapes_and_dtypes(change: str) -> None:
    inputs, targets = images(6), torch.zeros(6, dtype=torch.int64)
    part = Split(inputs, targets)
    plain = assemble("image", 10, 0, part, part, part)
    if change == "pixel":
        inputs = inputs.clone()
        inputs[5, 2, 4, 6] ^= 1
    elif change == "label":
        targets = torch.tensor([0, 0, 0, 0, 0, 1])
    elif change == "shape":
        inputs = inputs.view(6, 3, 7, 5)
    else:
        targets = torch.zeros(12, dtype=torch.int32)  # the same bytes
    assert assemble("image", 10, 0, part, part, Split(inputs, targets)).hash != plain.hash


def test_prepare_standardizes_each_channel_by_the_training_images() -> None:
    data = dataset(images(40), (30, 5, 5))
    ready = data.prepare(data.train.inputs)
    assert ready.dtype == torch.float32 and ready.shape == (30, 3, 5, 7)
    channels = ready.double().transpose(0, 1).flatten(1)
    assert channels.mean(1).abs().max() < 1e-6
    assert (channels.std(1, correction=0) - 1).abs().max() < 1e-6
    raw = data.train.inputs.double().transpose(0, 1).flatten(1)
    expected = (data.test.inputs.double() - raw.mean(1).view(3, 1, 1)) / raw.std(
        1, correction=0
    ).view(3, 1, 1)
    assert (data.prepare(data.test.inputs) - expected).abs().max() < 1e-5


def test_a_constant_channel_becomes_zero() -> None:
    inputs = images(10)
    inputs[:, 1] = 7
    data = dataset(inputs, (6, 2, 2))
    assert not data.prepare(data.train.inputs)[:, 1].any()
    assert data.prepare(data.train.inputs).isfinite().all()


def test_to_moves_all_tensors() -> None:
    moved = dataset(images(10), (6, 2, 2)).to("meta")
    parts = [moved.train, moved.validation, moved.test]
    tensors = [t for p in parts for t in (p.inputs, p.targets)] + [moved.mean, moved.sd]
    assert all(tensor.device.type == "meta" for tensor in tensors)
    assert moved.prepare(moved.train.inputs).shape == (6, 3, 5, 7)


def test_a_dataset_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        dataset(images(10), (6, 2, 2)).hash = ""  # type: ignore[misc]  # frozen, on purpose


@pytest.mark.parametrize(("crop", "flip"), [(2, True), (3, False), (0, True)])
def test_augment_equals_a_loop_over_the_images(crop: int, flip: bool) -> None:
    batch = images(32)
    found = augment(batch, crop, flip, torch.Generator().manual_seed(5))
    generator = torch.Generator().manual_seed(5)
    offsets = torch.full((2, 32), crop)
    if crop:
        offsets = torch.randint(2 * crop + 1, (2, 32, 1), generator=generator)[:, :, 0]
    flips = torch.zeros(32)
    if flip:
        flips = torch.randint(2, (32, 1), generator=generator)[:, 0]
    for image, result, down, right, flipped in zip(
        batch, found, offsets[0].tolist(), offsets[1].tolist(), flips.tolist(), strict=True
    ):
        canvas = torch.zeros(3, 5 + 2 * crop, 7 + 2 * crop, dtype=torch.uint8)
        canvas[:, crop : crop + 5, crop : crop + 7] = image
        expected = canvas[:, down : down + 5, right : right + 7]
        assert torch.equal(result, expected.flip(-1) if flipped else expected)
    assert found.dtype == torch.uint8
    if flip:
        assert 0 < flips.sum() < 32


def test_augment_moves_every_image_on_its_own() -> None:
    batch = images(1).expand(64, -1, -1, -1)
    found = augment(batch, 2, False, torch.Generator().manual_seed(0))
    assert len({tuple(image.flatten().tolist()) for image in found}) > 10


def test_without_augmentation_nothing_is_drawn() -> None:
    generator = torch.Generator().manual_seed(1)
    before = generator.get_state()
    batch = images(4)
    assert augment(batch, 0, False, generator) is batch
    assert torch.equal(generator.get_state(), before)
