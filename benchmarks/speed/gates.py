"""Nothing is timed before this holds: from the same weights and the same batch, every variant
takes the step of naive_loop.

weights   after one step, relative to their norm: within 1e-5
step      the change of the weights, relative to its own norm: within 3e-3

The second is the sharper one: leaving out L2 changes a step by 5e-3 to 7e-3, bf16 by 1.5e-2 to
9e-2. It cannot be 1e-5 for a deep network of ReLUs in float32: of millions of inputs some are so
near to 0 that rounding decides whether a gradient passes, and a single one moves the step by 6e-4
(measured between contiguous and channels-last images). Without such a one it is 2e-5 or less.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.speed.peers import Weights, naive_loop
from benchmarks.speed.variants import variants
from benchmarks.speed.workloads import Workload

WEIGHTS, STEP = {"float32": 1e-5, "bf16": 1e-2}, {"float32": 3e-3, "bf16": 0.2}
"""bf16 keeps 8 bits: its gate finds what is wrong, not what is imprecise."""


@dataclass(frozen=True)
class Gap:
    """The largest over the networks of a variant."""

    weights: float
    step: float


def gaps(work: Workload) -> dict[str, Gap]:
    """Variant -> how far it is from naive_loop after a step; ours also in bf16.

    Raises AssertionError, naming workload, variant and number, where that is too far.
    """
    work = work.of_one_batch()
    starts = [_flat(dict(work.network(r).named_parameters())) for r in range(work.networks)]
    ends = [_end(work, r) for r in range(work.networks)]
    found = {}
    for name, variant in variants(work).items():
        for precision in ("float32", "bf16") if name == "ours" else ("float32",):
            peer = variant(work, precision)
            peer.steps(1)
            flat = [_flat(weights) for weights in peer.weights()]
            assert len(flat) == peer.networks, f"{work.name}: {name} lacks a network"
            triples = list(zip(flat, ends, starts, strict=False))  # a loop has one network
            gap = Gap(
                max(_norm(a - end) / _norm(end) for a, end, _ in triples),
                max(_norm(a - end) / _norm(end - start) for a, end, start in triples),
            )
            told = f"{work.name}: {name} {precision} is not naive_loop's network:"
            assert gap.weights <= WEIGHTS[precision], f"{told} weights differ by {gap.weights:.1e}"
            assert gap.step <= STEP[precision], f"{told} the step differs by {gap.step:.1e}"
            found[f"{name} {precision}"] = gap
    return found


def _end(work: Workload, seed: int) -> Tensor:
    peer = naive_loop(work, "float32", seed)
    peer.steps(1)
    return _flat(peer.weights()[0])


def _flat(weights: Weights) -> Tensor:
    """In the order of the names; on a GPU too, sums are held against each other on the CPU."""
    return torch.cat([weights[name].detach().flatten() for name in sorted(weights)]).double().cpu()


def _norm(x: Tensor) -> float:
    return float(x.norm())
