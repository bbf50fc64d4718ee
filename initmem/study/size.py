"""How large a recipe's network, checkpoint and record are, before anything is trained.

`parameters` is exact and a test holds it against the networks; the two sizes in bytes are
estimates, for asking whether a study fits on its disk.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from initmem.study.data_section import IMAGES
from initmem.study.model_section import (
    MLP,
    Attentive,
    CifarResNet,
    ResNet9,
    ResNet18,
    TokenMLP,
    Transformer,
    TwoLayer,
    ViT,
)
from initmem.study.preference_data import GaussianPairs
from initmem.study.random_labels_section import Heads
from initmem.study.recipe import Recipe
from initmem.study.regression_data import SparseRegression
from initmem.study.token_data import Tokens

SLOTS = {"sgd": 0, "momentum": 1, "rmsprop": 1, "adam": 2, "adamw": 2, "muon": 2, "online_sgd": 0,
         "exact": 0}  # fmt: skip
"""Numbers that an optimizer keeps for a parameter; Muon keeps one for the body's matrices."""

CHECKPOINT_BYTES = 4096
"""Generators, order of the data, step, curve."""
TENSOR_BYTES = 270
"""Name, padding and directory entry of a tensor in a checkpoint file."""
RECORD_BYTES = 3072
"""Recipe, versions, accuracies."""
AUDIT_BYTES = 100
"""A tensor's line in the audit of the initialization."""
EVALUATION_BYTES = 5 * 20
"""Five numbers of the training curve as text."""
READING_BYTES = 110
"""A number that a probe read, as text with its step, name and place."""
PACKED_READING_BYTES = 50
"""The same in a checkpoint."""
COSINES_BYTES = 64 * 64
"""Those of the probe `condensation`, compressed and in base64."""
CONFIDENCE_BYTES = 2.4
"""The probability of a training example's random label, compressed and in base64."""
LABEL_BYTES = 0.6
"""A predicted label, compressed and in base64."""

GROUPS = 4
"""Of answers, where the network answers several times."""

LARGE = 1e9
"""Operations of a step from which a replica is trained alone on a CPU: its products fill a core,
and the activations of a stack would fill the cache."""

NEWTON = 10
"""Steps to an exact minimizer."""

Tensor = tuple[str, int]
"""Part (stem, body, head, or vector for a norm or bias) and number of elements."""


def parameters(recipe: Recipe) -> int:
    """Parameters of the network that the recipe describes."""
    return sum(elements for _, elements in tensors(recipe))


def operations(recipe: Recipe, shape: tuple[int, ...] | None = None) -> float:
    """Estimate for a step, forward and backward; a multiplication and an addition are two.

    shape: of an input, by default of the recipe's data. A weight of a ResNet's stage meets each
    pixel of it: with widths doubled and images halved, stages cost the same, and their weights
    are as 1 to 4 to 16, and 64 where there are four.
    """
    model, data = recipe.model, recipe.data
    if isinstance(data, SparseRegression):
        count = data.sizes()[0]
        if recipe.optim.name == "exact":  # a symmetric product of count x d by d x count
            return float(NEWTON * count**2 * data.d)
        return 6.0 * recipe.batch * data.d
    if isinstance(data, GaussianPairs):  # two inputs, and no gradient to them
        return 8.0 * parameters(recipe) * recipe.batch
    if isinstance(data, Tokens):
        each = 1 if isinstance(model, TokenMLP) else data.shape()[0]
        return 6.0 * parameters(recipe) * recipe.batch * each
    shape, classes = shape or IMAGES[data.name], len(data.labels())
    if isinstance(model, MLP):
        weights = sum(n for _, n in _mlp(model, math.prod(shape), classes))
        return 6.0 * weights * recipe.batch
    if isinstance(model, ViT):
        patches = _patches(model, shape)
        scored = 2 * model.depth * patches * model.inner  # by each patch: keys and values
        own = shape[0] * model.patch**2 * model.width + sum(n for _, n in _blocks(model))
        return 6.0 * recipe.batch * (patches * (own + scored) + model.width * classes)
    share = 4 / 85 if isinstance(model, ResNet18) else 3 / 21
    return 6.0 * parameters(recipe) * recipe.batch * shape[1] * shape[2] * share


