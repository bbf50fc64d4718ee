"""The reference of the training loop, written out: torch's own optimizers on a plain nn.Module.

It shares with the loop what a recipe means (network, data, order, augmentation, seeds) and none
of how it trains.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from initmem.data.dataset import augment, order
from initmem.data.load import load
from initmem.models import build
from initmem.study.recipe import Recipe
from initmem.study.seeds import fold


def plain(recipe: Recipe, seed: int) -> tuple[dict[str, Tensor], Tensor, bytes]:
    """Train: the final state of the network, the loss of every batch, the predicted classes of
    the test set as bytes."""
    o: Any = recipe.optim
    data = load(recipe.data, Path("data"))
    layout = torch.channels_last if data.kind == "image" else torch.contiguous_format
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(fold(seed, "init"))
        network = build(recipe.model, data.shape, data.classes, data.vocabulary)
    _initialize(network, recipe.init, seed)
    network.to(memory_format=layout)

    def logits(inputs: Tensor) -> Tensor:
        inputs = data.prepare(inputs)
        if data.kind == "image":
            inputs = inputs.contiguous(memory_format=layout)
        with torch.autocast("cpu", torch.bfloat16, enabled=recipe.precision == "bf16"):
            return network(inputs).float()

    kernels, matrices = _matrices(network) if o.name == "muon" else ([], [])
    optimizers = _optimizers(o, network, kernels, matrices)
    count = len(data.train.targets)
    batch = o.batch or count
    total = o.steps
    first, end = map(int, o.decay_window.split("-")) if o.decay_window else (0, total)
    losses = []
    for step in range(total):
        epoch, place = divmod(step, count // batch)
        chosen = order(count, seed, "order", epoch)[place * batch : (place + 1) * batch]
        inputs = data.train.inputs[chosen]
        crop, flip = getattr(recipe.data, "crop", 0), getattr(recipe.data, "flip", False)
        if crop or flip:
            generator = torch.Generator().manual_seed(fold(seed, "augment", step))
            inputs = augment(inputs, crop, flip, generator)
        network.zero_grad()
        loss = F.cross_entropy(logits(inputs), data.train.targets[chosen])
        loss.backward()
        losses.append(loss.detach())
        if o.clip:
            nn.utils.clip_grad_norm_(network.parameters(), o.clip)
        for kernel, matrix in zip(kernels, matrices, strict=True):
            assert kernel.grad is not None
            matrix.grad = kernel.grad.flatten(1)
        rate = o.lr
        if o.schedule == "cosine":
            rate = rate * (0.5 * (1 + math.cos(math.pi * step / total)))
        if step < o.warmup:
            rate = rate * ((step + 1) / (o.warmup + 1))
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
                group["weight_decay"] = (o.l2 or o.weight_decay) if first <= step < end else 0.0
            optimizer.step()
        with torch.no_grad():
            for kernel, matrix in zip(kernels, matrices, strict=True):
                kernel.copy_(matrix.view(kernel.shape))
    network.eval()
    with torch.no_grad():
        predicted = [logits(inputs).argmax(1) for inputs in data.test.inputs.split(512)]
    predictions = bytes(torch.cat(predicted).to(torch.uint8).numpy())
    return network.state_dict(), torch.stack(losses), predictions


@torch.no_grad()
def _initialize(network: nn.Module, init: Any, seed: int) -> None:
    """He et al. 2015 with a readout of gain 1, times the scale."""
    assert init.rule == "kaiming" and init.stem == init.body == init.head == 1
    for name, layer in network.named_modules():
        if not isinstance(layer, nn.Linear | nn.Conv2d | nn.Embedding):
            continue
        inputs = layer.weight.shape[-1]
        if isinstance(layer, nn.Conv2d):
            inputs = layer.in_channels * math.prod(layer.kernel_size)
        generator = torch.Generator().manual_seed(fold(seed, "init", f"{name}.weight"))
        noise = torch.empty(layer.weight.shape).normal_(generator=generator)
        gain = 1 if name == "head" else 2
        layer.weight.copy_(noise * (init.scale * math.sqrt(gain / inputs)))


def _matrices(network: nn.Module) -> tuple[list[Tensor], list[nn.Parameter]]:
    """The kernels between the first and the last layer, and a matrix for each, a row an output
    channel."""
    inner = [(n, p) for n, p in network.named_parameters() if n.startswith("body.")]
    kernels: list[Tensor] = [p for _, p in inner if p.ndim > 1]
    return kernels, [nn.Parameter(k.detach().flatten(1).clone()) for k in kernels]


def _optimizers(
    o: Any, network: nn.Module, kernels: list[Tensor], matrices: list[nn.Parameter]
) -> list[torch.optim.Optimizer]:
    """torch's, with its own weight_decay: L2 for all but the AdamW kind, where it is decoupled."""
    everything = list(network.parameters())
    if o.name == "sgd":
        return [torch.optim.SGD(everything)]
    if o.name == "momentum":
        return [torch.optim.SGD(everything, momentum=o.momentum, nesterov=o.nesterov)]
    if o.name == "rmsprop":
        return [torch.optim.RMSprop(everything, alpha=o.alpha, eps=o.eps)]
    if o.name == "adam":
        return [torch.optim.Adam(everything, betas=(o.beta1, o.beta2), eps=o.eps)]
    if o.name == "adamw":
        return [torch.optim.AdamW(everything, betas=(o.beta1, o.beta2), eps=o.eps)]
    taken = {id(kernel) for kernel in kernels}
    rest = [p for p in everything if id(p) not in taken]
    muon = torch.optim.Muon(matrices, momentum=o.momentum, adjust_lr_fn="match_rms_adamw")
    return [muon, torch.optim.AdamW(rest, betas=(0.9, 0.95))]
