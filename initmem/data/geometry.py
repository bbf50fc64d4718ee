"""Two subspaces, the direction of a task in each, and who teaches the first of them.

Every draw has a stream of its own, so that arms and correlations of a seed share all that they
can. Float64 inside, float32 where networks meet it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from initmem.study.preference_data import GaussianPairs
from initmem.study.seeds import fold


@dataclass(frozen=True, eq=False)
class Geometry:
    """Float32; unit vectors [D], orthonormal columns [D, S]."""

    V1: Tensor
    V2: Tensor
    """Its first column is theta2."""
    theta1: Tensor
    theta2: Tensor
    teacher: Tensor
    """Whom the labels of training are drawn by: theta1, or the weak teacher's direction."""
    limit: Tensor
    """Where on-target neurons go: the teacher's direction, and where training does not leave V_1
    what V_1 holds of it, at unit length."""
    seen: Tensor | None
    """Orthonormal columns [D, R], spanning all that training can see of its inputs: V_1 of those
    that are localized; both subspaces and the teacher where gradients are projected; None for all
    directions."""

    def to(self, what: torch.device | torch.dtype | str) -> Geometry:
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{n: t.to(what) for n, t in found.items() if t is not None})


def gaussian(*shape: int, stream: tuple[str | int, ...]) -> Tensor:
    """Float64 N(0, 1), which depends on the names of the stream alone."""
    generator = torch.Generator().manual_seed(fold(*stream))
    return torch.empty(shape, dtype=torch.float64).normal_(generator=generator)


def geometry(data: GaussianPairs) -> Geometry:
    """The subspaces are the first and the last s columns of an orthonormal basis, but that the
    first of the last is turned by rho towards theta_1; a split without a number is split 0."""
    seed, s = data.split or 0, data.s
    basis_DR, _ = torch.linalg.qr(gaussian(data.d, 2 * s, stream=(seed, "subspaces")))
    V1, rest = basis_DR[:, :s], basis_DR[:, s:].clone()
    theta1 = V1 @ _unit(gaussian(s, stream=(seed, "target")))
    theta2 = rest[:, 0] = _turned(rest[:, 0], theta1, data.rho)
    if data.subspaces == "hard":
        second = _turned(rest[:, 1], theta1, data.rho)
        rest[:, 1] = _unit(second - (theta2 @ second) * theta2)
    error = gaussian(data.d, stream=(seed, "teacher"))
    if data.inside:
        error = V1 @ (V1.T @ error)
    error = _unit(error - (theta1 @ error) * theta1)
    teacher = _turned(error, theta1, data.cosine) if data.weak else theta1
    limit = _unit(V1 @ (V1.T @ teacher)) if data.localized or data.projected else teacher
    seen = V1 if data.localized else None
    if data.projected:
        beyond = teacher - basis_DR @ (basis_DR.T @ teacher)
        outside = data.weak and data.cosine < 1 and 2 * s < data.d
        more = [_unit(beyond)[:, None]] if outside else []
        seen = torch.cat([basis_DR, *more], dim=1)
    return Geometry(V1, rest, theta1, theta2, teacher, limit, seen).to(torch.float32)


def _unit(v_D: Tensor) -> Tensor:
    return v_D / v_D.norm()


def _turned(a_D: Tensor, b_D: Tensor, cosine: float) -> Tensor:
    """In the plane of two orthogonal unit vectors, the one with this cosine to b."""
    return cosine * b_D + math.sqrt(1 - cosine**2) * a_D
