"""Rules between the sections of a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from initmem.study import diagonal_rules, preference_rules
from initmem.study.data_section import IMAGES
from initmem.study.init_section import Init
from initmem.study.model_section import Attentive, ViT
from initmem.study.objective_section import Radial
from initmem.study.pretrain_section import Stage
from initmem.study.random_labels_section import Heads
from initmem.study.section import invalid
from initmem.study.token_data import Tokens

if TYPE_CHECKING:
    from initmem.study.recipe import Recipe


def check(recipe: Recipe) -> None:
    """Raises the error of the first rule that is broken."""
    train = recipe.data.sizes()[0]
    if recipe.model.kind != recipe.data.kind:
        wants = f"takes {recipe.model.kind} input, data.name {recipe.data.name}"
        raise invalid("model.name", f"{recipe.model.name} {wants} gives {recipe.data.kind}")
    if isinstance(recipe.penalty, Radial) and recipe.penalty.site not in recipe.model.sites:
        allowed = ", ".join(recipe.model.sites) or "no site"
        raise invalid("penalty.site", f"{recipe.model.name} has {allowed}")
    if recipe.probes.radial_share and "pre" not in recipe.model.sites:
        raise invalid("probes.radial_share", f"{recipe.model.name} has no pre-activations to read")
    diagonal_rules.check(recipe)
    preference_rules.check(recipe)
    _readable(recipe)
    if not isinstance(recipe.model, Attentive):
        _without_attention(recipe)
    elif isinstance(recipe.model, ViT):
        _patched(recipe, recipe.model)
    elif recipe.model.tied:
        _tied(recipe)
    if not recipe.streams and recipe.optim.batch is not None and recipe.optim.batch > train:
        raise invalid("optim.batch", f"at most the {train} training examples, or null for all")
    if (recipe.optim.epochs is None) == (recipe.optim.steps is None):
        raise invalid("optim.epochs", "give either optim.epochs or optim.steps")
    if recipe.optim.warmup >= recipe.total_steps:
        rule = f"must be less than the budget of {recipe.total_steps} steps"
        raise invalid("optim.warmup", f"{rule}, got {recipe.optim.warmup}")
    if (recipe.optim.decay_steps or (0, 0))[1] > recipe.total_steps:
        rule = f"must end within the budget of {recipe.total_steps} steps"
        raise invalid("optim.decay_window", f"{rule}, got {recipe.optim.decay_window}")
    _staged(recipe)


def _readable(recipe: Recipe) -> None:
    heads = recipe.random_labels
    if not isinstance(heads, Heads):
        return
    if not recipe.model.layers():
        rule = f"{recipe.model.name} has no layer that a head could read"
        raise invalid("random_labels.name", rule)
    heads.suppressed(recipe.model.layers())
    if heads.standardize and recipe.optim.batch == 1:
        rule = "needs an optim.batch of 2 or more: write false, or a larger batch"
        raise invalid("random_labels.standardize", rule)


def _tied(recipe: Recipe) -> None:
    assert isinstance(recipe.data, Tokens)
    _, vocabulary, classes = recipe.data.shape()
    if vocabulary != classes:
        rule = f"the answers of {recipe.data.name} are not its tokens"
        raise invalid("model.tied", rule + ": for modular, set data.equals to false")
    rule = f"{recipe.model.name} with model.tied true has no readout of its own"
    if isinstance(recipe.pretrain, Stage):
        raise invalid("pretrain.name", f"draws the readout anew, {rule}")
    assert isinstance(recipe.init, Init)
    if recipe.init.kappa != 1:
        raise invalid("init.kappa", f"divides the readout, {rule}")


def _staged(recipe: Recipe) -> None:
    """What is wrong with the first of two trainings is said of its own fields."""
    try:
        first = recipe.pretraining
    except ValidationError as error:  # of the fields as they are put together
        detail = error.errors(include_url=False)[0]
        context: dict[str, Any] = detail.get("ctx", {})
        field = context.get("field", "")
        name = field.rpartition(".")[2]
        own = name in Stage.model_fields and name != "name"
        text = f"in the first stage: {context.get('text', detail['msg'])}"
        raise invalid(f"pretrain.{name}" if own else field or "pretrain.name", text) from None
    if first is not None:
        recipe.data.untested(first.data)  # type: ignore[union-attr]  # all that have a stage


def _without_attention(recipe: Recipe) -> None:
    fields = ("qk", "vo", "mlp", "residual") if isinstance(recipe.init, Init) else ()
    for field in fields:
        if getattr(recipe.init, field) != type(recipe.init).model_fields[field].default:
            raise invalid(f"init.{field}", f"{recipe.model.name} has no attention")
    if isinstance(recipe.data, Tokens) and recipe.data.answers() > 1:
        wants = f"answers once, data.name {recipe.data.name} asks {recipe.data.answers()} times"
        raise invalid("model.name", f"{recipe.model.name} {wants}")
    if recipe.probes.sink:
        raise invalid("probes.sink", f"{recipe.model.name} has no attention")


def _patched(recipe: Recipe, model: ViT) -> None:
    _, height, width = IMAGES[recipe.data.name]
    if height % model.patch or width % model.patch:
        rule = f"must divide the {height}x{width} pixels of {recipe.data.name}"
        raise invalid("model.patch", f"{rule}, got {model.patch}")
    if recipe.probes.sink:
        raise invalid("probes.sink", f"reads causal attention, {model.name} has none")
