"""What the heads of `training/random_labels.py` know of the training examples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch

from initmem.training.probes.looking import EXAMPLES, Values, at_rest, outputs
from initmem.training.random_labels import Answers, Features, complexity, pooled

if TYPE_CHECKING:
    from initmem.training.replica import Training


def random_labels(training: Training) -> Values:
    """Of each head, at its layer, over all training examples as the network takes them at rest,
    without crops and flips: accuracy (percent of random labels), chance (100/n), complexity (see
    there) and confidence (mean probability of the right one). running_accuracy: percent right in
    the steps since the last reading, each before it was learned from. At the first step and the
    last, where the recipe asks for a control: control_accuracy, control_complexity and
    control_confidence of fresh heads, trained on the features of the frozen network."""
    heads = training.random_labels
    values = _values(training, "", heads.answers(heads.heads, _features(training)))
    running = heads.told()
    for name, share in zip(heads.names, running or [], strict=bool(running)):
        values["running_accuracy", name] = share
    epochs = heads.section.control
    if epochs is not None and (training.step == 0 or training.at_end):
        batches = list(_features(training))
        fresh = heads.controlled(batches, training.recipe.batch, epochs)
        values |= _values(training, "control_", heads.answers(fresh, batches))
    return values


def confidences(training: Training) -> bytes:
    """Probability of each training example's random label by each head, [K, N] in the order of the
    layers, float16 in little-endian order."""
    heads = training.random_labels
    with at_rest(training.network):
        answers = heads.answers(heads.heads, _features(training))
    return answers.p_KN.cpu().numpy().astype(np.dtype("<f2")).tobytes()


def _values(training: Training, prefix: str, answers: Answers) -> Values:
    heads, values = training.random_labels, {}
    n = heads.section.n
    shares = answers.right_KN.double().mean(dim=1).tolist()
    means = answers.p_KN.double().mean(dim=1).tolist()
    for name, share, mean in zip(heads.names, shares, means, strict=True):
        values[f"{prefix}accuracy", name] = 100 * share
        values[f"{prefix}complexity", name] = complexity(share, n)
        values[f"{prefix}confidence", name] = mean
        if not prefix:
            values["chance", name] = 100 / n
    return values


@torch.no_grad()
def _features(training: Training) -> Iterator[Features]:
    """Of all training examples, in their order, a batch at a time."""
    modules = training.random_labels.modules
    for inputs in training.data.train.inputs.split(EXAMPLES):
        with outputs(modules) as found:
            training.forward(inputs)
        yield [pooled(found[name]) for name in modules]
