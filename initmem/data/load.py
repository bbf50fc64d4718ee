"""The `data` section of a recipe -> its Dataset; and the files it needs, checked and fetched."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from initmem.data import arithmetic, composition, files, images, preferences, regression, text
from initmem.data.dataset import Dataset
from initmem.study.data_section import CIFAR, SVHN, Data, FashionMNIST
from initmem.study.preference_data import GaussianPairs
from initmem.study.recipe import variants
from initmem.study.regression_data import SparseRegression
from initmem.study.spec import UserError
from initmem.study.token_data import Text

COMPUTED: dict[str, Callable[[Any], Dataset]] = {
    "digits": images.digits,
    "modular": arithmetic.modular,
    "addition": arithmetic.addition,
    "anchors": composition.anchors,
    "permutations": composition.permutations,
    "sparse_regression": regression.sparse_regression,
    "gaussian_pairs": preferences.gaussian_pairs,
}
"""What is read from no file."""
UNFETCHED = {
    **dict.fromkeys(COMPUTED, "it is computed"),
    "digits": "it comes with scikit-learn",
    "text": "a text comes with initmem, any other is a file of yours (data.file)",
}


def of_seed(data: Data, seed: int) -> Data:
    """The data set of a replica with that seed: where each draws its own, that one."""
    if isinstance(data, SparseRegression | GaussianPairs) and data.split is None:
        return data.model_copy(update={"split": seed})
    return data


@functools.lru_cache(maxsize=2)  # a block needs one; CIFAR takes 180 MB
def load(data: Data, folder: Path) -> Dataset:
    """Read or compute a data set, on the CPU; the last two are kept. Never downloads.

    Raises UserError if a file below `folder` is missing or damaged.
    """
    if isinstance(data, Text):
        return text.text(data, folder)
    if isinstance(data, FashionMNIST | CIFAR | SVHN):
        return images.from_files(data, folder)
    return COMPUTED[data.name](data)


def check(data: Data, folder: Path) -> None:
    """Raises UserError unless all files that `load` would read are there and whole."""
    if isinstance(data, Text):
        text.verify(data, folder)
    elif data.name not in UNFETCHED:
        files.verify(data.name, folder)


def paths(data: Data) -> list[str]:
    """The files below the data folder that `load` reads."""
    if isinstance(data, Text):
        return [] if data.file is None else [data.file]
    return [] if data.name in UNFETCHED else list(files.needed(data.name))


def receive(data: Data, folder: Path, content_of: Callable[[str], bytes]) -> None:
    """Take the files that are not there, or not whole, from one who has them: once, however many
    processes of a machine ask for them together. content_of: path below the folder -> content.

    Raises UserError where the folder cannot be written, or what came is not whole.
    """
    with files.alone(folder):
        text = isinstance(data, Text)
        for path in paths(data) if text else files.lacking(data.name, folder):
            files.place(folder / path, content_of(path))
        check(data, folder)


def fetch(name: str, folder: Path) -> str:
    """Download a data set once; says in a line what was done.

    Raises UserError for an unknown name or a failed download.
    """
    known = variants("data")
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise UserError(f"unknown data set {name!r}, allowed: {', '.join(known)}{hint}")
    if name in UNFETCHED:
        return f"{name}: nothing to fetch, {UNFETCHED[name]}"
    return files.download(name, folder)
