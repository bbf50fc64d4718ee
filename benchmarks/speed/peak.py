"""How fast can this machine multiply? Operations a second of two kernels that every library
tunes: a product of 1024 x 1024 matrices, and a 3x3 convolution of 64 channels, channels last.

They are timed in the rounds of what is held against them, so both see the same machine.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.speed.timing import Steps
from benchmarks.speed.workloads import DEVICE, Workload

DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}
SIDE, IMAGES, CHANNELS, PIXELS = 1024, 32, 64, 32
if DEVICE.type == "cuda":
    SIDE, IMAGES = 8192, 512
OPERATIONS = {"mm": 2.0 * SIDE**3, "conv": 2.0 * 9 * CHANNELS**2 * IMAGES * PIXELS**2}
"""Of a step; a multiplication and an addition are two."""


def kernels(precision: str) -> dict[str, Steps]:
    """mm and conv, as steps."""
    dtype = DTYPES[precision]
    a, b = (torch.randn(SIDE, SIDE, device=DEVICE).to(dtype) for _ in range(2))
    x_BCHW = torch.randn(IMAGES, CHANNELS, PIXELS, PIXELS, device=DEVICE).to(dtype)
    w_OIKK = torch.randn(CHANNELS, CHANNELS, 3, 3, device=DEVICE).to(dtype)
    x_BCHW, w_OIKK = (t.contiguous(memory_format=torch.channels_last) for t in (x_BCHW, w_OIKK))

    @torch.no_grad()
    def mm(n: int) -> None:
        for _ in range(n):
            torch.mm(a, b)

    @torch.no_grad()
    def conv(n: int) -> None:
        for _ in range(n):
            F.conv2d(x_BCHW, w_OIKK, padding=1)

    return {"mm": mm, "conv": conv}


def best(seconds: dict[str, list[float]]) -> list[float]:
    """Operations a second by round, from the seconds a step of mm and conv."""
    rounds = zip(*([OPERATIONS[name] / s for s in seconds[name]] for name in seconds), strict=True)
    return [max(both) for both in rounds]


def textbook_operations(work: Workload) -> float:
    """Of one network's forward and backward pass as its module computes them: what an engine
    leaves out by algebra counts as done."""
    network = work.network(0).to("meta")
    inputs, _ = work.tensors()
    with FlopCounterMode(display=False) as counter:
        network(inputs[: work.batch].to("meta")).sum().backward()
    return float(counter.get_total_flops())


def operations_done(steps: Steps) -> float:
    """Of a step, as far as torch's counter knows them (on a CPU it knows no attention kernel)."""
    with FlopCounterMode(display=False) as counter:
        steps(1)
    return float(counter.get_total_flops())
