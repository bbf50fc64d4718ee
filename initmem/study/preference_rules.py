"""Rules between the sections of a recipe that are about networks with planted features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initmem.study.init_section import PlantedRule
from initmem.study.model_section import TwoLayer
from initmem.study.optim_section import OnlineSGD
from initmem.study.section import invalid

if TYPE_CHECKING:
    from initmem.study.recipe import Recipe


def check(recipe: Recipe) -> None:
    """Raises the error of the first rule that is broken."""
    name = recipe.model.name
    if isinstance(recipe.model, TwoLayer) != isinstance(recipe.init, PlantedRule):
        rule = "rule planted and model.name two_layer go together"
        raise invalid("init.rule", f"{rule}, got {recipe.init.rule} and {name}")
    if isinstance(recipe.model, TwoLayer) != isinstance(recipe.optim, OnlineSGD):
        rule = "online_sgd and model.name two_layer go together"
        raise invalid("optim.name", f"{rule}, got {recipe.optim.name} and {name}")
    if isinstance(recipe.optim, OnlineSGD):
        _online(recipe, recipe.optim)
    elif recipe.probes.features:
        raise invalid("probes.features", f"reads planted features, {name} has none")


def _online(recipe: Recipe, optim: OnlineSGD) -> None:
    if optim.epochs is not None:
        rule = "a stream has no epochs: give optim.steps"
        raise invalid("optim.epochs", f"{rule} in their place, got {optim.epochs}")
    if optim.steps is None:
        raise invalid("optim.steps", "required: a stream has no end")
    if optim.batch is None:
        raise invalid("optim.batch", "a stream has no end: give a number of pairs, got null")
    if recipe.eval_every is None:
        raise invalid("eval_every", "required: a stream has no epochs to evaluate after")
    if recipe.precision != "float32":
        raise invalid("precision", f"two_layer takes float32 alone, got {recipe.precision}")
    if recipe.pretrain.name != "none":
        text = f"planted features are the pretraining: remove it, got {recipe.pretrain.name}"
        raise invalid("pretrain.name", text)
    for probe in recipe.probes.on:
        if probe != "features":
            raise invalid(f"probes.{probe}", "reads networks with classes, two_layer has none")
    for field in ("l2", "weight_decay"):
        if optim.update == "tangential" and getattr(optim, field):
            rule = "acts along the weights, where tangential updates leave nothing: set"
            raise invalid(f"optim.{field}", f"{rule} optim.update to free, or remove it")
