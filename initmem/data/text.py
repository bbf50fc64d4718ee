"""Windows of a text, to be told character by character."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from initmem.data.dataset import Dataset, Split, assemble_tokens, sample
from initmem.study.spec import UserError
from initmem.study.token_data import Text

OURS = Path(__file__).with_name("texts") / "pride_and_prejudice.txt"
V = 97
"""Printable ASCII from 0, the line break 95, all else 96."""


def text(data: Text, folder: Path) -> Dataset:
    """Characters [N, length] and those that follow each, int64 [N, length].

    Windows for training begin at distinct drawn places of the first 90% of the text, those for
    validation and test evenly spaced in the next and the last 5%. Validation `groups` are by what
    tells a character, counted on the text for training: bigram, the likeliest after the one
    before; context, not that, but the likeliest after the last three of its window; rest.

    Raises UserError where the file cannot be read or is too short.
    """
    parts = _parts(data, folder)
    train, validation, test = data.sizes()
    starts = [
        sample(len(parts[0]) - data.length, train, data.split, "split"),
        *(
            torch.arange(count) * (len(part) - data.length) // count
            for part, count in zip(parts[1:], (validation, test), strict=True)
        ),
    ]
    splits = [_windows(*each, data.length) for each in zip(parts, starts, strict=True)]
    return assemble_tokens(data, splits, groups=_groups(parts[0], splits[1]))


def verify(data: Text, folder: Path) -> None:
    """Raises UserError unless `text` can be made."""
    _parts(data, folder)


def _parts(data: Text, folder: Path) -> list[np.ndarray]:
    """Tokens, uint8, of the parts for training, validation and test."""
    path = OURS if data.file is None else folder / data.file
    tokens = _tokens(_read(path))
    n = len(tokens)
    parts = np.split(tokens, [n * 9 // 10, n * 19 // 20])
    names = ("train", "validation", "test")
    for part, name, wanted in zip(parts, names, data.sizes(), strict=True):
        places = max(0, len(part) - data.length)
        if wanted > places:
            raise UserError(
                f"data.{name}: {wanted} windows of {data.length} + 1 characters, but {path} has "
                f"places for {places} of them in the {len(part)} characters for {name}; ask for "
                "fewer, a smaller data.length, or a longer text in data.file"
            )
    return parts


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        fault = "missing"
    except OSError as error:
        fault = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        fault = "is not UTF-8 text"
    except ValueError as error:
        fault = f"is no path: {error}"
    raise UserError(
        f"{path}: data.file: {fault}; name a UTF-8 text below the data folder (--data), or null "
        "for the text that comes with initmem"
    )


def _tokens(characters: str) -> np.ndarray:
    codes = np.frombuffer(characters.encode("utf-32-le"), np.uint32)
    printable = (codes >= ord(" ")) & (codes <= ord("~"))
    other = np.where(codes == ord("\n"), V - 2, V - 1)
    return np.where(printable, codes - ord(" "), other).astype(np.uint8)


def _windows(tokens: np.ndarray, starts: Tensor, length: int) -> Split:
    places = starts[:, None] + torch.arange(length + 1)
    windows = torch.from_numpy(tokens)[places].long()
    return Split(windows[:, :-1].contiguous(), windows[:, 1:].contiguous())


def _groups(train: np.ndarray, validation: Split) -> dict[str, Tensor]:
    inputs, targets = validation.inputs.numpy(), validation.targets.numpy()
    bigram = _likeliest(train, 1)[_contexts(inputs, 1)] == targets
    context = np.zeros_like(bigram)
    context[:, 2:] = _likeliest(train, 3)[_contexts(inputs, 3)] == targets[:, 2:]
    groups = {"bigram": bigram, "context": context & ~bigram, "rest": ~(bigram | context)}
    return {name: torch.from_numpy(group) for name, group in groups.items()}


def _contexts(tokens: np.ndarray, k: int) -> np.ndarray:
    """A number below V^k for each k tokens in a row; along the last axis, shorter by k - 1."""
    count = tokens.shape[-1] - k + 1
    shifted = (tokens[..., i : count + i].astype(np.int64) * V ** (k - 1 - i) for i in range(k))
    return np.sum(list(shifted), axis=0)


def _likeliest(tokens: np.ndarray, k: int) -> np.ndarray:
    """The most frequent successor of each k tokens, the smallest of equals; -1 for none seen."""
    seen, counts = np.unique(_contexts(tokens, k + 1), return_counts=True)
    contexts, successors = np.divmod(seen, V)
    by_count = np.lexsort((successors, -counts, contexts))
    contexts, first = np.unique(contexts[by_count], return_index=True)
    found = np.full(V**k, -1)
    found[contexts] = successors[by_count][first]
    return found
