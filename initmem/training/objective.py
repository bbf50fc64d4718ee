"""What answers are held against their targets by: classes by cross-entropy and the percent that is
right, numbers by the squared error and the percent of the targets' mean square that is explained,
preferences by the Bradley-Terry loss.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from initmem.data.dataset import Dataset


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean over answers: in nats, or the mean squared error."""
    if targets.is_floating_point():
        return F.mse_loss(outputs, targets)
    return F.cross_entropy(outputs.flatten(0, -2), targets.flatten())


def preference_loss(margins_B: Tensor, labels_B: Tensor, slope: float) -> Tensor:
    """(-log P(label) - log 2) / slope, float [B], where the first of a pair is preferred (label 1)
    with probability sigmoid(slope margin): 0 without a preference, below 0 for a good one, and at
    slope 0 the limit, (1/2 - label) margin (Bradley and Terry 1952)."""
    if slope == 0:
        return (0.5 - labels_B) * margins_B
    signs_B = 1 - 2 * labels_B
    # In float64, for at small slopes the difference is one of nearly equal numbers.
    return (F.softplus(signs_B * slope * margins_B.double()) - math.log(2)) / slope


def total(outputs: Tensor, targets: Tensor) -> Tensor:
    """The sum over answers, float64."""
    if targets.is_floating_point():
        return F.mse_loss(outputs, targets, reduction="sum").double()
    of_all, targets_M = outputs.flatten(0, -2), targets.flatten()
    return F.cross_entropy(of_all, targets_M, reduction="sum").double()


def answers(outputs: Tensor, targets: Tensor) -> Tensor:
    """Predicted classes, or the numbers themselves."""
    return outputs if targets.is_floating_point() else outputs.argmax(dim=-1)


def accuracy(data: Dataset, predicted: Tensor, targets: Tensor) -> float:
    """Percent; of numbers 100 (1 - mean squared error / mean square of the targets)."""
    if targets.is_floating_point():
        off, size = (predicted - targets).square().mean(), targets.square().mean()
        return float(100 * (1 - off / size))
    return data.accuracy(predicted == targets)


def constant_loss(targets: Tensor) -> float:
    """Of the best constant prediction: the entropy of classes in nats, the variance of numbers."""
    if targets.is_floating_point():
        return float(targets.var(correction=0))
    counts = torch.bincount(targets.cpu().flatten()).double()
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * shares.log()).sum())


def packed(predicted: Tensor) -> bytes | None:
    """A byte a class; numbers are not kept."""
    if predicted.is_floating_point():
        return None
    return bytes(predicted.flatten().to(torch.uint8).cpu().numpy())
