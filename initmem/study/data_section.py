"""The data sets a recipe can name."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from initmem.study.regression_data import SparseRegression
from initmem.study.section import Count, Section, Seed, invalid
from initmem.study.token_data import Addition, Anchors, Modular, Permutations, Text


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

    def ood(self) -> bool:
        """Whether there is a set out of distribution."""
        return False


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


Data = Annotated[
    Digits
    | FashionMNIST
    | CIFAR
    | SVHN
    | Modular
    | Addition
    | Anchors
    | Permutations
    | Text
    | SparseRegression,
    Field(discriminator="name"),
]
