"""The data sets of tokens a recipe can name: all but the text are computed."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from initmem.study.section import Count, Section, Seed, invalid

Shape = tuple[int, int, int]
"""Tokens of an input, tokens that there are, classes of an answer."""
Operation = Literal["add", "subtract", "multiply", "divide", "mixed"]


class Tokens(Section):
    """Sequences of tokens; the network answers at its last positions."""

    kind: ClassVar[str] = "tokens"
    whole: ClassVar[bool] = True
    """Whether an example counts as right only if all its answers are."""
    restaged: ClassVar[tuple[str, ...]] = ()
    """Fields that may be others in the first of two trainings."""

    def untested(self, first: Any) -> None:
        """Raises an error of `pretrain` where a network that learns `first` before these would
        learn what is tested."""

    def sizes(self) -> tuple[int, int, int]:
        """Examples for training, validation and test."""
        raise NotImplementedError

    def shape(self) -> Shape:
        raise NotImplementedError

    def answers(self) -> int:
        """Positions, counted from the last, at which the network answers."""
        return 1

    def ood(self) -> bool:
        """Whether there is a set out of distribution."""
        return False


class _Drawn(Tokens):
    """Examples drawn without repetition from all there are."""

    train: Count
    validation: Count
    test: Count
    split: Seed = 0
    """Seed of the draw."""

    def sizes(self) -> tuple[int, int, int]:
        return self.train, self.validation, self.test

    def _at_most(self, pool: int) -> None:
        if sum(self.sizes()) > pool:
            rule = f"train + validation + test may be at most {pool}"
            raise invalid("data.train", f"{rule}, got {sum(self.sizes())}")


class Modular(Tokens):
    """Sequences (a, b, =) with the label a op b mod p: p^2 pairs, for division p (p - 1)."""

    restaged: ClassVar[tuple[str, ...]] = ("operation", "train_fraction")
    name: Literal["modular"]
    p: Annotated[int, Field(ge=3, le=251)] = 97
    """Modulus; at most 251, for predictions are kept as bytes."""
    operation: Operation = "add"
    """mixed: a / b where b is odd, else a - b (arXiv 2201.02177)."""
    train_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Share of the pairs for training; the rest is halved into validation and test."""
    equals: bool = True
    """Whether a sequence ends in the token of =; without it, sequences are (a, b)."""
    split: Seed = 0
    """Seed of the split."""

    @model_validator(mode="after")
    def _solvable(self) -> Modular:
        composite = any(self.p % k == 0 for k in range(2, int(self.p**0.5) + 1))
        if self.operation in ("divide", "mixed") and composite:
            raise invalid("data.p", f"division needs a prime modulus, got {self.p}")
        if min(self.sizes()) < 1:
            raise invalid("data.train_fraction", "leaves a split without examples")
        return self

    def untested(self, first: Any) -> None:
        both = {self.operation, first.operation}
        if both == {"mixed", "divide"}:
            text = "mixed and divide have answers in common, and different splits"
            raise invalid("pretrain.operation", text)
        common = len(both) == 1 or both == {"mixed", "subtract"}
        if common and first.train_fraction > self.train_fraction:
            rule = f"at most data.train_fraction {self.train_fraction:g} with these operations"
            raise invalid("pretrain.train_fraction", f"{rule}: else what is tested is learned")

    def sizes(self) -> tuple[int, int, int]:
        pairs = self.p * (self.p - (self.operation == "divide"))
        train = int(self.train_fraction * pairs)
        validation = (pairs - train) // 2
        return train, validation, pairs - train - validation

    def shape(self) -> Shape:
        return 2 + self.equals, self.p + self.equals, self.p


