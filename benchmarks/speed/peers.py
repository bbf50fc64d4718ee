"""What people train networks with today, each as a function from a workload and a precision to a
Peer: naive_loop, preloaded and vmap; `fused.py` has hfta_like.

All do the same: the same networks, batch size and optimizer (torch's own), float32 or bf16 by
autocast of the forward pass. The loops train one network after the other, so their time a
network-step is that of one network; vmap trains R at once, each on its own order of the data.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, grad, replace_all_batch_norm_modules_, stack_module_state
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.speed.workloads import DEVICE, Workload

Weights = dict[str, Tensor]
"""Name -> parameter of one network."""


@dataclass(frozen=True)
class Peer:
    networks: int
    """Trained at once, by seed from 0."""
    steps: Callable[[int], None]
    """Do so many optimizer steps of each of them."""
    weights: Callable[[], list[Weights]]


def naive_loop(work: Workload, precision: str, seed: int = 0) -> Peer:
    """The textbook: a DataLoader of tensors, contiguous images, torch.optim's defaults.

    On the whole training set a DataLoader would collate thousands of sequences one by one, which
    nobody does: there the loop holds the tensors.
    """
    whole = TensorDataset(*work.tensors())
    batches = iter(lambda: whole.tensors, None)
    if work.batch is not None:
        batches = _endless(DataLoader(whole, work.batch, shuffle=True, drop_last=True))
    return _loop(work, precision, batches, seed, torch.contiguous_format)


def preloaded(work: Workload, precision: str, seed: int = 0) -> Peer:
    """The same without a DataLoader, and with images channels-last."""
    inputs, targets = work.tensors()
    layout = torch.channels_last if inputs.ndim == 4 else torch.contiguous_format
    inputs = inputs.contiguous(memory_format=layout)
    batches = ((inputs[b_1B[0]], targets[b_1B[0]]) for b_1B in orders(work, 1))
    return _loop(work, precision, batches, seed, layout)


def _loop(
    work: Workload,
    precision: str,
    batches: Iterator[tuple[Tensor, Tensor]],
    seed: int,
    layout: torch.memory_format,
) -> Peer:
    network = work.network(seed).to(memory_format=layout)
    optimizer = work.optimizer(network.parameters())

    def steps(n: int) -> None:
        for _ in range(n):
            inputs, targets_B = next(batches)
            optimizer.zero_grad()
            with autocast(precision):
                logits_BC = network(inputs)
            F.cross_entropy(logits_BC.float(), targets_B).backward()
            optimizer.step()

    return Peer(1, steps, lambda: [dict(network.named_parameters())])


def vmap(work: Workload, precision: str) -> Peer:
    """torch.func: gradients of R stacked networks by vmap(grad), momentum on the stacks.

    vmap cannot update the running statistics of BatchNorm, so it goes without: less work than
    everyone else's. It would loop over the fused attention of a CPU; the plain one is as fast
    or faster.
    """
    networks = [work.network(seed) for seed in range(work.networks)]
    for network in networks:
        replace_all_batch_norm_modules_(network)
    stacks, _ = stack_module_state(networks)
    skeleton = copy.deepcopy(networks[0]).to("meta")
    optimizer = work.optimizer(stacks.values(), foreach=True)
    inputs, targets = work.tensors()

    def loss(weights: Weights, inputs: Tensor, targets_B: Tensor) -> Tensor:
        logits_BC = functional_call(skeleton, weights, (inputs,))
        return F.cross_entropy(logits_BC.float(), targets_B)

    one_batch = work.batch is None  # of all networks: not copied for each
    gradients = torch.vmap(grad(loss), in_dims=(0, None, None) if one_batch else 0)
    batches = orders(work, work.networks)

    @torch.no_grad()  # grad needs no graph around it
    def steps(n: int) -> None:
        for _ in range(n):
            batch_RB = next(batches)
            batch = (inputs, targets) if one_batch else (inputs[batch_RB], targets[batch_RB])
            with autocast(precision), sdpa_kernel(SDPBackend.MATH):
                found = gradients(stacks, *batch)
            for name, stack in stacks.items():
                stack.grad = found[name]
            optimizer.step()

    def weights() -> list[Weights]:
        return [{name: s[r] for name, s in stacks.items()} for r in range(work.networks)]

    return Peer(work.networks, steps, weights)


def orders(work: Workload, networks: int) -> Iterator[Tensor]:
    """Batches without end, [R, B] int64: each network shuffles the training set every epoch and
    drops what is left over."""
    generator = torch.Generator().manual_seed(0)
    count = work.recipe().data.sizes()[0]
    size = work.batch or count
    while True:
        shuffled = [torch.randperm(count, generator=generator) for _ in range(networks)]
        order_RN = torch.stack(shuffled).to(DEVICE)
        yield from (b for b in order_RN.split(size, dim=1) if b.shape[1] == size)


def autocast(precision: str) -> torch.autocast:
    return torch.autocast(DEVICE.type, torch.bfloat16, enabled=precision == "bf16")


def _endless(loader: DataLoader[Any]) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        yield from loader
