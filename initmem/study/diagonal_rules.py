"""Rules between the sections of a recipe that are about diagonal networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initmem.study.init_section import DiagonalRule
from initmem.study.model_section import Diagonal
from initmem.study.optim_section import Exact
from initmem.study.pretrain_section import NoPretraining, Oracle, Stage
from initmem.study.section import invalid

if TYPE_CHECKING:
    from initmem.study.recipe import Recipe


def check(recipe: Recipe) -> None:
    """Raises the error of the first rule that is broken."""
    if isinstance(recipe.model, Diagonal) != isinstance(recipe.init, DiagonalRule):
        rule = "rule diagonal and model.name diagonal go together"
        raise invalid("init.rule", f"{rule}, got {recipe.init.rule} and {recipe.model.name}")
    if isinstance(recipe.init, DiagonalRule):
        _diagonal(recipe, recipe.init)
        return
    for field, section in (("pretrain", recipe.pretrain), ("optim", recipe.optim)):
        if isinstance(section, Oracle | Exact):
            text = f"{section.name} is for model.name diagonal, got {recipe.model.name}"
            raise invalid(f"{field}.name", text)


def _diagonal(recipe: Recipe, init: DiagonalRule) -> None:
    if recipe.precision != "float32":
        raise invalid("precision", f"diagonal is float64 throughout, got {recipe.precision}")
    for probe in recipe.probes.on:
        raise invalid(f"probes.{probe}", "reads networks with classes, diagonal has none")
    if isinstance(recipe.pretrain, Stage):
        text = "stage draws the readout anew, diagonal has none to draw: take oracle, or none"
        raise invalid("pretrain.name", text)
    if isinstance(recipe.pretrain, NoPretraining) and init.gam:
        rule = "is the readout's scale after pretraining: set pretrain.name to oracle"
        raise invalid("init.gam", f"{rule}, or remove it, got {init.gam:g}")
    if isinstance(recipe.pretrain, Oracle) and init.lam == -1 and init.gam**2 == 0:
        rule = "-1 needs init.gam above 0, for else nothing learns in fine-tuning"
        raise invalid("init.lam", f"{rule}; try -0.99999, got {init.lam:g} with gam {init.gam:g}")
