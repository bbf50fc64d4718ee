"""The networks a recipe can name."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from initmem.study.section import Count, NonNegative, Positive, Section, Size, invalid


class Network(Section):
    kind: ClassVar[str]
    """Of the data it takes."""
    sites: ClassVar[tuple[str, ...]] = ()
    """Where hidden vectors can be read: pre (pre-activations), post (activations), last (the
    pre-activations of the last layer), residual (the last residual of the answers)."""

    @property
    def unstacked(self) -> str:
        """What `engine: batched` cannot train of it (see `models/stacked.py`), or nothing."""
        return ""

    def layers(self) -> dict[str, int]:
        """Name -> width of each module whose output a random-label head can read, from the input
        to what the readout takes."""
        return {}


class _Convolutional(Network):
    kind: ClassVar[str] = "image"
    name: str
    width: Size
    norm: Literal["none", "batch", "group"] = "batch"
    downsample: Literal["stride", "average"] = "stride"
    """Halve the image by strided convolutions or by 2x2 average pooling."""

    @property
    def unstacked(self) -> str:
        """Kernels of norms round the channels that fill no vector register by a path of their own,
        and with an odd width these would be another replica's in each stack."""
        return f"{self.name} whose width is no multiple of 8" if self.width % 8 else ""

    @property
    def blocks(self) -> list[int]:
        """Width of each residual block, in widths of the stem."""
        raise NotImplementedError

    def layers(self) -> dict[str, int]:
        blocks = {f"body.{i}": width * self.width for i, width in enumerate(self.blocks)}
        return {"stem": self.width, **blocks}


class ResNet9(_Convolutional):
    """A stem and three residual blocks of two 3x3 convolutions, widths w, 2w, 4w, 8w."""

    name: Literal["resnet9"]
    width: Size = 64
    """Channels of the stem."""

    @property
    def blocks(self) -> list[int]:
        return [2, 4, 8]


class CifarResNet(_Convolutional):
    """The 6n+2 layer family of He et al. 2015 (arXiv 1512.03385, section 4.2)."""

    name: Literal["resnet20", "resnet56", "resnet110"]
    width: Size = 16
    """Channels of the first stage; the next two have 2 and 4 times as many."""

    @property
    def blocks(self) -> list[int]:
        each = (int(self.name.removeprefix("resnet")) - 2) // 6
        return [stage for stage in (1, 2, 4) for _ in range(each)]


class ResNet18(_Convolutional):
    """Four stages of two residual blocks, with 1x1 shortcuts where the width changes (He et al.
    2015, table 1), for small images: the stem is a 3x3 convolution, without pooling."""

    name: Literal["resnet18"]
    width: Size = 64
    """Channels of the first stage; the next have 2, 4 and 8 times as many."""

    @property
    def blocks(self) -> list[int]:
        return [stage for stage in (1, 2, 4, 8) for _ in range(2)]


class MLP(Network):
    kind: ClassVar[str] = "image"
    sites: ClassVar[tuple[str, ...]] = ("pre", "post", "last")
    name: Literal["mlp"]
    width: Size = 256
    depth: Size = 1
    """Hidden ReLU layers."""
    bias: bool = False

    def layers(self) -> dict[str, int]:
        return {f"hidden.{i}": self.width for i in range(self.depth)}


class TokenMLP(Network):
    """The embeddings of all tokens, side by side, through ReLU layers."""

    kind: ClassVar[str] = "tokens"
    sites: ClassVar[tuple[str, ...]] = ("pre", "post", "last")
    name: Literal["token_mlp"]
    embedding: Size = 64
    """Width of an embedding."""
    width: Size = 128
    depth: Size = 2
    """Hidden ReLU layers."""
    bias: bool = True

    def layers(self) -> dict[str, int]:
        return {f"hidden.{i}": self.width for i in range(self.depth)}


