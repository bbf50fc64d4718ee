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


def unpack(content: bytes) -> dict[str, Any] | None:
    """The reverse of `pack`, with every tensor on the CPU; None where the content is anything
    else. Code in the place of a state is refused, not run.

    Loading copies to a GPU what belongs there. Not all does: Adam keeps a step counter for each
    parameter on the CPU and reads it in every step; on a GPU each would be waited for.
    """
    try:
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception:  # torch.load raises nearly anything at what it did not write
        return None
    return state if isinstance(state, dict) else None
