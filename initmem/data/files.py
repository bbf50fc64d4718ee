"""The files of a data set: which it needs, whether they are whole, and how to get them.

The md5 sums are torchvision's own. They are the safety of CIFAR too, whose files are pickles:
none is opened unless its md5 is right.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from initmem.study.spec import UserError

# torchvision knows the md5 of the four .gz files alone. These are of what is in them, taken from
# .gz files with the md5 that torchvision asks for.
FASHION_MNIST = {
    "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
    "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
    "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
}


def reader(name: str) -> Any:
    """torchvision's class for a data set that is kept in files."""
    from torchvision import datasets  # torchvision's own import takes a second

    return {
        "fashion_mnist": datasets.FashionMNIST,
        "cifar10": datasets.CIFAR10,
        "cifar100": datasets.CIFAR100,
        "svhn": datasets.SVHN,
    }[name]


def needed(name: str) -> dict[str, str]:
    """Path below the data folder -> md5, of all files that the data set is read from."""
    if name == "fashion_mnist":
        return {f"FashionMNIST/raw/{file}": md5 for file, md5 in FASHION_MNIST.items()}
    kind = reader(name)
    if name == "svhn":
        return {file: md5 for _, file, md5 in (kind.split_list[s] for s in ("train", "test"))}
    files = [*kind.train_list, *kind.test_list, (kind.meta["filename"], kind.meta["md5"])]
    return {f"{kind.base_folder}/{file}": md5 for file, md5 in files}


def verify(name: str, folder: Path) -> None:
    """Raises UserError with a line for each file that is missing or not what it should be, and
    the command that mends it."""
    faults = [f"{path}: {found}, expected {md5}" for path, found, md5 in _wrong(name, folder)]
    if faults:
        command = f"initmem fetch {name} --data {shlex.quote(str(folder))}"
        raise UserError(*faults, f"data.name: {name} needs these files: {command}")


def download(name: str, folder: Path) -> str:
    """Get what is missing or damaged, through torchvision's class; says in a line what was done.

    Raises UserError if that fails.
    """
    wrong = _wrong(name, folder)
    if not wrong:
        return f"{name}: already in {folder}, {len(needed(name))} files with the right md5"
    kind = reader(name)
    try:
        for path, _, _ in wrong:  # torchvision takes a damaged file of FashionMNIST for a good one
            path.unlink(missing_ok=True)
        for part in [{"split": "train"}, {"split": "test"}] if name == "svhn" else [{}]:
            kind(folder, download=True, **part)
    except (OSError, RuntimeError, http.client.HTTPException) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"{name}: cannot download from {_host(name)}: {reason}; or place the files in "
            f"{folder} by hand: {', '.join(needed(name))}"
        ) from None
    verify(name, folder)
    return f"{name}: downloaded from {_host(name)} into {folder}"


def lacking(name: str, folder: Path) -> list[str]:
    """Paths below the folder of files that are missing or not what they should be."""
    return [str(path.relative_to(folder)) for path, _, _ in _wrong(name, folder)]


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the data folder against other processes of this machine; it is made if need be.

    Raises UserError where it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / ".lock", "wb")
    except OSError as error:
        raise UserError(f"{folder}: --data: cannot be written: {error.strerror}") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def place(path: Path, content: bytes) -> None:
    """Write a file so that others see it whole or not at all. Raises UserError if it cannot be
    written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        raise UserError(f"{path}: --data: cannot be written: {error.strerror}") from None


def _wrong(name: str, folder: Path) -> list[tuple[Path, str, str]]:
    """File, what is found and what is expected there, of the files that are not right."""
    _refuse_what_is_no_folder(folder)
    facts = [(folder / f, _found(folder / f), f"md5 {md5}") for f, md5 in needed(name).items()]
    return [(path, found, expected) for path, found, expected in facts if found != expected]


def _refuse_what_is_no_folder(folder: Path) -> None:
    """One that is not there yet may be made."""
    try:
        fault = "" if stat.S_ISDIR(folder.stat().st_mode) else "is no folder"
    except FileNotFoundError:
        return
    except OSError as error:
        fault = f"cannot be read: {error.strerror}"
    except ValueError as error:
        fault = f"is no path: {error}"
    if fault:
        raise UserError(f"{folder}: --data: {fault}; name the folder of the data sets")


def _host(name: str) -> str:
    kind = reader(name)
    if name == "svhn":
        url = kind.split_list["train"][0]
    else:
        url = kind.mirrors[0] if name == "fashion_mnist" else kind.url
    return urlparse(url).netloc


def _found(path: Path) -> str:
    """`md5 ...` of a file, or why there is none."""
    try:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return f"md5 {content.hexdigest()}"