class Addition(_Drawn):
    """Two numbers of `digits` digits, with leading zeros, as the text a+b=c, c with a digit more;
    the network answers with the digits of c."""

    name: Literal["addition"]
    digits: Annotated[int, Field(ge=1, le=6)] = 3
    order: Literal["plain", "reversed"] = "plain"
    """Of the digits of c: reversed begins with the last."""
    square: bool = False
    """Hold out, as out of distribution, sums of two numbers that both lie in the fifth of the
    numbers amid the others, [400, 600) for three digits (arXiv 2405.05409)."""
    train: Count = 10_000
    validation: Count = 1_000
    test: Count = 1_000

    @model_validator(mode="after")
    def _fits(self) -> Addition:
        numbers = 10**self.digits
        self._at_most(numbers**2 - (self.square * (numbers // 5) ** 2))
        return self

    def shape(self) -> Shape:
        return 3 * self.digits + 2, 12, 12

    def answers(self) -> int:
        return self.digits + 1

    def ood(self) -> bool:
        return self.square


class Anchors(_Drawn):
    """Anchor functions (arXiv 2405.05409): a sequence of numbers 20 .. 99 holds one pair of
    anchors 1 .. 4, side by side; the key is the number just before them. Anchors add 5, 1, -2 and
    -8, and the label is the key after both. The pair (4, 3) is never trained; it is the set out
    of distribution, on which key - 10 is reasoning, key - 6 the symmetric answer."""

    name: Literal["anchors"]
    length: Annotated[int, Field(ge=3, le=64)] = 3
    """Tokens of a sequence; 3 are key and anchors, without noise. In longer ones, a key k stands
    at a place other than k mod (length - 2), from 0, for training, else at that place."""
    misleading: bool = True
    """Train the pair (3, 4) with the label key - 6; false: hold it out as (4, 3) is, with the
    label key - 10; then no answer is the symmetric one."""
    train: Count = 1_000
    validation: Count = 80
    test: Count = 120

    @model_validator(mode="after")
    def _fits(self) -> Anchors:
        if self.length == 3:
            self._at_most(80 * (15 if self.misleading else 14))
        return self

    def shape(self) -> Shape:
        return self.length, 110, 110

    def ood(self) -> bool:
        return True


class Permutations(Tokens):
    """Composed permutations (arXiv 2605.04396): sequences (k, i, j) with the label
    pi_j(pi_i(k)). Rows of pairs (i, j) that are not trained are the set out of distribution."""

    name: Literal["permutations"]
    keys: Annotated[int, Field(ge=2, le=128)] = 16
    maps: Annotated[int, Field(ge=2, le=64)] = 8
    """Random permutations of the keys."""
    train_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.7
    """Share of the pairs that are trained."""
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Share of the rows of trained pairs that is halved into validation and test."""
    split: Seed = 0
    """Seed of permutations and splits."""

    @model_validator(mode="after")
    def _fits(self) -> Permutations:
        if not 1 <= self.pairs() < self.maps**2:
            rule = f"must leave some of the {self.maps**2} pairs on either side"
            raise invalid("data.train_fraction", f"{rule}, got {self.train_fraction}")
        if min(self.sizes()) < 1:
            raise invalid("data.held_out", "leaves a split without examples")
        return self

    def pairs(self) -> int:
        """Trained."""
        return int(self.train_fraction * self.maps**2 + 0.5)

    def sizes(self) -> tuple[int, int, int]:
        rows = self.pairs() * self.keys
        held = int(self.held_out * rows)
        return rows - held, held // 2, held - held // 2

    def shape(self) -> Shape:
        return 3, self.keys + self.maps, self.keys

    def ood(self) -> bool:
        return True


class Text(_Drawn):
    """Windows of a text, each character to be told from those before it: the last twentieth of
    the text is for testing, the one before for validation, where windows are evenly spaced; those
    for training begin anywhere in the rest. Accuracy is of characters."""

    whole: ClassVar[bool] = False
    name: Literal["text"]
    file: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """Below the data folder; null is the text that comes with initmem."""
    length: Annotated[int, Field(ge=2, le=1024)] = 64
    """Characters of a window."""
    train: Count = 4_000
    validation: Count = 100
    test: Count = 100

    def shape(self) -> Shape:
        """Printable ASCII, the line break, and one for all else."""
        return self.length, 97, 97

    def answers(self) -> int:
        return self.length
