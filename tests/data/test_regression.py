"""Sparse regression: its tasks, its examples, and which of them two replicas share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from initmem.data.dataset import Dataset
from initmem.data.load import load, of_seed
from initmem.study.data_section import Digits
from initmem.study.regression_data import SparseRegression


def made(seed: int = 0, **fields: Any) -> Dataset:
    given = {"alpha": 0.5, "d": 50, "rho_pt": 0.4, "rho_ft": 0.2, "validation": 7, **fields}
    return load(
        of_seed(SparseRegression(name="sparse_regression", **given), seed), Path("nowhere")
    )


def test_targets_are_those_of_a_task_of_which_a_share_is_known() -> None:
    data = made(omega=0.5)
    beta_D, pretrained_D = data.test.targets, data.pretrained
    assert pretrained_D is not None and sorted(set(pretrained_D.tolist())) == [0.0, 1.0]
    assert (pretrained_D.sum(), (beta_D != 0).sum(), (beta_D * pretrained_D != 0).sum()) == (
        20, 10, 5,
    )  # fmt: skip
    for split, count in ((data.train, 25), (data.validation, 7), (data.test, 50)):
        assert split.inputs.shape == (count, 50) and split.inputs.dtype == torch.float64
        torch.testing.assert_close(split.targets, split.inputs @ beta_D)
    assert (data.kind, data.shape, data.classes) == ("vector", (50,), 1)
    assert data.prepare(data.train.inputs) is data.train.inputs


def test_the_error_on_the_test_set_is_the_mean_over_all_inputs() -> None:
    """|estimate - target|^2 / d."""
    data = made()
    estimate_D = torch.arange(50, dtype=torch.float64)
    error = (data.test.inputs @ estimate_D - data.test.targets).square().mean()
    beta_D = data.test.targets.numpy()
    assert error.item() == pytest.approx(np.square(np.arange(50) - beta_D).mean())


def test_a_seed_draws_its_own_task_and_fewer_examples_are_among_the_more() -> None:
    one, other, more = made(1), made(2), made(1, alpha=0.8)
    assert not torch.equal(one.test.targets, other.test.targets)
    assert torch.equal(one.test.targets, more.test.targets)
    assert torch.equal(one.train.inputs, more.train.inputs[:25])
    assert torch.equal(one.validation.inputs, more.validation.inputs)
    assert len({one.hash, other.hash, more.hash}) == 3
    assert torch.equal(made(1, rho_pt=0.9).train.inputs[:, 0], one.train.inputs[:, 0])


def test_a_split_is_one_for_all_seeds() -> None:
    assert made(1, split=3).hash == made(2, split=3).hash == made(3).hash
    digits = Digits(name="digits")
    assert of_seed(digits, 5) is digits


def test_noise_is_on_the_training_targets_alone() -> None:
    clean, noisy = made(alpha=10), made(alpha=10, noise=0.5)
    assert torch.equal(clean.train.inputs, noisy.train.inputs)
    assert (noisy.train.targets - clean.train.targets).std().item() == pytest.approx(0.5, rel=0.1)
    assert torch.equal(clean.validation.targets, noisy.validation.targets)
    assert torch.equal(clean.test.targets, noisy.test.targets)
