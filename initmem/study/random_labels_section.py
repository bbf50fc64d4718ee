"""Heads that learn a random label of each training example: what a network memorizes, by layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from initmem.study.section import Count, NonNegative, Positive, Section, invalid


class NoHeads(Section):
    name: Literal["none"]


class Heads(Section):
    """Each training example has one random label of n, for good; at each of some layers a linear
    head learns to predict it from what the layer gives (arXiv 2607.11541). What convolutions give
    is averaged over pixels first, sequences over positions.

    The heads' own gradient ends at the layer, so with strength 0 they measure and change no bit of
    the network. With a strength, strength x -log(1 - p) is added to the loss, p a head's
    probability of the right random label by weights that are constants: the mean over a batch,
    summed over the layers of `suppress`. A step down it takes the label out of the layer. (A
    digest of the paper prints it with the other sign, which would put it in.) Its slope by a logit
    is p, 1/n at chance: a strength means less at a larger n.
    """

    name: Literal["heads"]
    at: str = "all"
    """Layers with a head: all, last, or names such as body.0,body.2."""
    n: Annotated[int, Field(ge=2)] = 100
    """Random labels that there are. With few, suppression overshoots: accuracy falls far below
    the 1/n of chance, for a head that avoids the right label knows it."""
    lr: Positive = 1e-3
    """Of the heads' own Adam."""
    standardize: bool = True
    """Heads see each feature with mean 0 and variance 1 over the batch: else networks whose
    layers give larger numbers, as with a larger init scale, would have faster heads."""
    strength: NonNegative = 0.0
    suppress: str = "all"
    """Of the layers with a head, those at which the strength acts, named as in `at`."""
    control: Count | None = None
    """At the first step and the last, fresh heads are trained for this many epochs on what the
    frozen network gives, and read. Default: no such heads."""
    confidence: bool = False
    """Keep each training example's probability of its random label, by every head, at the end."""

    def layers(self, known: Mapping[str, int]) -> list[str]:
        """Names of the layers with a head, in the order of the network. known: its layers."""
        return _chosen("at", self.at, list(known), "the network")

    def suppressed(self, known: Mapping[str, int]) -> list[str]:
        """Names of the layers at which the strength acts."""
        return _chosen("suppress", self.suppress, self.layers(known), "random_labels.at")


def _chosen(field: str, text: str, known: list[str], whose: str) -> list[str]:
    """The layers that a text names. Raises the error of the first rule that is broken."""
    if text in ("all", "last"):
        return known if text == "all" else known[-1:]
    names = [name.strip() for name in text.split(",")]
    allowed = f"{whose} has {', '.join(known)}"
    for name in names:
        if name not in known:
            raise invalid(f"random_labels.{field}", f"unknown layer {name[:40]!r}, {allowed}")
    if len(names) > len(set(names)):
        count = f"{len(names)} heads for {len(set(names))} layers, a layer has one"
        raise invalid(f"random_labels.{field}", f"{count}: {allowed}")
    return [name for name in known if name in names]


RandomLabels = Annotated[NoHeads | Heads, Field(discriminator="name")]
