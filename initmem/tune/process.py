"""What a process that trains sets for itself."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def arithmetic(threads: int, deterministic: bool) -> Iterator[None]:
    """Fix what the bits of a result depend on, beside recipe and seed: threads; on a GPU, kernels
    whose bits are the same every time, or the fastest; float32 without TF32, which keeps 10 bits
    of 23 and is torch's default for convolutions. The process gets its own settings back."""
    keep_memory()
    # Read once, at the first product on a GPU, and then asked of every deterministic study: it
    # must be there even if the first study of this process is not deterministic.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    conv: Any = cudnn.conv  # type: ignore[attr-defined]  # torch's stubs lack it
    before = (
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        cudnn.benchmark,
        conv.fp32_precision,
        matmul.fp32_precision,
    )
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)  # arithmetic on denormals is up to 30 times slower
    torch.use_deterministic_algorithms(deterministic)
    cudnn.benchmark = not deterministic
    conv.fp32_precision = matmul.fp32_precision = "ieee"
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.set_flush_denormal(False)
        torch.use_deterministic_algorithms(before[1])
        cudnn.benchmark, conv.fp32_precision, matmul.fp32_precision = before[2:]


@contextmanager
def products(precision: str) -> Iterator[None]:
    """Products of float32 matrices: exact, or as precision `medium` allows."""
    cpu: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]  # torch's stubs lack it
    gpu = torch.backends.cuda.matmul
    before = cpu.fp32_precision, gpu.fp32_precision
    if precision == "medium":
        cpu.fp32_precision, gpu.fp32_precision = "bf16", "tf32"
    try:
        yield
    finally:
        cpu.fp32_precision, gpu.fp32_precision = before


@functools.cache
def keep_memory() -> None:
    """Let the C library keep what is freed for what is asked for next: given back to the system
    and taken again in every step, activations cost page faults. For good, for glibc cannot be
    told to go back; other C libraries are left as they are. No bit depends on it."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(-4, 0)  # M_MMAP_MAX: no block is a mapping of its own, which free would undo
        mallopt(-1, -1)  # M_TRIM_THRESHOLD: the end of the heap is never given back
        mallopt(-2, 64 * 2**20)  # M_TOP_PAD: it grows in steps of 64 MiB
