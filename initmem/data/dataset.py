"""What a training run reads: three splits of tensors, and the draws that order and vary them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from initmem.data.geometry import Geometry
from initmem.study.seeds import fold
from initmem.study.token_data import Tokens


@dataclass(frozen=True, eq=False)
class Split:
    inputs: Tensor
    """Images: uint8 [N, C, H, W]; tokens: int64 [N, L]; vectors: float64 [N, D]; pairs: float32
    [N, 2, D]."""
    targets: Tensor
    """int64 [N], classes from 0; [N, T] where the network answers at its last T positions. Of
    vectors float64 [N]: numbers, not classes. Of pairs 1 where the first is preferred, else 0."""

    def to(self, device: torch.device | str) -> Split:
        return Split(self.inputs.to(device), self.targets.to(device))


@dataclass(frozen=True, eq=False)
class Dataset:
    kind: Literal["image", "tokens", "vector", "pairs"]
    shape: tuple[int, ...]
    """(C, H, W) of an image, (L,) of a sequence, (D,) of a vector or of each of a pair."""
    classes: int
    """1 for numbers."""
    vocabulary: int
    """Tokens; 0 for all else."""
    train: Split
    validation: Split
    test: Split
    hash: str
    """16 hex digits over bytes, shapes and dtypes of the three splits."""
    mean: Tensor
    """Of the training images, float32 [C, 1, 1], in raw pixel units; empty for all else."""
    sd: Tensor
    """Likewise, over all pixels of a channel; 1 for a constant channel."""
    whole: bool = True
    """Whether an example counts as right only if all its answers are."""
    answers: int = 1
    """Positions, counted from the last, at which the network answers."""
    ood: Split | None = None
    """Examples out of distribution, with the answers of one who has understood."""
    symmetric: Tensor | None = None
    """For the inputs of `ood` int64 [N], the answers of one who knows the pairs by heart."""
    groups: dict[str, Tensor] = field(default_factory=dict)
    """Name -> bool like the validation targets: answers that are looked at apart, at least one of
    each name."""
    pretrained: Tensor | None = None
    """What an ideal pretraining knows: the coefficients of its task, float64 [D]."""
    geometry: Geometry | None = None
    """Of pairs."""

    def to(self, device: torch.device | str) -> Dataset:
        return replace(
            self,
            train=self.train.to(device),
            validation=self.validation.to(device),
            test=self.test.to(device),
            mean=self.mean.to(device),
            sd=self.sd.to(device),
            ood=self.ood and self.ood.to(device),
            symmetric=None if self.symmetric is None else self.symmetric.to(device),
            groups={name: group.to(device) for name, group in self.groups.items()},
            pretrained=None if self.pretrained is None else self.pretrained.to(device),
            geometry=self.geometry and self.geometry.to(device),
        )

    def accuracy(self, right: Tensor) -> float:
        """Percent of examples that are right, from bool like their targets; of answers, if an
        example is no whole."""
        if self.whole and right.ndim > 1:
            right = right.all(dim=1)
        return 100 * int(right.sum()) / right.numel()

    def prepare(self, inputs: Tensor) -> Tensor:
        """What the network takes: images standardized to float32 [N, C, H, W], all else as it
        is."""
        if self.kind != "image":
            return inputs
        return (inputs.float() - self.mean) / self.sd


def assemble(
    kind: Literal["image", "tokens"],
    classes: int,
    vocabulary: int,
    train: Split,
    validation: Split,
    test: Split,
) -> Dataset:
    """The Dataset of three splits, with its shape, hash and statistics."""
    mean, sd = _statistics(train.inputs) if kind == "image" else (torch.zeros(0), torch.zeros(0))
    shape = tuple(train.inputs.shape[1:])
    content = digest(train, validation, test)
    return Dataset(
        kind, shape, classes, vocabulary, train, validation, test, content, mean=mean, sd=sd
    )


def assemble_tokens(
    section: Tokens,
    splits: Sequence[Split],
    ood: Split | None = None,
    symmetric: Tensor | None = None,
    groups: dict[str, Tensor] | None = None,
) -> Dataset:
    """The Dataset of a section's three splits, and of what else it has."""
    groups = {name: group for name, group in (groups or {}).items() if group.any()}
    train, validation, test = splits
    _, vocabulary, classes = section.shape()
    made = assemble("tokens", classes, vocabulary, train, validation, test)
    content = made.hash if ood is None else digest(*splits, ood)
    return replace(
        made,
        hash=content,
        whole=section.whole,
        answers=section.answers(),
        ood=ood,
        symmetric=symmetric,
        groups=groups or {},
    )


def order(count: int, *stream: str | int) -> Tensor:
    """A permutation of range(count), int64, that depends on the names of its stream alone."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(fold(*stream)))


def sample(pool: int, count: int, *stream: str | int) -> Tensor:
    """Distinct numbers of range(pool), int64 [count], without the time or room of the whole pool;
    they depend on the names of the stream alone."""
    return torch.tensor(random.Random(fold(*stream)).sample(range(pool), count))


def draw(inputs: Tensor, targets: Tensor, sizes: Sequence[int], seed: int) -> list[Split]:
    """Disjoint splits of these sizes, in sum at most len(targets), drawn from a pool."""
    chosen = order(len(targets), seed, "split")[: sum(sizes)]
    return [Split(inputs[part], targets[part]) for part in chosen.split(list(sizes))]


def augment(inputs: Tensor, crop: int, flip: bool, generator: torch.Generator) -> Tensor:
    """Each image of a batch [N, C, H, W] moved and mirrored on its own.

    crop: up to this many pixels along each axis, zeros (black, before standardization) come in.
    flip: left to right, half of the images. Draws from the generator, on the generator's device,
    just what is asked for: row and column offsets, then flips.
    """
    if not crop and not flip:
        return inputs
    count, channels, height, width = inputs.shape
    device = inputs.device
    rows = torch.arange(height, device=device).expand(count, -1)
    columns = torch.arange(width, device=device).expand(count, -1)
    offsets = None
    if crop:
        offsets = _integers(2 * crop + 1, (2, count, 1), generator).to(device)
    if flip:
        flipped = _integers(2, (count, 1), generator).to(device).bool()
        columns = torch.where(flipped, width - 1 - columns, columns)
    if offsets is not None:
        inputs = F.pad(inputs, (crop, crop, crop, crop))
        rows, columns = rows + offsets[0], columns + offsets[1]
    images = torch.arange(count, device=device)[:, None, None, None]
    planes = torch.arange(channels, device=device)[:, None, None]
    return inputs[images, planes, rows[:, None, :, None], columns[:, None, None, :]]


def _integers(high: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randint(high, shape, generator=generator, device=generator.device)


def _statistics(images: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and sd of a channel from counts of its 256 values: exact, so equal on any machine."""
    counts = [
        torch.bincount(images[:, c].flatten(), minlength=256) for c in range(images.shape[1])
    ]
    values = torch.arange(256)
    means, sds = [], []
    for n in counts:
        pixels, total = int(n.sum()), int((n * values).sum())
        squares = int((n * values**2).sum())
        means.append(total / pixels)
        sds.append((pixels * squares - total**2) ** 0.5 / pixels or 1.0)
    return torch.tensor(means).view(-1, 1, 1), torch.tensor(sds).view(-1, 1, 1)


def digest(*splits: Split) -> str:
    content = hashlib.sha256()
    for split in splits:
        for tensor in (split.inputs, split.targets):
            content.update(f"{tensor.dtype} {tuple(tensor.shape)}\n".encode())
            content.update(tensor.contiguous().numpy().data)
    return content.hexdigest()[:16]
