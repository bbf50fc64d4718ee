"""Small networks with planted features for the tests: a tenth of a second to train."""

from __future__ import annotations

from pathlib import Path

import torch

from initmem.data.geometry import Geometry, geometry
from initmem.data.load import load, of_seed
from initmem.study.preference_data import GaussianPairs
from initmem.study.recipe import Recipe
from initmem.training.online import Online
from tests.tiny import recipe

STUDY = """
recipe:
  data: {name: gaussian_pairs, d: 16, s: 4, validation: 50, test: 40}
  model: {name: two_layer, neurons: 3, off: 2}
  init: {rule: planted}
  optim: {name: online_sgd, lr: 0.3, batch: 64, steps: 40}
  eval_every: 10
  probes: {features: true}
axes:
  data.arm: [sft, w2s_projected]
  data.rho: [0, 0.5]
memory_axis: data.rho
seeds: 2
"""


def pairs(arm: str = "sft", **fields: object) -> GaussianPairs:
    small = {"d": 16, "s": 4, "validation": 50, "test": 40, **fields}
    return GaussianPairs.model_validate({"name": "gaussian_pairs", "arm": arm, **small})


def drawn(arm: str = "sft", seed: int = 0, **fields: object) -> Geometry:
    """In float64, as far as it goes."""
    return geometry(pairs(arm, split=seed, **fields)).to(torch.float64)


def planted(
    arm: str = "sft",
    optim: dict[str, object] | None = None,
    init: dict[str, object] | None = None,
    model: dict[str, object] | None = None,
    **data: object,
) -> Recipe:
    """An evaluation every 10 steps."""
    small = {"name": "two_layer", "neurons": 6, "off": 2, "threshold": 0.5}
    of_optim = {"name": "online_sgd", "lr": 0.5, "batch": 256, "steps": 400}
    return recipe(
        data=pairs(arm, **data).model_dump(), model=small | (model or {}), eval_every=10,
        init={"rule": "planted"} | (init or {}), optim=of_optim | (optim or {}),
        probes={"features": True},
    )  # fmt: skip


def begun(of: Recipe, seed: int = 0) -> Online:
    torch.set_num_threads(1)
    data = load(of_seed(of.data, seed), Path("nowhere"))
    return Online(of, seed, data, torch.device("cpu"))
