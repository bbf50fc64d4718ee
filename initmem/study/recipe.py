"""A recipe: every setting of one training run, typed.

A section with variants (`data`, `model`, `init`, `optim`) is told apart by its `name` (`rule` for
`init`), and has just the fields that this variant uses. To add a variant, write its class here,
name it in the union below, and register the builder under the same name in its room.
"""

from __future__ import annotations

import functools
import hashlib
import json
import types
import typing
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]


class Section(BaseModel):
    """Strict and frozen: `true` is no integer, unknown keys and nan are errors."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )


def invalid(field: str, text: str) -> PydanticCustomError:
    """An error that a rule between fields gives, pinned to the dotted `field` to change."""
    return PydanticCustomError("rule", "{text}", {"text": text, "field": field})


# --- data ---------------------------------------------------------------------------------------


class Images(Section):
    kind: ClassVar[str] = "image"
    pool: ClassVar[int]
    """Images that train and validation (for digits: test too) are drawn from."""

    train: Count
    """Training images."""
    validation: Count
    """Validation images: they select the predictor and guide the search."""
    split: Seed = 0
    """Seed of the split. One split for all replicas, unless it is made an axis."""
    crop: Annotated[int, Field(ge=0, le=16)] = 0
    """Random crops after zero padding by this many pixels, drawn anew for each batch."""
    flip: bool = False
    """Random horizontal flips."""

    @model_validator(mode="after")
    def _fits(self) -> Images:
        if self.train + self.validation > self.pool:
            rule = f"train + validation may be at most {self.pool}"
            raise invalid("data.train", f"{rule}, got {self.train} + {self.validation}")
        return self

    def sizes(self) -> tuple[int, int, int]:
        """Examples for training, validation and test."""
        return self.train, self.validation, self.tested()

    def tested(self) -> int:
        raise NotImplementedError


class Digits(Images):
    """scikit-learn's 1,797 images of 8x8 pixels; what is not drawn for training or validation
    is the test set."""

    pool: ClassVar[int] = 1796
    name: Literal["digits"]
    train: Count = 500
    validation: Count = 300

    def tested(self) -> int:
        return 1797 - self.train - self.validation


class FashionMNIST(Images):
    pool: ClassVar[int] = 60_000
    name: Literal["fashion_mnist"]
    train: Count = 50_000
    validation: Count = 10_000

    def tested(self) -> int:
        return 10_000


class CIFAR(Images):
    pool: ClassVar[int] = 50_000
    name: Literal["cifar10", "cifar100"]
    train: Count = 40_000
    validation: Count = 10_000

    def tested(self) -> int:
        return 10_000


class SVHN(Images):
    pool: ClassVar[int] = 73_257
    name: Literal["svhn"]
    train: Count = 63_257
    validation: Count = 10_000

    def tested(self) -> int:
        return 26_032


class Modular(Section):
    """Sequences (a, b, =) with the label a op b mod p: p^2 pairs, for division p (p - 1)."""

    kind: ClassVar[str] = "tokens"
    name: Literal["modular"]
    p: Annotated[int, Field(ge=3, le=251)] = 97
    """Modulus; at most 251, for predictions are kept as bytes."""
    operation: Literal["add", "subtract", "multiply", "divide"] = "add"
    train_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Share of the pairs for training; the rest is halved into validation and test."""
    split: Seed = 0
    """Seed of the split."""

    @model_validator(mode="after")
    def _solvable(self) -> Modular:
        composite = any(self.p % k == 0 for k in range(2, int(self.p**0.5) + 1))
        if self.operation == "divide" and composite:
            raise invalid("data.p", f"division needs a prime modulus, got {self.p}")
        if min(self.sizes()) < 1:
            raise invalid("data.train_fraction", "leaves a split without examples")
        return self

    def sizes(self) -> tuple[int, int, int]:
        """Pairs for training, validation and test."""
        pairs = self.p * (self.p - (self.operation == "divide"))
        train = int(self.train_fraction * pairs)
        validation = (pairs - train) // 2
        return train, validation, pairs - train - validation


