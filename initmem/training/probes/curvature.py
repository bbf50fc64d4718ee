"""Curvature of the train loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from initmem.study.seeds import fold
from initmem.training.probes.looking import Values, first

if TYPE_CHECKING:
    from initmem.training.replica import Training

VECTORS = 40
"""Random directions whose mean curvature tells the trace."""
TOLERANCE = 1e-3
"""Of the residual of the largest eigenvalue, relative to it; the eigenvalue is far nearer."""
RESTARTS = 50
"""Of Lanczos, about ten products each, before it is given up."""

Product = Callable[[Tensor], Tensor]
"""A vector -> a symmetric matrix times it."""


def hessian(training: Training) -> Values:
    """Of the loss, the mean over answers without penalty, on the first 512 training examples, by
    all parameters, without the autocast of `precision: bf16`.

    top_eigenvalue: the largest, by Lanczos. trace, with its standard error trace_error: by
    `trace`. loss: to compare curvatures at equal losses, for both vanish as the softmax
    saturates. Takes 60 to 100 products, each about two steps of training on these examples, and
    twenty vectors of the network's size in float64.
    """
    chosen, parameters = first(training.data.train), list(training.network.parameters())
    with sdpa_kernel(SDPBackend.MATH):  # the fused attention has no second derivative
        logits = training.network(training.prepared(chosen.inputs))
        loss = F.cross_entropy(logits.flatten(0, -2), chosen.targets.flatten())
        gradient = _flat(torch.autograd.grad(loss, parameters, create_graph=True))

    def product(vector: Tensor) -> Tensor:
        return _flat(
            torch.autograd.grad(
                gradient, parameters, vector, retain_graph=True, materialize_grads=True
            )
        )

    def signs(*stream: str | int) -> Tensor:
        generator = torch.Generator().manual_seed(fold(training.seed, "hessian", *stream))
        bits = torch.randint(2, (len(gradient),), generator=generator)
        return (2 * bits - 1).to(gradient)

    value, error = trace(product, (signs("trace", k) for k in range(VECTORS)))
    return {
        ("loss", "train"): loss.item(),
        ("top_eigenvalue", "train"): top_eigenvalue(product, signs("start")),
        ("trace", "train"): value,
        ("trace_error", "train"): error,
    }


def trace(product: Product, signs: Iterable[Tensor]) -> tuple[float, float]:
    """Trace of a matrix and its standard error, from vectors of random signs (Hutchinson 1989)."""
    found = torch.stack([v.double() @ product(v).double() for v in signs])
    return found.mean().item(), found.std().item() / math.sqrt(len(found))


def top_eigenvalue(product: Product, start: Tensor, restarts: int = RESTARTS) -> float:
    """The largest, by its value and not its size; nan if the matrix is not finite, or after so
    many restarts without one.

    start: the first vector [P], of random signs.
    """
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
    from threadpoolctl import threadpool_limits

    once = product(start)
    if not once.isfinite().all():
        return math.nan
    if not once.any():  # a matrix of zeros, from which Lanczos does not get away
        return 0.0

    def multiply(vector: Any) -> Any:
        return product(torch.from_numpy(vector).to(start)).double().cpu().numpy()

    operator = LinearOperator((len(start), len(start)), matvec=multiply, dtype="float64")
    begin = start.double().cpu().numpy()
    try:
        # By default BLAS takes a thread a core, and the bits would depend on the machine.
        with threadpool_limits(1, user_api="blas"):
            found = eigsh(operator, 1, which="LA", v0=begin, tol=TOLERANCE, maxiter=restarts,
                          return_eigenvectors=False, rng=0)  # fmt: skip
    except ArpackNoConvergence:
        return math.nan
    return float(found[0])


def _flat(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors])
