"""Test errors of drawn tasks, to hold the theory against: drawn inputs and targets, and what
training ends at (see `minimizer`)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from initmem.theory.diagonal import Array, Init
from initmem.theory.minimizer import minimizer
from initmem.theory.tasks import Task, design


def finetuned(
    task: Task,
    init: Init,
    d: int,
    alphas: ArrayLike,
    seed: int,
    alpha_pt: float = math.inf,
    noise: float = 0.0,
) -> Array:
    """The error |beta - target|^2 / d after fine-tuning on round(alpha d) examples, for each alpha
    [A]. A seed draws the same task and inputs for every init, and the fewer examples are among the
    more. alpha_pt, noise: as in the theory."""
    rng = np.random.default_rng(seed)
    pretrained_D, target_D = task.draw(d, rng)
    if alpha_pt < 1:
        X_ND = design(round(alpha_pt * d), d, rng.spawn(1)[0])
        pretrained_D = minimizer(X_ND, X_ND @ pretrained_D, init.pretraining_root)
    return _errors(target_D, init.finetuning_root(pretrained_D), alphas, rng, noise)


def single(rho: float, init: Init, d: int, alphas: ArrayLike, seed: int) -> Array:
    """The same [A] of one task alone, from the start of pretraining."""
    rng = np.random.default_rng(seed)
    _, target_D = Task(rho, rho, 1.0).draw(d, rng)
    return _errors(target_D, np.full(d, init.pretraining_root), alphas, rng, 0.0)


def _errors(
    target_D: Array, root_D: Array, alphas: ArrayLike, rng: np.random.Generator, noise: float
) -> Array:
    d = len(target_D)
    n_A = np.round(np.asarray(alphas) * d).astype(int)
    X_ND = design(n_A.max(), d, rng)
    y_N = X_ND @ target_D + noise * rng.standard_normal(len(X_ND))
    error_A, beta_D = np.empty(len(n_A)), np.zeros(d)
    for a in n_A.argsort():
        n = n_A[a]
        beta_D = minimizer(X_ND[:n], y_N[:n], root_D, beta_D)
        error_A[a] = np.square(beta_D - target_D).mean()
    return error_A