# --- model --------------------------------------------------------------------------------------


class ResNet9(Section):
    """A stem and three residual blocks of two 3x3 convolutions, widths w, 2w, 4w, 8w."""

    kind: ClassVar[str] = "image"
    name: Literal["resnet9"]
    width: Count = 64
    """Channels of the stem."""
    norm: Literal["none", "batch", "group"] = "batch"
    downsample: Literal["stride", "average"] = "stride"
    """Halve the image by strided convolutions or by 2x2 average pooling."""


class CifarResNet(Section):
    """The 6n+2 layer family of He et al. 2015 (arXiv 1512.03385, section 4.2)."""

    kind: ClassVar[str] = "image"
    name: Literal["resnet20", "resnet56", "resnet110"]
    width: Count = 16
    """Channels of the first stage; the next two have 2 and 4 times as many."""
    norm: Literal["none", "batch", "group"] = "batch"
    downsample: Literal["stride", "average"] = "stride"
    """Halve the image by strided convolutions or by 2x2 average pooling."""


class MLP(Section):
    kind: ClassVar[str] = "image"
    name: Literal["mlp"]
    width: Count = 256
    depth: Count = 1
    """Hidden ReLU layers."""
    bias: bool = False


class Transformer(Section):
    """A causal decoder that answers at its last position."""

    kind: ClassVar[str] = "tokens"
    name: Literal["transformer"]
    depth: Count = 1
    heads: Count = 4
    width: Count = 128
    norm: Literal["none", "layer", "rms"] = "layer"

    @model_validator(mode="after")
    def _divides(self) -> Transformer:
        if self.width % self.heads:
            raise invalid("model.heads", f"must divide model.width {self.width}")
        return self


# --- init ---------------------------------------------------------------------------------------


class Init(Section):
    """std of a weight tensor = the rule's std x scale x the factor of its group."""

    scale: Positive = 1.0
    stem: Positive = 1.0
    """Extra factor of the first layer (of a Transformer: its embeddings)."""
    body: Positive = 1.0
    """Extra factor of all between."""
    head: Positive = 1.0
    """Extra factor of the readout."""


class FixedRule(Init):
    rule: Literal["kaiming", "lecun", "torch"]
    """kaiming: sqrt(2 / fan_in), readout sqrt(1 / fan_in); lecun: sqrt(1 / fan_in); torch: what
    torch draws by default."""


class GammaRule(Init):
    rule: Literal["gamma"]
    gamma: Annotated[float, Field(ge=0, le=4)] = 0.5
    """std = fan_in^-gamma: a larger gamma is a smaller initialization."""


# --- optimizer ----------------------------------------------------------------------------------


class Optim(Section):
    lr: Positive
    """Peak learning rate."""
    l2: NonNegative = 0.0
    """Added to the gradient as l2 x weight, for every parameter."""
    weight_decay: NonNegative = 0.0
    """Decoupled: each step multiplies every parameter by 1 - lr x weight_decay."""
    batch: Count | None = 128
    """Examples a step; null is the whole training set. The incomplete batch that ends an epoch
    is dropped, another one each epoch."""
    epochs: Count | None = None
    """Budget in passes over the training set. Give either epochs or steps."""
    steps: Count | None = None
    """Budget in optimizer steps."""
    stop_loss: Positive | None = None
    """End training at the first evaluation with a train loss at or below this."""
    schedule: Literal["constant", "cosine"] = "constant"
    """cosine: from lr to 0 over the budget."""
    warmup: Annotated[int, Field(ge=0)] = 0
    """Steps of linear warm-up, multiplied onto the schedule."""
    clip: Positive | None = None
    """Largest global norm of the loss gradient, before L2 is added."""


