"""The networks a recipe can name."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from initmem.study.section import Count, Section, Size, invalid


class Network(Section):
    kind: ClassVar[str]
    """Of the data it takes."""

    @property
    def stacks(self) -> bool:
        """Whether `engine: batched` can train it: see `models/stacked.py`."""
        return True


class _Convolutional(Network):
    """Kernels of norms round the channels that fill no vector register by a path of their own,
    and with an odd width these would be another replica's in each stack."""

    @property
    def stacks(self) -> bool:
        width: int = self.width  # type: ignore[attr-defined]  # of each, in its own place
        return width % 8 == 0


class ResNet9(_Convolutional):
    """A stem and three residual blocks of two 3x3 convolutions, widths w, 2w, 4w, 8w."""

    kind: ClassVar[str] = "image"
    name: Literal["resnet9"]
    width: Size = 64
    """Channels of the stem."""
    norm: Literal["none", "batch", "group"] = "batch"
    downsample: Literal["stride", "average"] = "stride"
    """Halve the image by strided convolutions or by 2x2 average pooling."""


class CifarResNet(_Convolutional):
    """The 6n+2 layer family of He et al. 2015 (arXiv 1512.03385, section 4.2)."""

    kind: ClassVar[str] = "image"
    name: Literal["resnet20", "resnet56", "resnet110"]
    width: Size = 16
    """Channels of the first stage; the next two have 2 and 4 times as many."""
    norm: Literal["none", "batch", "group"] = "batch"
    downsample: Literal["stride", "average"] = "stride"
    """Halve the image by strided convolutions or by 2x2 average pooling."""


class MLP(Network):
    kind: ClassVar[str] = "image"
    name: Literal["mlp"]
    width: Size = 256
    depth: Size = 1
    """Hidden ReLU layers."""
    bias: bool = False


class Transformer(Network):
    """A causal decoder that answers at its last position."""

    kind: ClassVar[str] = "tokens"
    name: Literal["transformer"]
    depth: Size = 1
    heads: Count = 4
    width: Size = 128
    norm: Literal["none", "layer", "rms"] = "layer"

    @model_validator(mode="after")
    def _divides(self) -> Transformer:
        if self.width % self.heads:
            raise invalid("model.heads", f"must divide model.width {self.width}")
        return self


Model = Annotated[ResNet9 | CifarResNet | MLP | Transformer, Field(discriminator="name")]
