"""The initializations a recipe can name."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from initmem.study.section import Fraction, NonNegative, Positive, Section


class Init(Section):
    """std of a weight tensor = the rule's std x scale x the factor of its group x its share of
    kappa."""

    scale: Positive = 1.0
    stem: Positive = 1.0
    """Extra factor of the first layer (of a Transformer: its embeddings, of tokens or patches)."""
    body: Positive = 1.0
    """Extra factor of all between."""
    head: Positive = 1.0
    """Extra factor of the readout."""
    kappa: Positive = 1.0
    """Scale of early layers relative to the readout, their product held: each of the L weight
    tensors of stem and body is multiplied by kappa^(1/L), the readout divided by kappa. An mlp
    without biases is the same function for every kappa; behind shortcuts, norms and attention
    the product alone is held, and BatchNorm takes the scale of early layers out of the function.
    arXiv 2602.20062 does not say which layers its kappa multiplies; this is our choice."""
    qk: Positive = 1.0
    """Extra factor of the queries and keys of a Transformer."""
    vo: Positive = 1.0
    """Extra factor of its values, their gate and the output of attention."""
    mlp: Positive = 1.0
    """Extra factor of the hidden layers in its blocks."""
    residual: Literal["plain", "depth"] = "plain"
    """depth: what a Transformer adds to its residual is divided by sqrt(2 depth)."""


class FixedRule(Init):
    rule: Literal["kaiming", "lecun", "torch"]
    """kaiming: sqrt(2 / fan_in), readout sqrt(1 / fan_in); lecun: sqrt(1 / fan_in), which with
    `scale` is the convention std = gamma / sqrt(fan_in); torch: what torch draws by default."""


class GammaRule(Init):
    rule: Literal["gamma"]
    gamma: Annotated[float, Field(ge=0, le=4)] = 0.5
    """std = fan_in^-gamma: a larger gamma is a smaller initialization."""


class DiagonalRule(Section):
    """The start of a diagonal network, which nothing of is drawn: w = sqrt(c (1 + lam) / 2) for
    the earlier layer and v = sqrt(c (1 - lam) / 2) for the readout (arXiv 2602.20062)."""

    rule: Literal["diagonal"]
    c: Positive = 1e-3
    """Absolute scale, w^2 + v^2."""
    lam: Annotated[float, Field(ge=-1, le=1)] = 0.0
    """Relative scale, (w^2 - v^2) / c: below 0 the earlier layer is the smaller one."""
    gam: NonNegative = 0.0
    """Scale of the readout after pretraining."""


class PlantedRule(Section):
    """The start of a network with planted features: on-target neurons uniform on the sphere of
    V_1, off-target neurons +-(sqrt(1 - spread^2) theta_2 + spread xi), where xi is uniform on the
    sphere of V_2 orthogonal to theta_2, all times scale. Noise depends on the seed alone."""

    rule: Literal["planted"]
    scale: Positive = 1.0
    """Norm of each neuron's weights."""
    spread: Fraction = 0.1
    """Share of what is no feature in off-target neurons."""


Initialization = Annotated[
    FixedRule | GammaRule | DiagonalRule | PlantedRule, Field(discriminator="rule")
]