class SGD(Optim):
    name: Literal["sgd"]


class Momentum(Optim):
    name: Literal["momentum"]
    momentum: Fraction = 0.9
    nesterov: bool = False


class Adam(Optim):
    """adam and adamw differ in nothing but the field they are used with: l2 or weight_decay."""

    name: Literal["adam", "adamw"]
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    eps: Positive = 1e-8


class RMSprop(Optim):
    name: Literal["rmsprop"]
    alpha: Fraction = 0.99
    eps: Positive = 1e-8


class Muon(Optim):
    """Muon for the matrices and flattened kernels of the body, AdamW (beta 0.9 and 0.95) for
    stem, head, biases and norms; the update is scaled to AdamW's size, so one lr serves both."""

    name: Literal["muon"]
    momentum: Fraction = 0.95


# --- the whole ----------------------------------------------------------------------------------

Data = Annotated[Digits | FashionMNIST | CIFAR | SVHN | Modular, Field(discriminator="name")]
Model = Annotated[ResNet9 | CifarResNet | MLP | Transformer, Field(discriminator="name")]
Initialization = Annotated[FixedRule | GammaRule, Field(discriminator="rule")]
Optimizer = Annotated[SGD | Momentum | Adam | RMSprop | Muon, Field(discriminator="name")]


class Recipe(Section):
    data: Data
    model: Model
    init: Initialization
    optim: Optimizer
    eval_every: Count | None = None
    """Steps between evaluations; null is once an epoch. The last step is always evaluated."""
    precision: Literal["float32", "bf16"] = "float32"
    """bf16: autocast of the forward pass; weights and optimizer stay float32."""

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        train = self.data.sizes()[0]
        if self.model.kind != self.data.kind:
            wants = f"takes {self.model.kind} input, data.name {self.data.name}"
            raise invalid("model.name", f"{self.model.name} {wants} gives {self.data.kind}")
        if self.optim.batch is not None and self.optim.batch > train:
            raise invalid("optim.batch", f"at most the {train} training examples, or null for all")
        if (self.optim.epochs is None) == (self.optim.steps is None):
            raise invalid("optim.epochs", "give either optim.epochs or optim.steps")
        if self.optim.warmup >= self.total_steps:
            rule = f"must be less than the budget of {self.total_steps} steps"
            raise invalid("optim.warmup", f"{rule}, got {self.optim.warmup}")
        return self

    @property
    def batch(self) -> int:
        """Examples a step."""
        return self.optim.batch or self.data.sizes()[0]

    @property
    def steps_per_epoch(self) -> int:
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
    """Name -> class of a section with variants; empty for a plain field."""
    members = [m for m in _members(Recipe.model_fields[section].annotation) if _is_section(m)]
    key = discriminator(section)
    return {
        name: member
        for member in members
        for name in typing.get_args(member.model_fields[key].annotation)
    }


def is_branch(name: str) -> bool:
    """Whether a top-level name of a recipe is a section with variants, not a plain field."""
    return name in Recipe.model_fields and bool(variants(name))


def discriminator(section: str) -> str:
    """The field that tells the variants of a section apart."""
    return "rule" if section == "init" else "name"


@functools.cache
def field_types() -> dict[str, Any]:
    """Dotted name -> annotation, over all variants: what a study may set, in a stable order."""
    types_: dict[str, Any] = {}
    for section, info in Recipe.model_fields.items():
        if not variants(section):
            types_[section] = info.annotation
        for member in dict.fromkeys(variants(section).values()):
            for name, field in member.model_fields.items():
                types_.setdefault(f"{section}.{name}", field.annotation)
    return types_


def base_type(annotation: Any) -> type:
    """int, float, bool or str: the type behind Optional and Literal."""
    if typing.get_origin(annotation) is Literal:
        return str
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


def _is_section(member: Any) -> bool:
    return isinstance(member, type) and issubclass(member, Section)
