"""A small study of diagonal networks for the tests, and its recipes."""

from __future__ import annotations

from initmem.study.recipe import Recipe
from tests.tiny import recipe

STUDY = """
recipe:
  data: {name: sparse_regression, d: 40, alpha: 0.4, rho_pt: 0.2, rho_ft: 0.1, validation: 5}
  model: {name: diagonal}
  pretrain: {name: oracle}
  init: {rule: diagonal, c: 0.1}
  optim: {name: exact}
axes:
  init.lam: [-0.9, 0]
memory_axis: init.lam
seeds: 3
"""
DATA = {"name": "sparse_regression", "d": 16, "alpha": 0.25, "rho_pt": 0.25, "rho_ft": 0.25,
        "omega": 0.5, "validation": 3}  # fmt: skip
EXACT = {"name": "exact"}
DESCENT = {"name": "sgd", "lr": 0.02, "batch": None, "steps": 4000, "stop_loss": 1e-9}


def diagonal(optim: dict[str, object], pretrain: str = "oracle", **init: float) -> Recipe:
    """Of DATA; an evaluation every 200 steps."""
    return recipe(
        data=DATA, model={"name": "diagonal"}, optim=optim, eval_every=200,
        init={"rule": "diagonal", **init}, pretrain={"name": pretrain},
    )  # fmt: skip
