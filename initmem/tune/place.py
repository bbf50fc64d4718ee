"""Where a block is trained: the device, and how much of it is the block's own."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from initmem.study.spec import Study, UserError

CONTEXT_BYTES = 10**9
"""Set aside in a share of a GPU for what a process takes there beside torch's own memory: a
guess, on the safe side."""

OUT_OF_MEMORY = "OutOfMemoryError"
"""How the `error` of a replica begins that asked for more than its block had."""


@dataclass(frozen=True)
class Place:
    device: torch.device
    gpus: float | None = None
    """How much of a GPU, or how many; None on a CPU."""

    @property
    def limit(self) -> int | None:
        """Bytes of GPU memory that torch may hold here; None where all of it is the block's."""
        if self.gpus is None or self.gpus >= 1:
            return None
        share = self.gpus * _total(self.device)
        return int(max(share - CONTEXT_BYTES, share / 2))

    def hold(self) -> None:
        """Keep this process to its share of a GPU's memory, and count its peak from here on."""
        if self.gpus is not None:
            part = 1.0 if self.limit is None else self.limit / _total(self.device)
            torch.cuda.set_per_process_memory_fraction(part, self.device)
            torch.cuda.reset_peak_memory_stats(self.device)

    def peaks(self) -> dict[str, Any]:
        """For a row: the most bytes that this process held, on the host since it began, and by
        torch on its GPU since `hold`."""
        host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        gpu = None if self.gpus is None else torch.cuda.max_memory_reserved(self.device)
        return {"run.gpus": self.gpus, "run.host_peak": host, "run.gpu_peak": gpu}


def here(study: Study) -> Place:
    """A place in this process, which has the machine for itself. Raises UserError where GPUs are
    asked for and there are none."""
    there = torch.cuda.device_count()
    if asked(study) == "cuda" and not there:
        resources = study.resources
        field = "device: cuda" if resources.device else f"gpus: {resources.gpus:g}"
        raise UserError(
            f"{study.name}: resources: asks for {field}, but this machine has no GPU that torch "
            f"can use; remove it or write device: auto, which takes what there is"
        )
    if asked(study) == "cpu" or not there:
        return Place(torch.device("cpu"))
    return Place(torch.device("cuda"), 1.0)


def asked(study: Study) -> str:
    """cpu, cuda, or auto: what there is."""
    return study.resources.device or ("cuda" if study.resources.gpus else "cpu")


def outgrew(study: Study, row: Mapping[str, Any]) -> bool:
    """Whether a replica is to be trained once more with a whole GPU, because a share of one was
    too small for it."""
    return (
        study.resources.on_oom == "grow"
        and row["state"] == "failed"
        and (row["error"] or "").startswith(OUT_OF_MEMORY)
        and (row["run.gpus"] or 1) < 1
    )


def _total(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).total_memory
