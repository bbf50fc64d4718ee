"""The `data` section of a recipe -> its Dataset; and the files it needs, checked and fetched."""

from __future__ import annotations

import difflib
import functools
from pathlib import Path

from initmem.data import arithmetic, files, images
from initmem.data.dataset import Dataset
from initmem.study.data_section import Data, Digits
from initmem.study.recipe import variants
from initmem.study.spec import UserError
from initmem.study.token_data import Modular, Tokens

UNFETCHED = {"digits": "it comes with scikit-learn", "modular": "it is computed"}


@functools.lru_cache(maxsize=2)  # a block needs one; CIFAR takes 180 MB
def load(data: Data, folder: Path) -> Dataset:
    """Read or compute a data set, on the CPU; the last two are kept. Never downloads.

    Raises UserError if a file below `folder` is missing or damaged.
    """
    if isinstance(data, Modular):
        return arithmetic.modular(data)
    if isinstance(data, Digits):
        return images.digits(data)
    assert not isinstance(data, Tokens)
    return images.from_files(data, folder)


def check(data: Data, folder: Path) -> None:
    """Raises UserError unless all files that `load` would read are there and whole."""
    if data.name not in UNFETCHED:
        files.verify(data.name, folder)


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