class Attentive(Network):
    """Blocks of attention and a hidden layer, of linear layers without bias."""

    sites: ClassVar[tuple[str, ...]] = ("pre", "post", "last", "residual")
    name: str
    depth: Size = 1
    heads: Count = 4
    width: Size = 128
    head_width: Size | None = None
    """Of queries, keys and values; null is width / heads."""
    mlp: Size | None = None
    """Width of the hidden layer of a block; null is 4 width."""
    activation: Literal["gelu", "relu"] = "gelu"
    norm: Literal["none", "layer", "rms"] = "layer"
    norm_at: Literal["pre", "post"] = "pre"
    """pre: of the input of attention and hidden layer, and of the last residual; post: of each
    residual, after what is added to it."""
    norm_eps: Positive | None = None
    """Added to the variance (rms: the mean square); null is torch's: 1e-5, for rms 1.2e-7."""
    positions: Literal["learned", "none"] = "learned"
    gated: bool = False
    """What a head gives is multiplied, number by number, by the sigmoid of a linear function of
    the attention's input (arXiv 2505.06708)."""

    @model_validator(mode="after")
    def _divides(self) -> Attentive:
        if self.head_width is None and self.width % self.heads:
            raise invalid("model.heads", f"must divide model.width {self.width}")
        return self

    @property
    def inner(self) -> int:
        """Width of all heads, side by side."""
        return self.heads * (self.head_width or self.width // self.heads)

    def layers(self) -> dict[str, int]:
        """Embeddings, blocks, and what the readout takes."""
        blocks = {f"body.{i}": self.width for i in range(self.depth)}
        return {"stem": self.width, **blocks, f"body.{self.depth}": self.width}


class Transformer(Attentive):
    """A causal decoder that answers at its last positions."""

    kind: ClassVar[str] = "tokens"
    name: Literal["transformer"]
    tied: bool = False
    """Read out by the embeddings of the tokens."""

    @property
    def unstacked(self) -> str:
        return f"{self.name} with model.tied true" if self.tied else ""


class NanoGPT(Transformer):
    """The Transformer in the size of a GPT that a single GPU trains: 10.6 million parameters."""

    name: Literal["nanogpt"]  # type: ignore[assignment]  # a variant of its own
    depth: Size = 6
    heads: Count = 6
    width: Size = 384


class ViT(Attentive):
    """A Transformer of images, in which each patch attends to all, read out from their mean, which
    Beyer et al. 2022 (arXiv 2205.01580) find no worse than a class token."""

    kind: ClassVar[str] = "image"
    name: Literal["vit"]
    patch: Count = 4
    """Height and width of a patch in pixels; divides those of an image."""
    depth: Size = 4
    width: Size = 64

    @property
    def unstacked(self) -> str:
        """Every patch asks every other: without the short cuts of one answer at the last position,
        the algebra of stacks takes up to four times as long as the modules one by one."""
        return self.name


class Diagonal(Network):
    """beta = w+ v+ - w- v-, number by number, w the earlier layer and v the readout: linear in
    the inputs, not in its parameters, which are float64 (arXiv 2602.20062)."""

    kind: ClassVar[str] = "vector"
    name: Literal["diagonal"]

    @property
    def unstacked(self) -> str:
        return self.name


class TwoLayer(Network):
    """A reward sum_j a_j relu(w_j x - threshold), whose on-target neurons start in the subspace of
    the task that is trained, off-target neurons in that of another; only the w_j are trained
    (after arXiv 2605.12908)."""

    kind: ClassVar[str] = "pairs"
    name: Literal["two_layer"]
    neurons: Size = 16
    """On-target."""
    off: Size = 4
    """Off-target."""
    threshold: NonNegative = 1.5
    sign: Literal[1, -1] = 1
    """Of all a_j, which have size 1. 1 for labels whose second Hermite coefficient is positive, as
    of link h2, -1 for those where it is negative, as of h4."""
    output: NonNegative = 0.0
    """Scale of the mean over neurons in the logits of preferences. 0 is the limit of small
    outputs, in which neurons do not know of each other; gradients are divided by output / number
    of neurons, so that they have this limit."""

    @property
    def unstacked(self) -> str:
        return self.name


Model = Annotated[
    ResNet9
    | ResNet18
    | CifarResNet
    | MLP
    | TokenMLP
    | Transformer
    | NanoGPT
    | ViT
    | Diagonal
    | TwoLayer,
    Field(discriminator="name"),
]
