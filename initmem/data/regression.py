"""Sparse regression: computed and never read."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from initmem.data.dataset import Dataset, Split, digest
from initmem.study.regression_data import SparseRegression
from initmem.study.seeds import fold
from initmem.theory.tasks import Task, design

Array = NDArray[np.float64]


def sparse_regression(data: SparseRegression) -> Dataset:
    """Inputs float64 [N, D] from N(0, 1/D) and targets float64 [N]; those of the test set are the
    unit vectors. A split without a number is split 0."""
    count, validations, d = data.sizes()
    rng = np.random.default_rng(fold(data.split or 0, "regression"))
    task = Task(data.rho_pt, data.rho_ft, data.omega)
    pretrained_D, target_D = task.draw(d, rng)
    of_labels, of_validation = rng.spawn(2)
    X_ND, validation_MD = design(count, d, rng), design(validations, d, of_validation)
    noise_N = data.noise * of_labels.standard_normal(count)
    train, validation = _split(X_ND, target_D, noise_N), _split(validation_MD, target_D)
    test = Split(torch.eye(d, dtype=torch.float64), torch.from_numpy(target_D))
    pretrained = torch.from_numpy(pretrained_D)
    none = torch.zeros(0)
    return Dataset(
        "vector", (d,), 1, 0, train, validation, test,
        digest(train, validation, Split(pretrained, test.targets)),
        mean=none, sd=none, pretrained=pretrained,
    )  # fmt: skip


def _split(X_ND: Array, target_D: Array, noise_N: Array | float = 0.0) -> Split:
    # Not by BLAS, whose bits depend on its number of threads.
    y_N = np.einsum("nd,d->n", X_ND, target_D) + noise_N
    return Split(torch.from_numpy(X_ND), torch.from_numpy(y_N))
