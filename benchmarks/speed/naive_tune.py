"""studies/digits.yaml as a user of Ray Tune would write it from the tutorials.

    python -m benchmarks.speed.naive_tune --storage /tmp/naive

A function trainable, a network a trial; a grid over learning rate, L2, init scale and seed;
a Dataset with torchvision's transforms, a DataLoader, tune.report. It trains what the study does:
64 ResNet-9 of width 8 with plain SGD, 1,000 steps of 50 images, evaluated every 50 steps on
training and validation images and at the end on the test images, two trials at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
import ray
import torch
import torch.nn.functional as F
from ray import tune
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from initmem.models import build
from initmem.study.model_section import ResNet9

BATCH, EVALUATE_EVERY, EPOCHS = 50, 5, 100
TRAIN, VALIDATION = 500, 300
GRID = {
    "lr": [0.01, 0.018, 0.033, 0.06],
    "l2": [1e-4, 1e-1],
    "scale": [0.25, 1.0, 2.0, 3.0],
    "seed": [0, 1],
}


class Digits(Dataset[tuple[Tensor, int]]):
    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.images, self.labels = images, labels
        self.transform = transforms.Compose(
            [
                transforms.ToPILImage(),
                transforms.ToTensor(),
                transforms.Normalize((0.0192,), (0.0236,)),
            ]
        )

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(self.images[index]), int(self.labels[index])


def splits() -> list[Digits]:
    """Training, validation and test images."""
    digits = load_digits()
    images = digits.images.astype(np.uint8)
    order = np.random.default_rng(0).permutation(len(images))
    parts = np.split(order, [TRAIN, TRAIN + VALIDATION])
    return [Digits(images[part], digits.target[part]) for part in parts]


def initialize(network: nn.Module, scale: float) -> None:
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            with torch.no_grad():
                layer.weight.mul_(scale)


@torch.no_grad()
def evaluate(network: nn.Module, loader: DataLoader[Any]) -> tuple[float, float]:
    """Accuracy in percent, and mean loss."""
    network.eval()
    correct, loss, count = 0, 0.0, 0
    for images, labels in loader:
        logits = network(images)
        correct += (logits.argmax(1) == labels).sum().item()
        loss += F.cross_entropy(logits, labels, reduction="sum").item()
        count += len(labels)
    network.train()
    return 100 * correct / count, loss / count


def train(config: dict[str, Any]) -> None:
    torch.manual_seed(config["seed"])
    network = build(ResNet9(name="resnet9", width=8), (1, 8, 8), 10, 0)
    initialize(network, config["scale"])
    optimizer = torch.optim.SGD(network.parameters(), config["lr"], weight_decay=config["l2"])
    parts = splits()
    loader = DataLoader(parts[0], BATCH, shuffle=True, drop_last=True)
    train_loader, validation_loader, test_loader = (DataLoader(p, 512) for p in parts)
    epochs = config["epochs"]
    for epoch in range(1, epochs + 1):
        for images, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(network(images), labels).backward()
            optimizer.step()
        if epoch % EVALUATE_EVERY == 0 or epoch == epochs:
            metrics = {}
            for name, part in (("train", train_loader), ("validation", validation_loader)):
                metrics[f"{name}_accuracy"], metrics[f"{name}_loss"] = evaluate(network, part)
            if epoch == epochs:
                metrics["test_accuracy"], metrics["test_loss"] = evaluate(network, test_loader)
            tune.report(metrics)


@click.command()
@click.option("--storage", required=True)
@click.option("--epochs", default=EPOCHS, show_default=True)
@click.option("--points", type=int, help="Values of lr x l2; default all 8.")
def main(storage: str, epochs: int, points: int | None) -> None:
    """Train the grid."""
    grid = dict(GRID)
    if points:
        grid |= {"lr": GRID["lr"][:points], "l2": GRID["l2"][:1]}
    space = {name: tune.grid_search(values) for name, values in grid.items()}
    ray.init(num_cpus=2, include_dashboard=False)
    tuner = tune.Tuner(
        tune.with_resources(train, {"cpu": 1}),
        param_space={**space, "epochs": epochs},
        run_config=tune.RunConfig(name="digits", storage_path=str(Path(storage).absolute())),
    )
    results = tuner.fit()
    best = results.get_best_result("validation_accuracy", "max")
    print(f"{len(results)} trials, {results.num_errors} errors, best {best.config}")
    assert not results.num_errors


if __name__ == "__main__":
    main()
