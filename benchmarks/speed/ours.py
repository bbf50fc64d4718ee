"""initmem itself, as one more peer: the training loop as a study runs it, without evaluations."""

from __future__ import annotations

from benchmarks.speed.peers import Peer
from benchmarks.speed.workloads import DEVICE, Workload
from initmem.training.loop import Training


def ours(work: Workload, precision: str) -> Peer:
    training = Training(work.recipe(precision), 0, work.dataset().to(DEVICE), DEVICE)

    def steps(n: int) -> None:
        for _ in range(n):
            training.update()

    return Peer(1, steps, lambda: [dict(training.network.named_parameters())])
