"""Sparse regression twice: a pretraining task, and a fine-tuning task that shares features with it
(arXiv 2602.20062)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from initmem.theory.channel import Mixture, law
from initmem.theory.diagonal import Array, Init
from initmem.theory.generalization import channels


@dataclass(frozen=True)
class Task:
    """Both tasks. ValueError where there are no such tasks."""

    rho_pt: float
    """Share of the coordinates that pretraining has: its features, in (0, 1]."""
    rho_ft: float
    """Share of the coordinates that fine-tuning has, in (0, 1]; they are N(0, 1 / rho_ft)."""
    omega: float
    """Share of fine-tuning's features that pretraining has too, in [0, 1]."""
    amplitude: float = 1.0
    """Of pretraining's features, all the same."""

    def __post_init__(self) -> None:
        for name in ("rho_pt", "rho_ft"):
            _share(name, getattr(self, name))
        if not 0 <= self.omega <= 1:
            raise ValueError(f"omega: must be in [0, 1], got {self.omega:g}")
        if not 0 < abs(self.amplitude) < math.inf:
            raise ValueError(f"amplitude: must be finite and not 0, got {self.amplitude:g}")
        shared, new = self.omega * self.rho_ft, (1 - self.omega) * self.rho_ft
        if shared > self.rho_pt * (1 + 1e-12):
            rule = f"omega rho_ft = {shared:g} must be at most rho_pt = {self.rho_pt:g}"
            raise ValueError(f"omega: {rule}, the features that can be shared, got {self.omega:g}")
        if new > (1 - self.rho_pt) + 1e-12:
            rule = f"(1 - omega) rho_ft = {new:g} must be at most 1 - rho_pt = {1 - self.rho_pt:g}"
            raise ValueError(f"omega: {rule}, where new features can be, got {self.omega:g}")

    def draw(self, d: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """The targets of pretraining and fine-tuning, each [D]."""
        pretrained, features = round(self.rho_pt * d), round(self.rho_ft * d)
        shared = min(round(self.omega * features), pretrained)
        if not pretrained or not features or features - shared > d - pretrained:
            sizes = f"{pretrained} and {features} features, {shared} of them shared"
            raise ValueError(f"d: too small for these tasks: {sizes}, got {d}")
        order_D = rng.permutation(d)
        pretrained_D, target_D = np.zeros(d), np.zeros(d)
        pretrained_D[order_D[:pretrained]] = self.amplitude
        begin = pretrained - shared
        nonzero = rng.standard_normal(features) / math.sqrt(features / d)
        target_D[order_D[begin : begin + features]] = nonzero
        return pretrained_D, target_D


def design(n: int, d: int, rng: np.random.Generator) -> Array:
    """Inputs [N, D] from N(0, 1/d); of two designs with one seed, the smaller is the head of the
    larger."""
    return rng.standard_normal((n, d)) / math.sqrt(d)


def pretraining(task: Task, init: Init) -> Mixture:
    """The coordinates of the pretraining task."""
    mean_G, root_G = np.array([task.amplitude, 0.0]), np.full(2, init.pretraining_root)
    return Mixture(np.array([task.rho_pt, 1 - task.rho_pt]), mean_G, np.zeros(2), root_G)


def finetuning(task: Task, init: Init, alpha_pt: float = math.inf) -> Mixture:
    """The coordinates of the fine-tuning task, after pretraining on n = alpha_pt d examples
    without noise; from alpha_pt 1 on it knows its target."""
    if not alpha_pt > 0:
        raise ValueError(f"alpha_pt: must be above 0, got {alpha_pt:g}")
    if alpha_pt >= 1:
        laws = [(np.array([mean]), np.ones(1)) for mean in (task.amplitude, 0.0)]
    else:
        s2, g = channels(pretraining(task, init), np.array([alpha_pt]))
        root = init.pretraining_root
        laws = [law(mean, root, s2.item(), g.item()) for mean in (task.amplitude, 0.0)]
    shared, new = task.omega * task.rho_ft, (1 - task.omega) * task.rho_ft
    masses = (shared, task.rho_pt - shared), (new, 1 - task.rho_pt - new)
    blocks = [
        np.stack([share * weight_M, np.full_like(x_M, square), init.finetuning_root(x_M)])
        for (x_M, weight_M), two in zip(laws, masses, strict=True)
        for share, square in zip(two, (1 / task.rho_ft, 0.0), strict=True)
        if share > 1e-12
    ]
    mass_G, variance_G, root_G = np.concatenate(blocks, axis=1)
    return Mixture(mass_G, np.zeros_like(mass_G), variance_G, root_G)


def single(rho: float, init: Init) -> Mixture:
    """The coordinates of one task alone, trained from the start of pretraining: a share rho of
    them, in (0, 1], is N(0, 1 / rho)."""
    _share("rho", rho)
    root_G = np.full(2, init.pretraining_root)
    return Mixture(np.array([rho, 1 - rho]), np.zeros(2), np.array([1 / rho, 0.0]), root_G)


def _share(name: str, value: float) -> None:
    if not 0 < value <= 1:
        raise ValueError(f"{name}: must be in (0, 1], got {value:g}")
