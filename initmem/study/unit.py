"""Ranges as the sides of a unit cube, on the logarithm where a range has it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from initmem.study.spec import Range


def to_unit(point: Mapping[str, float], ranges: Mapping[str, Range]) -> list[float]:
    """The place of a point in the cube."""
    return [_share(point[field], r) for field, r in ranges.items()]


def from_unit(place: Sequence[float], ranges: Mapping[str, Range]) -> dict[str, float]:
    """The point at a place in the cube, never outside the ranges."""
    return {field: _value(s, r) for s, (field, r) in zip(place, ranges.items(), strict=True)}


def _share(value: float, r: Range) -> float:
    if r.log:
        return math.log(value / r.low) / math.log(r.high / r.low)
    return (value - r.low) / (r.high - r.low)


def _value(share: float, r: Range) -> float:
    value = r.low * (r.high / r.low) ** share if r.log else r.low + share * (r.high - r.low)
    return float(min(max(value, r.low), r.high))
