"""Image data sets: scikit-learn's digits, and those that torchvision reads from files."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from initmem.data.dataset import Dataset, Split, assemble, draw, order
from initmem.data.files import reader, verify
from initmem.study.data_section import CIFAR, SVHN, Digits, FashionMNIST, Images
from initmem.study.seeds import fold
from initmem.study.spec import UserError


def digits(data: Digits) -> Dataset:
    """1,797 images, uint8 [1, 8, 8] with pixels 0 .. 16, from scikit-learn's own copy."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    inputs = torch.from_numpy(images.astype(np.uint8)).view(-1, 1, 8, 8)
    inputs, targets = _chosen(inputs, torch.from_numpy(labels.astype(np.int64)), data)
    train, validation, test = draw(inputs, targets, data.sizes(), data.split)
    train = mislabelled(train, len(targets), data)
    return assemble("image", len(data.labels()), 0, train, validation, test)


def from_files(data: FashionMNIST | CIFAR | SVHN, folder: Path) -> Dataset:
    """Training and validation from the official training images, and the official test images.

    Raises UserError if a file is not whole, or there are too few images; never downloads.
    """
    verify(data.name, folder)
    inputs, targets = _chosen(*_read(data.name, folder, train=True), data)
    if data.train + data.validation > len(targets):
        raise UserError(
            f"data.train: train + validation is {data.train} + {data.validation}, the files of "
            f"{data.name} in {folder} hold {len(targets)} images"
            + ("" if data.classes is None else f" of classes {data.classes}")
        )
    sizes = data.train, data.validation
    train, validation = draw(inputs, targets, sizes, data.split)
    train = mislabelled(train, len(targets), data)
    test = Split(*_chosen(*_read(data.name, folder, train=False), data))
    return assemble("image", len(data.labels()), 0, train, validation, test)


def _chosen(inputs: Tensor, targets: Tensor, data: Images) -> tuple[Tensor, Tensor]:
    """The images of the section's classes, numbered anew."""
    if data.classes is None:
        return inputs, targets
    labels = torch.tensor(data.labels())
    kept = torch.isin(targets, labels)
    return inputs[kept], torch.searchsorted(labels, targets[kept])


def mislabelled(train: Split, pool: int, data: Images) -> Split:
    """The training images with the share of wrong labels that the section asks for.

    pool: images that they are the first of, in the order of the split. Which are wrong, and how,
    is drawn for all of these, so that a larger training set is as wrong where it is the same.
    """
    count, classes = len(train.targets), len(data.labels())
    ranked = order(pool, data.split, "label noise")
    wrong = ranked[ranked < count][: round(data.label_noise * count)]
    generator = torch.Generator().manual_seed(fold(data.split, "wrong label"))
    steps = torch.randint(1, classes, (pool,), generator=generator)
    targets = train.targets.clone()
    targets[wrong] = (targets[wrong] + steps[wrong]) % classes
    return Split(train.inputs, targets)


def _read(name: str, folder: Path, *, train: bool) -> tuple[Tensor, Tensor]:
    """uint8 [N, C, H, W] and int64 [N]."""
    if name == "fashion_mnist":
        return _fashion_mnist(folder, "train" if train else "t10k")
    if name == "svhn":
        found = reader(name)(folder, split="train" if train else "test")
        return torch.from_numpy(found.data).contiguous(), torch.from_numpy(found.labels)
    with warnings.catch_warnings():
        # The files are pickles of an old numpy, with 0 and 1 for the flags of a dtype; numpy 2.4.0
        # to 2.4.4 warn of that.
        warnings.simplefilter("ignore", np.exceptions.VisibleDeprecationWarning)
        found = reader(name)(folder, train=train)
    images = torch.from_numpy(found.data).permute(0, 3, 1, 2).contiguous()
    return images, torch.tensor(found.targets)


def _fashion_mnist(folder: Path, part: str) -> tuple[Tensor, Tensor]:
    # Not through the class: it prefers files that an old torchvision left in FashionMNIST/
    # processed, of which nobody knows the md5.
    from torchvision.datasets import mnist

    raw = folder / "FashionMNIST" / "raw"
    images = mnist.read_image_file(raw / f"{part}-images-idx3-ubyte")
    return images.unsqueeze(1), mnist.read_label_file(raw / f"{part}-labels-idx1-ubyte")
