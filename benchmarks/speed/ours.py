"""initmem itself, as one more peer: the engine that `engine: auto` would take here, as a study
runs it, without evaluations."""

from __future__ import annotations

from benchmarks.speed.peers import Peer
from benchmarks.speed.workloads import DEVICE, Workload
from initmem.training.batched import alone
from initmem.training.loop import ENGINES
from initmem.training.replica import Training


def ours(work: Workload, precision: str) -> Peer:
    recipe, data = work.recipe(precision), work.dataset().to(DEVICE)
    single = alone(recipe, DEVICE, data.shape)
    # A large ResNet gains nothing in a stack of one; the Transformer's algebra pays alone, too.
    name = "loop" if single and work.shape else "batched"
    name = "graph" if DEVICE.type == "cuda" and work.shape else name
    count = 1 if single else work.networks
    trainings = [Training(recipe, seed, data, DEVICE, name) for seed in range(count)]
    of = ENGINES[name](trainings)

    def steps(n: int) -> None:
        for _ in range(n):
            of.update()

    return Peer(count, steps, lambda: [dict(t.network.named_parameters()) for t in trainings])
