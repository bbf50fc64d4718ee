"""A recipe: every setting of one training run, typed.

A section with variants (`data`, `model`, `init`, `optim`, `penalty`, `pretrain`, `random_labels`)
is told apart by its `name` (`rule` for `init`), and has just the fields that this variant uses. To
add a variant, write its class beside the others of its section, name it in their union, and
register the builder under the same name in its room. The sections `steps_to` and `probes` have no
variants.
"""

from __future__ import annotations

import functools
import hashlib
import json
import types
import typing
from typing import Annotated, Any, Literal

from pydantic import model_validator

from initmem.study import recipe_rules
from initmem.study.data_section import Data
from initmem.study.init_section import Initialization
from initmem.study.model_section import (
    MLP,
    Diagonal,
    Model,
    TokenMLP,
    TwoLayer,
)
from initmem.study.objective_section import NoPenalty, Penalty, Probes, Radial, StepsTo
from initmem.study.optim_section import Optimizer
from initmem.study.preference_data import GaussianPairs
from initmem.study.pretrain_section import NoPretraining, Pretraining, Stage
from initmem.study.random_labels_section import Heads, NoHeads, RandomLabels
from initmem.study.section import Count, Section
from initmem.study.token_data import Tokens


class Recipe(Section):
    data: Data
    model: Model
    init: Initialization
    optim: Optimizer
    penalty: Penalty = NoPenalty(name="none")
    pretrain: Pretraining = NoPretraining(name="none")
    random_labels: RandomLabels = NoHeads(name="none")
    steps_to: StepsTo = StepsTo()
    probes: Probes = Probes()
    eval_every: Count | None = None
    """Steps between evaluations; null is once an epoch. The last step is always evaluated."""
    precision: Literal["float32", "medium", "bf16"] = "float32"
    """float32: without TF32, on every device. medium: float32, but products of matrices as torch's
    `set_float32_matmul_precision("medium")` allows: other kernels on a CPU, operands in bf16 where
    it has AMX, TF32 on a GPU. bf16: autocast of the forward pass; weights and optimizer stay
    float32."""

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        recipe_rules.check(self)
        return self

    @property
    def pretraining(self) -> Recipe | None:
        """The recipe of the first of two trainings, or None where there is one. Raises
        pydantic.ValidationError."""
        if not isinstance(self.pretrain, Stage):
            return None
        fields = self.model_dump(exclude={"pretrain", "probes", "random_labels"})
        self.pretrain.put(fields, self.data)
        return Recipe.model_validate(fields)

    @property
    def stages(self) -> tuple[Recipe, ...]:
        """The recipes that a network is trained by, one after the other."""
        first = self.pretraining
        return (self,) if first is None else (first, self)

    @property
    def stacks(self) -> bool:
        """Whether `engine: batched` can train it."""
        return not self.unstacked

    @property
    def unstacked(self) -> str:
        """What `engine: batched` cannot train of it, in words, or nothing."""
        if isinstance(self.data, Tokens) and self.data.answers() > 1:
            return f"data set that asks {self.data.answers()} times, as {self.data.name} does"
        if isinstance(self.random_labels, Heads):
            return "network with random-label heads"
        if isinstance(self.penalty, Radial) and not isinstance(self.model, MLP | TokenMLP):
            return f"{self.model.name} with a penalty"
        return self.model.unstacked

    @property
    def graphed(self) -> bool:
        """Whether `engine: graph` can train it."""
        alone = isinstance(self.model, Diagonal | TwoLayer)
        return not alone and not isinstance(self.random_labels, Heads)

    @property
    def read(self) -> list[str]:
        """Names of the probes that are read, with that of random-label heads."""
        heads = isinstance(self.random_labels, Heads)
        return [*self.probes.on, *["random_labels"] * heads]

    @property
    def streams(self) -> bool:
        """Whether each step has examples of its own."""
        return isinstance(self.data, GaussianPairs)

    @property
    def batch(self) -> int:
        """Examples a step."""
        return self.optim.batch or self.data.sizes()[0]

    @property
    def steps_per_epoch(self) -> int:
        """Of a stream, the whole budget."""
        if self.streams:
            return self.total_steps
        return self.data.sizes()[0] // self.batch

    @property
    def total_steps(self) -> int:
        """The budget in steps."""
        return self.optim.steps or (self.optim.epochs or 0) * self.steps_per_epoch

    @property
    def evaluation_interval(self) -> int:
        """Steps between evaluations."""
        return self.eval_every or self.steps_per_epoch


@functools.cache
def variants(section: str) -> dict[str, type[Section]]:
    """Name -> class of a section with variants; empty for any other and for a plain field."""
    key = discriminator(section)
    return {
        name: member
        for member in _sections(section)
        if key in member.model_fields
        for name in typing.get_args(member.model_fields[key].annotation)
    }


def _sections(name: str) -> list[type[Section]]:
    return sections(Recipe.model_fields[name].annotation)


def sections(annotation: Any) -> list[type[Section]]:
    """Those that a value of this annotation can be."""
    return [m for m in _members(annotation) if isinstance(m, type) and issubclass(m, Section)]


def is_branch(name: str) -> bool:
    """Whether a top-level name of a recipe is a section, not a plain field."""
    return name in Recipe.model_fields and bool(_sections(name))


def discriminator(section: str) -> str:
    """The field that tells the variants of a section apart."""
    return "rule" if section == "init" else "name"


@functools.cache
def field_types() -> dict[str, Any]:
    """Dotted name -> annotation, over all variants: what a study may set, in a stable order."""
    types_: dict[str, Any] = {}
    for section, info in Recipe.model_fields.items():
        if not _sections(section):
            types_[section] = info.annotation
        for member in _sections(section):
            for name, field in member.model_fields.items():
                types_.setdefault(f"{section}.{name}", field.annotation)
    return types_


def base_type(annotation: Any) -> type:
    """int, float, bool or str: the type behind Optional and Literal, whose values are of one."""
    if typing.get_origin(annotation) is Literal:
        return type(typing.get_args(annotation)[0])
    plain = [m for m in _members(annotation) if m is not type(None)]
    return base_type(plain[0]) if plain[0] is not annotation else annotation


def flatten(recipe: Recipe, *, exclude_defaults: bool = False) -> dict[str, Any]:
    """Dotted name -> value."""
    flat: dict[str, Any] = {}
    for section, value in recipe.model_dump(exclude_defaults=exclude_defaults).items():
        if isinstance(value, dict):
            flat.update({f"{section}.{name}": v for name, v in value.items()})
        else:
            flat[section] = value
    return flat


def digest(content: Any) -> str:
    """A short stable name: 12 hex digits of the SHA-256 of the canonical JSON."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def recipe_id(recipe: Recipe, **more: Any) -> str:
    """Hash of the non-default fields and `more`: a field added later leaves old ids alone."""
    return digest({"recipe": flatten(recipe, exclude_defaults=True), **more})


def _members(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) is Annotated:
        return _members(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return tuple(m for arg in typing.get_args(annotation) for m in _members(arg))
    return (annotation,)
