"""The `resources` section of a study: where its blocks are trained, and on how much."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from initmem.study.section import Count, Section, invalid

MAX_THREADS = 1024
"""Of a block. torch.set_num_threads crashes the process where the system gives no more."""


class Resources(Section):
    device: Literal["auto", "cpu", "cuda"] | None = None
    """auto takes what there is. Default: cuda where gpus are asked for, else cpu."""
    cpus: Annotated[int, Field(ge=1, le=MAX_THREADS)] = 1
    """Cores, and threads, of a block: 1 and 2 threads give different bits."""
    gpus: Annotated[float, Field(ge=0)] = 0.0
    """GPUs of a block: 1/k (0.25, 0.333) packs k blocks on each; or a whole number."""
    on_oom: Literal["fail", "grow"] = "fail"
    """What becomes of a replica that ran out of a share of a GPU: it is failed, or grow trains it
    once more, alone with a whole one."""
    engine: Literal["auto", "loop", "batched", "graph"] = "loop"
    """How a block trains its replicas. loop: one after the other, each the plain module, the
    reference. batched: those of one shape at once, for mlp and transformer. graph: on a GPU,
    those of one shape at once. auto: the fastest of them here, timed once a run for each shape.
    Engines differ in bits, not in distribution."""
    replicas: Count | Literal["all"] = "all"
    """Replicas a block trains; all is a whole cell."""
    checkpoint_every: Count = 1000
    """Steps between checkpoints."""
    keep_checkpoints: bool = False
    """Keep those of finished replicas."""
    retries: Annotated[int, Field(ge=0)] = 3
    """Times a replica may lose its worker or node without getting to another checkpoint; then it
    is failed. Errors of the program itself are never tried again."""
    deterministic: bool = False
    """On a GPU, use only kernels whose bits do not depend on the run; on a CPU they never do."""

    @model_validator(mode="after")
    def _placeable(self) -> Resources:
        if self.device == "cpu" and self.gpus:
            raise invalid("gpus", f"device: cpu has no use for gpus: {self.gpus:g}")
        if self.engine == "graph" and self.device != "cuda" and not self.gpus:
            raise invalid("engine", "graph is for a GPU: write device: cuda, or gpus")
        if 0 < self.gpus and self.gpus != round(self.gpus) and _fitting(self.gpus) is None:
            k = min(max(1, round(1 / self.gpus)), 99)
            near = " or ".join(f"{1 / n:.3g}" for n in sorted({k, k + 1}))
            text = f"a share must be 1/k, so that k blocks fill a GPU: {near}; or a whole number"
            raise invalid("gpus", f"{text}; got {self.gpus:g}")
        return self

    @property
    def blocks_a_gpu(self) -> int:
        """Blocks that share a GPU."""
        return _fitting(self.gpus) or 1


def _fitting(share: float) -> int | None:
    """How many blocks with this share of a GPU fill it; 0.33 is a third."""
    k = round(1 / share) if 0.01 <= share < 1 else 0
    return k if k > 1 and abs(share * k - 1) < 0.011 else None
