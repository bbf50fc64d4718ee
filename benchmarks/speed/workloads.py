"""What is trained for a measurement: a network, synthetic data and an optimizer.

Images are noise of a fixed seed: the time of a step does not depend on what is seen. A recipe
must name a registered data set, so image workloads name cifar10 and hand their own Dataset over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from initmem.data.arithmetic import modular
from initmem.data.dataset import Dataset, Split, assemble
from initmem.models import build
from initmem.study.recipe import Recipe
from initmem.study.seeds import fold
from initmem.training.initialize import initialize

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CLASSES, STEPS = 10, 100_000
MOMENTUM = {"name": "momentum", "lr": 0.01, "momentum": 0.9, "l2": 5e-4}
ADAMW = {"name": "adamw", "lr": 1e-3, "weight_decay": 0.1}


@dataclass(frozen=True)
class Workload:
    name: str
    model: dict[str, Any]
    networks: int
    """R: how many a batched engine trains at once."""
    shape: tuple[int, ...] = ()
    """(C, H, W) of an image; empty for sequences."""
    batch: int | None = 128
    """None is the whole training set."""
    images: int = 4096
    p: int = 113
    """Modulus of sequences."""
    optim: dict[str, Any] = field(default_factory=lambda: MOMENTUM)

    def recipe(self, precision: str = "float32") -> Recipe:
        images = {"name": "cifar10", "train": self.images, "validation": 1}
        data = images if self.shape else {"name": "modular", "p": self.p, "train_fraction": 0.3}
        optim = {**self.optim, "batch": self.batch, "steps": STEPS}
        sections = {"data": data, "model": self.model, "init": {"rule": "kaiming"}, "optim": optim}
        return Recipe.model_validate({**sections, "precision": precision})

    def dataset(self) -> Dataset:
        """On the CPU."""
        if not self.shape:
            return modular(self.recipe().data)
        generator = torch.Generator().manual_seed(0)
        count = self.images
        pixels = torch.randint(
            0, 256, (count, *self.shape), generator=generator, dtype=torch.uint8
        )
        images = Split(pixels, torch.randint(CLASSES, (count,), generator=generator))
        return assemble("image", CLASSES, 0, images, images, images)

    def tensors(self) -> tuple[Tensor, Tensor]:
        """Training inputs as the network takes them, and targets."""
        data = self.dataset()
        return data.prepare(data.train.inputs).to(DEVICE), data.train.targets.to(DEVICE)

    def network(self, seed: int) -> nn.Module:
        """The textbook module, with the weights that initmem gives this seed."""
        shape, classes, vocabulary = self.shape, CLASSES, 0
        if not shape:
            shape, classes, vocabulary = (3,), self.p, self.p + 1
        recipe = self.recipe()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(fold(seed, "init"))
            network = build(recipe.model, shape, classes, vocabulary)
        initialize(network, recipe.init, seed)
        return network.to(DEVICE)

    def optimizer(self, parameters: Iterable[Tensor], foreach: bool | None = None) -> Optimizer:
        o = self.optim
        if o["name"] == "adamw":
            decay = o["weight_decay"]
            return torch.optim.AdamW(parameters, o["lr"], weight_decay=decay, foreach=foreach)
        return torch.optim.SGD(
            parameters, o["lr"], o["momentum"], weight_decay=o["l2"], foreach=foreach
        )

    def tiny(self) -> Workload:
        """The same in small, for tests: milliseconds."""
        model = {**self.model, "width": 8}
        shape = (self.shape[0], 8, 8) if self.shape else ()
        batch = 8 if self.batch else None
        return replace(self, model=model, networks=2, shape=shape, batch=batch, images=32, p=7)

    def of_one_batch(self) -> Workload:
        """The same with a training set of one batch: then everyone's first batch is the same,
        in whatever order."""
        return replace(self, images=self.batch) if self.shape and self.batch else self


def _resnet9(width: int, side: int, batch: int = 128) -> Workload:
    model, shape = {"name": "resnet9", "width": width}, (3, side, side)
    return Workload(f"ResNet-9 w{width} {side}x{side} b{batch}", model, 8, shape, batch)


def _mlp(inputs: int, width: int, networks: int) -> Workload:
    side = int(inputs**0.5)
    model = {"name": "mlp", "width": width}
    return Workload(f"MLP {inputs}-{width}-10 b128", model, networks, (1, side, side))


TRANSFORMER = {"name": "transformer", "width": 128, "heads": 4, "depth": 1, "norm": "none"}
WORKLOADS = [
    _resnet9(16, 32),
    _resnet9(8, 16),
    _mlp(784, 256, 8),
    _mlp(64, 32, 32),
    Workload("Transformer d128 mod 113 full batch", TRANSFORMER, 4, batch=None, optim=ADAMW),
]
FOR_A_GPU = _resnet9(64, 32, 512)
if DEVICE.type == "cuda":
    WORKLOADS.append(FOR_A_GPU)
DIGITS_STEP = Workload(
    "ResNet-9 w8 8x8 b50", {"name": "resnet9", "width": 8}, 8, (1, 8, 8), 50, 500
)
"""A step of studies/digits.yaml (with momentum)."""
NAMED = {work.name: work for work in WORKLOADS}
