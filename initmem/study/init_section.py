"""The initializations a recipe can name."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from initmem.study.section import Positive, Section


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


Initialization = Annotated[FixedRule | GammaRule, Field(discriminator="rule")]
