"""The state of a training run as bytes and back, without pickled code."""

from __future__ import annotations

import io
from typing import Any

import torch


def pack(state: dict[str, Any]) -> bytes:
    """A dict of tensors, numbers, texts, lists and dicts -> bytes."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def unpack(content: bytes, device: torch.device) -> dict[str, Any]:
    """The reverse of `pack`. Code in place of a state is refused, not run."""
    state: dict[str, Any] = torch.load(io.BytesIO(content), map_location=device, weights_only=True)
    return state
