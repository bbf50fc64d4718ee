"""Name -> what is timed on a workload, naive_loop first."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.speed.fused import hfta_like
from benchmarks.speed.ours import ours
from benchmarks.speed.peers import Peer, naive_loop, preloaded, vmap
from benchmarks.speed.workloads import Workload

Variant = Callable[[Workload, str], Peer]


def variants(work: Workload) -> dict[str, Variant]:
    """preloaded is left out where naive_loop holds the tensors anyway; networks are fused by hand
    for ResNets alone."""
    found: dict[str, Variant] = {"naive_loop": naive_loop}
    if work.batch is not None:
        found["preloaded"] = preloaded
    found["vmap"] = vmap
    if work.model["name"] == "resnet9":
        found["hfta_like"] = hfta_like
    return {**found, "ours": ours}
