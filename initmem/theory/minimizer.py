"""What training ends at, without training: the minimizer of sum_d q_{k_d}(beta_d) over the beta
with X beta = y, by Newton's method on the dual (arXiv 2602.20062, Theorem 4.1).

At the minimizer beta_d = (root_d / 2) sinh(2 (X^T nu)_d) for multipliers nu [N], which maximize
nu . y - sum_d (root_d / 4) (cosh(2 (X^T nu)_d) - 1), concave in nu.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve

from initmem.theory.channel import NotConverged
from initmem.theory.diagonal import Array

STEPS = 200
RESIDUAL = 1e-9
"""Of X beta - y, the largest, as a share of the largest of y."""
CAP = 8.0
"""The most that any 2 X^T nu may change in a step, for beta grows exponentially in it."""


def minimizer(X_ND: Array, y_N: Array, root: ArrayLike, start_D: Array | None = None) -> Array:
    """beta [D]; from N = D on the one of least squares.

    root: sqrt(k) of all coordinates or of each [D], above 0. start_D: the minimizer of some of the
    rows, with the same root: fewer steps are left. ValueError for shapes and values that cannot
    be; LinAlgError where rows of X depend on each other; NotConverged where the residual stays
    above RESIDUAL.
    """
    n, d = X_ND.shape
    root_D = np.broadcast_to(np.asarray(root, dtype=float), d)
    if y_N.shape != (n,):
        raise ValueError(f"y: must have shape ({n},) as X has {n} rows, got {y_N.shape}")
    good = np.isfinite(root_D) & (root_D > 0)
    if not good.all():
        raise ValueError(f"root: must be above 0 and finite, got {root_D[~good][0]:g}")
    if n >= d:
        return np.asarray(np.linalg.lstsq(X_ND, y_N)[0])
    enough = RESIDUAL * np.abs(y_N).max(initial=0)
    bend_D = np.arcsinh(2 * (np.zeros(d) if start_D is None else start_D) / root_D)
    left_N = y_N - X_ND @ (root_D / 2 * np.sinh(bend_D))
    for _ in range(STEPS):
        if np.abs(left_N).max(initial=0) <= enough:
            return root_D / 2 * np.sinh(bend_D)
        scaled_ND = X_ND * np.sqrt(root_D * np.cosh(bend_D))
        move_N = cho_solve(cho_factor(scaled_ND @ scaled_ND.T), left_N)
        move_D = 2 * (move_N @ X_ND)
        size, slope = min(1.0, CAP / np.abs(move_D).max()), move_N @ left_N
        while True:
            next_D = bend_D + size * move_D
            left_N = y_N - X_ND @ (root_D / 2 * np.sinh(next_D))
            # The dual is concave: it has risen all along if its slope has not turned.
            if move_N @ left_N >= -slope / 2:
                break
            size /= 2
        bend_D = next_D
    worst = np.abs(left_N).max()
    raise NotConverged(f"theory: no minimizer in {STEPS} steps, residual {worst:.1g}")