def large(recipe: Recipe, shape: tuple[int, ...] | None = None) -> bool:
    """Whether a network is too large to gain from company on a CPU. shape: see `operations`."""
    return operations(recipe, shape) > LARGE


def checkpoint_bytes(recipe: Recipe) -> int:
    """Estimate of a checkpoint: weights, float32 unless those of a diagonal network, best
    predictor, optimizer state and readings."""
    slots = SLOTS[recipe.optim.name]
    muon, each = recipe.optim.name == "muon", 8 if recipe.model.name == "diagonal" else 4
    size = CHECKPOINT_BYTES + math.prod(readings(recipe)) * PACKED_READING_BYTES
    for part, elements in tensors(recipe):
        copies = 2 + (1 if muon and part == "body" else slots)
        size += copies * (each * elements + TENSOR_BYTES)
    heads, layers = recipe.random_labels, recipe.model.layers()
    if isinstance(heads, Heads):
        for inputs in map(layers.__getitem__, heads.layers(layers)):
            size += 3 * (4 * (inputs + 1) * heads.n + 2 * TENSOR_BYTES)  # with the two of Adam
            size += heads.standardize * (2 * 4 * inputs + 3 * TENSOR_BYTES)
    return size


def row_bytes(recipe: Recipe) -> int:
    """Estimate of a replica's record: two test predictions, curve, audit, what probes read."""
    answers = recipe.data.answers() if isinstance(recipe.data, Tokens) else 1
    answers *= not isinstance(recipe.data, SparseRegression)
    predictions = 2 * LABEL_BYTES * recipe.data.sizes()[2] * answers
    evaluations = math.ceil(recipe.total_steps / recipe.evaluation_interval)
    audit = AUDIT_BYTES * sum(1 for _ in tensors(recipe))
    times, numbers = readings(recipe)
    probed = READING_BYTES * times * numbers + COSINES_BYTES * recipe.probes.condensation
    heads = recipe.random_labels
    if isinstance(heads, Heads) and heads.confidence:
        kept = len(heads.layers(recipe.model.layers())) * recipe.data.sizes()[0]
        probed += math.ceil(CONFIDENCE_BYTES * kept)
    return RECORD_BYTES + math.ceil(predictions) + EVALUATION_BYTES * evaluations + audit + probed


def readings(recipe: Recipe) -> tuple[int, int]:
    """At how many steps the recipe's probes are read, and how many numbers each time; the groups
    of the data set are an estimate."""
    model, probes = recipe.model, recipe.probes
    blocks = model.depth if isinstance(model, Attentive) else 0
    # Queries, keys and values are one tensor and three matrices.
    matrices = sum(part != "vector" for part, _ in tensors(recipe)) + 2 * blocks
    taps = model.depth if isinstance(model, MLP | TokenMLP) else blocks
    several = isinstance(recipe.data, Tokens) and recipe.data.answers() > 1
    numbers = {
        "radius": taps + 2,
        "radial_share": 2 * taps,
        "rank": 3 * matrices + taps,
        "condensation": 2 * matrices,
        "hessian": 4,
        "sink": blocks,
        "groups": 2 * (GROUPS if several else 1),
        "features": 4,
    }
    heads = recipe.random_labels
    if isinstance(heads, Heads):
        # Five numbers a layer; three more, which at two times alone are read, do not count.
        numbers["random_labels"] = 5 * len(heads.layers(model.layers()))
    interval = probes.every or recipe.evaluation_interval
    times = 1 + math.ceil(recipe.total_steps / interval) if recipe.read else 0
    return times, sum(numbers[name] for name in recipe.read)


