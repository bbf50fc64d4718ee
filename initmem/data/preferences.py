"""Pairs of Gaussian inputs with a teacher's preferences: a stream to train on, whose batches are
functions of seed and step, and fixed samples to measure on."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from initmem.data.dataset import Dataset, Split, digest
from initmem.data.geometry import Geometry, geometry
from initmem.study.preference_data import GaussianPairs
from initmem.study.seeds import fold


def gaussian_pairs(data: GaussianPairs) -> Dataset:
    """Samples of pairs, each with the labels that it is to be measured against: of training those
    that the teacher draws, for its own inputs; of all others, whose inputs are N(0, I_d), the
    order of the true rewards, out of distribution of task 2. A split without a number is 0."""
    seed, known = data.split or 0, geometry(data)
    train = _sampled(data, known, data.validation, (seed, "measured"))
    if known.seen is not None:
        train = Split(train.inputs @ known.seen.T, train.targets)
    validation = _ordered(data, known.theta1, data.validation, (seed, "validation"))
    test = _ordered(data, known.theta1, data.test, (seed, "test"))
    ood = _ordered(data, known.theta2, data.test, (seed, "ood"))
    none = torch.zeros(0)
    return Dataset(
        "pairs", (data.d,), 2, 0, train, validation, test,
        digest(train, validation, test, ood), mean=none, sd=none, ood=ood, geometry=known,
    )  # fmt: skip


def batch(data: GaussianPairs, known: Geometry, count: int, seed: int, step: int) -> Split:
    """What a replica with that seed learns at that step: coordinates of pairs in what is `seen`
    [N, 2, R], where that is not all, and labels y ~ Bernoulli(sigmoid(r(x) - r(x'))) int64 [N] of
    the teacher."""
    return _sampled(data, known, count, (seed, "pairs", step))


def _sampled(
    data: GaussianPairs, known: Geometry, count: int, stream: tuple[str | int, ...]
) -> Split:
    # Drawn on the CPU: the same on every device.
    generator, device = torch.Generator().manual_seed(fold(*stream)), known.teacher.device
    teacher_R = known.teacher if known.seen is None else known.seen.T @ known.teacher
    chance_N = torch.rand(count, generator=generator).to(device)
    inputs = torch.empty(count, 2, len(teacher_R)).normal_(generator=generator).to(device)
    labels_N = chance_N < torch.sigmoid(_difference(data, inputs, teacher_R))
    return Split(inputs, labels_N.long())


def hermite(link: str, z: Tensor) -> Tensor:
    """The Hermite polynomial of degree 2, 4 or 6, whose square has the mean 1 over N(0, 1)."""
    w = z.square()
    if link == "h2":
        return (w - 1) / math.sqrt(2)
    if link == "h4":
        return (w * (w - 6) + 3) / math.sqrt(24)
    assert link == "h6"
    return (w * (w * (w - 15) + 45) - 15) / math.sqrt(720)


def _ordered(
    data: GaussianPairs, theta_D: Tensor, count: int, stream: tuple[str | int, ...]
) -> Split:
    generator = torch.Generator().manual_seed(fold(*stream))
    inputs = torch.empty(count, 2, data.d).normal_(generator=generator)
    return Split(inputs, (_difference(data, inputs, theta_D) > 0).long())


def _difference(data: GaussianPairs, inputs: Tensor, theta_D: Tensor) -> Tensor:
    """r(x) - r(x') [N]."""
    rewards_N2 = data.reward * hermite(data.link, inputs @ theta_D)
    return rewards_N2[:, 0] - rewards_N2[:, 1]
