"""Small data sets in the real file formats, for torchvision's own readers.

`write` replaces the md5 sums that torchvision and we ask for by those of the files it wrote, in
this process and until the test ends.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat
from torchvision import datasets

from initmem.data import files

NAMES = ("fashion_mnist", "cifar10", "cifar100", "svhn")


@dataclass(frozen=True)
class Written:
    """What was written: images uint8 [n, C, H, W], labels int64 [n]."""

    images: np.ndarray
    labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def write(
    name: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    train: int = 60,
    test: int = 30,
    seed: int = 0,
) -> Written:
    """Write `train` + `test` images below `folder`; for cifar10 five must divide `train`.

    An image is half the pattern of its class, half noise, so networks can learn them.
    """
    rng = np.random.default_rng(seed)
    classes = 100 if name == "cifar100" else 10
    shape = (1, 28, 28) if name == "fashion_mnist" else (3, 32, 32)
    patterns = rng.integers(0, 128, (classes, *shape))
    labels = rng.permutation(np.arange(train + test) % classes)
    images = (patterns[labels] + rng.integers(0, 128, (train + test, *shape))).astype(np.uint8)
    written = Written(images[:train], labels[:train], images[train:], labels[train:])
    {"fashion_mnist": _idx, "svhn": _mat}.get(name, _pickles)(name, folder, written, monkeypatch)
    return written


def _idx(name: str, folder: Path, written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = folder / "FashionMNIST" / "raw"
    for part, images, labels in (
        ("train", written.images, written.labels),
        ("t10k", written.test_images, written.test_labels),
    ):
        n = len(labels)
        head = struct.pack(">4i", 2051, n, 28, 28)
        _put(raw / f"{part}-images-idx3-ubyte", head + images.tobytes())
        head = struct.pack(">2i", 2049, n)
        _put(raw / f"{part}-labels-idx1-ubyte", head + labels.astype(np.uint8).tobytes())
    for file in files.FASHION_MNIST:
        monkeypatch.setitem(files.FASHION_MNIST, file, md5(raw / file))


def _mat(name: str, folder: Path, written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    entries = dict(datasets.SVHN.split_list)
    for part, images, labels in (
        ("train", written.images, written.labels),
        ("test", written.test_images, written.test_labels),
    ):
        url, file, _ = entries[part]
        ten = np.where(labels == 0, 10, labels).astype(np.uint8)[:, None]
        savemat(folder / file, {"X": images.transpose(2, 3, 1, 0), "y": ten})
        entries[part] = [url, file, md5(folder / file)]
    monkeypatch.setattr(datasets.SVHN, "split_list", entries)


def _pickles(name: str, folder: Path, written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = {"cifar10": datasets.CIFAR10, "cifar100": datasets.CIFAR100}[name]
    key = "labels" if name == "cifar10" else "fine_labels"
    base = folder / kind.base_folder

    def batches(
        listed: list[list[str]], images: np.ndarray, labels: np.ndarray
    ) -> list[list[str]]:
        found = []
        parts = zip(np.split(images, len(listed)), np.split(labels, len(listed)), strict=True)
        for (file, _), (planes, classes) in zip(listed, parts, strict=True):
            content = {"data": planes.reshape(len(planes), 3072), key: classes.tolist()}
            _put(base / file, _python2(content))
            found.append([file, md5(base / file)])
        return found

    train = batches(kind.train_list, written.images, written.labels)
    test = batches(kind.test_list, written.test_images, written.test_labels)
    count = 10 if name == "cifar10" else 100
    meta = base / kind.meta["filename"]
    _put(meta, _python2({kind.meta["key"]: [f"class {k}" for k in range(count)]}))
    monkeypatch.setattr(kind, "train_list", train)
    monkeypatch.setattr(kind, "test_list", test)
    monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": md5(meta)})


class _Python2Pickler(pickle._Pickler):
    """Strings as Python 2 wrote them: bytes, with no encoding."""

    def _string(self, value: str | bytes) -> None:
        raw = value if isinstance(value, bytes) else value.encode("latin1")
        self.write(pickle.BINSTRING + struct.pack("<i", len(raw)) + raw)
        self.memoize(value)

    dispatch = dict(pickle._Pickler.dispatch) | {str: _string, bytes: _string}


def _python2(content: dict[str, Any]) -> bytes:
    """A pickle as the CIFAR files hold it, of a numpy whose dtype took 0 and 1 for flags."""
    stream = io.BytesIO()
    _Python2Pickler(stream, protocol=2).dump(content)
    old = stream.getvalue().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")
    return old.replace(pickle.NEWFALSE + pickle.NEWTRUE + b"\x87", b"K\x00K\x01\x87")


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()
