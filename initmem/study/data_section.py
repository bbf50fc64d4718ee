"""The data sets a recipe can name."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from initmem.study.preference_data import GaussianPairs
from initmem.study.regression_data import SparseRegression
from initmem.study.section import Count, Fraction, Section, Seed, invalid
from initmem.study.token_data import Addition, Anchors, Modular, Permutations, Text

IMAGES = {
    "digits": (1, 8, 8),
    "fashion_mnist": (1, 28, 28),
    "cifar10": (3, 32, 32),
    "cifar100": (3, 32, 32),
    "svhn": (3, 32, 32),
}
"""Channels, height and width."""


def classes_in(text: str) -> tuple[int, ...]:
    """The classes that a text such as `0-4` or `0-2,7` names, in order; none if it is no such
    text."""
    if not re.fullmatch(r"\d{1,3}(-\d{1,3})?(,\d{1,3}(-\d{1,3})?)*", text, re.ASCII):
        return ()
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found) if found == sorted(set(found)) else ()


def _named(text: str) -> str:
    if text != "rest" and len(classes_in(text)) < 2:
        rule = "must name two classes or more in ascending order, such as 0-4 or 0-2,7"
        raise invalid("", f"{rule}, got {text[:40]!r}")
    return text


def _own(text: str) -> str:
    if text == "rest":
        raise invalid("", "rest is for pretrain.classes: what data.classes leaves")
    return _named(text)


Classes = Annotated[str, AfterValidator(_own)]
FirstClasses = Annotated[str, AfterValidator(_named)]


class Images(Section):
    kind: ClassVar[str] = "image"
    restaged: ClassVar[tuple[str, ...]] = ("train", "validation", "classes")
    """Fields that may be others in the first of two trainings."""
    spare: ClassVar[int] = 0
    """Images that train and validation must leave: for digits, to have a test set."""

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
    classes: Classes | None = None
    """Classes that there are, counted from 0, such as 0-4 or 0-2,7; they are numbered anew in
    this order. Default: all."""
    label_noise: Fraction = 0.0
    """Share of the training images, rounded to whole ones, whose label is replaced by another
    class, each of the others alike, drawn by `split`. What is wrong at one share is wrong in the
    same way at any larger one. Training and its accuracy know the wrong label alone; validation
    and test images keep theirs. The first of two trainings has the same share of its own training
    images; an image that is wrong in both has the same label in both."""

    @model_validator(mode="after")
    def _fits(self) -> Images:
        each = self.per_class()
        if max(self.labels()) >= len(each):
            rule = f"{self.name} has the classes 0-{len(each) - 1}"  # type: ignore[attr-defined]  # of a variant
            raise invalid("data.classes", f"{rule}, got {self.classes}")
        pool = sum(each[label] for label in self.labels()) - self.spare
        if self.train + self.validation > pool:
            rule = f"train + validation may be at most {pool}"
            of = "" if self.classes is None else f" for classes {self.classes}"
            raise invalid("data.train", f"{rule}{of}, got {self.train} + {self.validation}")
        return self

    def per_class(self) -> tuple[int, ...]:
        """Images of each class that train and validation (for digits: test too) are drawn
        from."""
        raise NotImplementedError

    def tested_per_class(self) -> tuple[int, ...]:
        """Images of each class for testing, beside those of `per_class`."""
        raise NotImplementedError

    def labels(self) -> tuple[int, ...]:
        """The classes, as the data set numbers them."""
        if self.classes is None:
            return tuple(range(len(self.per_class())))
        return classes_in(self.classes)

    def rest(self) -> str:
        """The classes that `classes` leaves, as such a text."""
        left = sorted(set(range(len(self.per_class()))) - set(self.labels()))
        if len(left) < 2:
            raise invalid("pretrain.classes", "rest: data.classes leaves fewer than two classes")
        return ",".join(map(str, left))

    def untested(self, first: Any) -> None:
        """Raises an error of `pretrain` where a network that learns `first` before these would
        learn images that are tested: other classes are split anew, while a smaller training set
        of the same is the begin of a larger one."""
        same = self.labels() == first.labels()
        if same and first.train > self.train:
            rule = f"at most data.train {self.train}, where the classes are the same"
            raise invalid("pretrain.train", f"{rule}: else images that are tested are learned")
        if not same and set(self.labels()) & set(first.labels()):
            rule = "must be those of data.classes, or none of them, as rest"
            raise invalid("pretrain.classes", f"{rule}: else images that are tested are learned")

    def sizes(self) -> tuple[int, int, int]:
        """Examples for training, validation and test."""
        return self.train, self.validation, self.tested()

    def tested(self) -> int:
        each = self.tested_per_class()
        return sum(each[label] for label in self.labels())

    def ood(self) -> bool:
        """Whether there is a set out of distribution."""
        return False


class Digits(Images):
    """scikit-learn's 1,797 images of 8x8 pixels; what is not drawn for training or validation
    is the test set."""

    spare: ClassVar[int] = 1
    name: Literal["digits"]
    train: Count = 500
    validation: Count = 300

    def per_class(self) -> tuple[int, ...]:
        return 178, 182, 177, 183, 181, 182, 181, 179, 174, 180

    def tested(self) -> int:
        each = self.per_class()
        return sum(each[label] for label in self.labels()) - self.train - self.validation


class FashionMNIST(Images):
    name: Literal["fashion_mnist"]
    train: Count = 50_000
    validation: Count = 10_000

    def per_class(self) -> tuple[int, ...]:
        return (6_000,) * 10

    def tested_per_class(self) -> tuple[int, ...]:
        return (1_000,) * 10


class CIFAR(Images):
    name: Literal["cifar10", "cifar100"]
    train: Count = 40_000
    validation: Count = 10_000

    def per_class(self) -> tuple[int, ...]:
        return (5_000,) * 10 if self.name == "cifar10" else (500,) * 100

    def tested_per_class(self) -> tuple[int, ...]:
        return (1_000,) * 10 if self.name == "cifar10" else (100,) * 100


class SVHN(Images):
    name: Literal["svhn"]
    train: Count = 63_257
    validation: Count = 10_000

    def per_class(self) -> tuple[int, ...]:
        return 4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659

    def tested_per_class(self) -> tuple[int, ...]:
        return 1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595


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
    | SparseRegression
    | GaussianPairs,
    Field(discriminator="name"),
]
