"""What a recipe adds to the loss, and what it measures on the way."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from initmem.study.section import Count, NonNegative, Positive, Section, Share


class NoPenalty(Section):
    name: Literal["none"]


class Radial(Section):
    """strength x (|h| / sqrt(d) - radius)^2, the mean over hidden vectors h of width d, summed
    over layers: a soft pull onto a sphere (arXiv 2606.32000)."""

    name: Literal["radial"]
    strength: NonNegative = 0.05
    radius: Positive = 1.0
    """Of the sphere, in units of sqrt(d)."""
    site: Literal["pre", "post", "last", "residual"] = "pre"
    """Of the hidden vectors: pre-activations of every hidden layer, activations, pre-activations
    of the last hidden layer, or the last residual of the answers."""


Penalty = Annotated[NoPenalty | Radial, Field(discriminator="name")]


class StepsTo(Section):
    """What counts as fitted and as generalized. A row tells the first evaluation at which these
    shares of the examples are right, or null."""

    train: Share = 0.99
    validation: Share = 0.95


class Probes(Section):
    """What is measured of a network in training, beside its accuracy."""

    every: Count | None = None
    """Steps between readings; null is at each evaluation. The first step and the last are always
    read."""
    radius: bool = False
    """Mean |h| / sqrt(d) of each layer's pre-activations, norm of all weights, and mean norm of
    the logits, on the first 512 validation examples."""
    radial_share: bool = False
    """Radial share of the task's gradient at pre-activations, d |P_r g|^2 / |g|^2, the mean of the
    ratios: 1 for a random direction. On the first 512 training and validation examples."""
    rank: bool = False
    """Effective rank, participation ratio and stable rank of each weight matrix, and the effective
    rank of each layer's pre-activations."""
    condensation: bool = False
    """Cosines between the rows of each weight matrix: mean of their sizes, and the share above
    0.7; the final ones of the first hidden matrix are kept as column `cosines`."""
    hessian: bool = False
    """Largest eigenvalue and trace of the Hessian of the train loss, with the loss itself, on the
    first 512 training examples. Costs as much as 100 to 200 steps on these."""
    sink: bool = False
    """Share of attention that goes to the first token, from all later ones."""
    groups: bool = False
    """Validation loss and accuracy by group of answers: digits of a sum; characters of a text by
    what tells them."""

    features: bool = False
    """Of planted features, the mean over neurons of |cosines|: of on-target neurons to theta_1
    (on_target) and to the limit of their arm (to_limit), of off-target neurons to theta_2 (kept)
    and to theta_1 (captured)."""

    @property
    def on(self) -> list[str]:
        """The names of the probes that are read."""
        return [name for name in type(self).model_fields if getattr(self, name) is True]
