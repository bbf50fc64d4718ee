"""One root seed, folded into named streams.

A stream's seed depends on its names alone, so the order of batches does not change when the
initialization draws more numbers, and step 1,000 needs no state of the 999 before. torch's CPU
generator uses the low 32 bits of a seed: two of n streams are alike with probability n^2 / 2^33.
"""

from __future__ import annotations

import hashlib


def fold(*names: str | int) -> int:
    """Names such as (seed, "order", epoch) -> a seed in [0, 2^63)."""
    text = "/".join(str(name) for name in names)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1