def tensors(recipe: Recipe) -> Iterator[Tensor]:
    """The network's parameter tensors."""
    model = recipe.model
    if isinstance(recipe.data, SparseRegression):
        return iter([*2 * [("stem", recipe.data.d)], *2 * [("head", recipe.data.d)]])
    if isinstance(recipe.data, GaussianPairs):
        assert isinstance(model, TwoLayer)
        return iter(
            [(p, n * recipe.data.d) for p, n in (("stem", model.neurons), ("body", model.off))]
        )
    if isinstance(recipe.data, Tokens):
        token_shape = recipe.data.shape()
        if isinstance(model, TokenMLP):
            return _token_mlp(model, *token_shape)
        assert isinstance(model, Transformer)
        return _transformer(model, *token_shape)
    shape, classes = IMAGES[recipe.data.name], len(recipe.data.labels())
    if isinstance(model, MLP):
        return _mlp(model, math.prod(shape), classes)
    if isinstance(model, ViT):
        return _vit(model, shape, classes)
    if isinstance(model, ResNet9):
        return _resnet(model, [2, 4, 8], 1, True, shape[0], classes)
    if isinstance(model, ResNet18):
        return _resnet(model, [1, 2, 4, 8], 2, True, shape[0], classes)
    assert isinstance(model, CifarResNet)
    depth = int(model.name.removeprefix("resnet"))
    return _resnet(model, [1, 2, 4], (depth - 2) // 6, False, shape[0], classes)


def _resnet(
    model: ResNet9 | ResNet18 | CifarResNet,
    stages: list[int],
    blocks: int,
    projected: bool,
    channels: int,
    classes: int,
) -> Iterator[Tensor]:
    norm = range(0 if model.norm == "none" else 2)  # scale and shift
    width = model.width
    yield "stem", 9 * channels * width
    yield from (("vector", width) for _ in norm)
    for stage in stages:
        for _ in range(blocks):
            inputs, width = width, stage * model.width
            for before in (inputs, width):
                yield "body", 9 * before * width
                yield from (("vector", width) for _ in norm)
            if projected and inputs != width:
                yield "body", inputs * width
    yield "head", width * classes
    yield "vector", classes


def _mlp(model: MLP, inputs: int, classes: int) -> Iterator[Tensor]:
    width = model.width
    layers = [("stem", inputs, width), *[("body", width, width)] * (model.depth - 1)]
    for part, before, after in [*layers, ("head", width, classes)]:
        yield part, before * after
        if model.bias:
            yield "vector", after


def _token_mlp(model: TokenMLP, length: int, vocabulary: int, classes: int) -> Iterator[Tensor]:
    yield "stem", vocabulary * model.embedding
    widths = [length * model.embedding, *[model.width] * model.depth]
    for before, after in itertools.pairwise(widths):
        yield "body", before * after
        if model.bias:
            yield "vector", after
    yield "head", model.width * classes
    if model.bias:
        yield "vector", classes


def _transformer(
    model: Transformer, length: int, vocabulary: int, classes: int
) -> Iterator[Tensor]:
    yield "stem", vocabulary * model.width
    if model.positions == "learned":
        yield "stem", length * model.width
    yield from _blocks(model)
    if not model.tied:
        yield "head", model.width * classes


def _vit(model: ViT, shape: tuple[int, ...], classes: int) -> Iterator[Tensor]:
    yield "stem", shape[0] * model.patch**2 * model.width
    if model.positions == "learned":
        yield "stem", _patches(model, shape) * model.width
    yield from _blocks(model)
    yield "head", model.width * classes


def _patches(model: ViT, shape: tuple[int, ...]) -> int:
    return shape[1] * shape[2] // model.patch**2


def _blocks(model: Attentive) -> Iterator[Tensor]:
    width, hidden, inner = model.width, model.mlp or 4 * model.width, model.inner
    norms = [("vector", width)] * {"none": 0, "rms": 1, "layer": 2}[model.norm]
    layers = [(width, 3 * inner), (inner, width), (width, hidden), (hidden, width)]
    if model.gated:
        layers.append((width, inner))
    for _ in range(model.depth):
        yield from 2 * norms
        for before, after in layers:
            yield "body", before * after
    if model.norm_at == "pre":
        yield from norms
