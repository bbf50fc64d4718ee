"""The regression a recipe can name: sparse targets, of which pretraining knows some features."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from initmem.study.section import Count, NonNegative, Positive, Section, Seed, Share, invalid

SLACK = 1e-12
"""Of shares that are written as decimals."""


class SparseRegression(Section):
    """Targets beta x of inputs x ~ N(0, 1/d), of two tasks: the one of pretraining has a share
    rho_pt of the d features, all with coefficient 1; the one of fine-tuning, which is trained and
    tested, a share rho_ft of them, with coefficients from N(0, 1 / rho_ft), and of these a share
    omega in common with pretraining (arXiv 2602.20062).

    Accuracy is the percent of the targets' mean square that is explained, 100 (1 - MSE / mean
    square), below 0 for what is worse than predicting 0; losses are mean squared errors. The test
    error is exact, the mean over all inputs without label noise: |estimate - beta|^2 / d.
    """

    kind: ClassVar[str] = "vector"
    name: Literal["sparse_regression"]
    d: Annotated[int, Field(ge=2, le=5000)] = 1000
    """Inputs."""
    alpha: Positive
    """Training examples, as a multiple of d."""
    rho_pt: Share = 0.1
    rho_ft: Share = 0.1
    omega: Annotated[float, Field(ge=0, le=1)] = 1.0
    noise: NonNegative = 0.0
    """Standard deviation of what is added to the targets of the training examples."""
    validation: Count = 200
    """Validation examples, without noise."""
    split: Seed | None = None
    """Seed of both tasks and all examples. null: each seed of a replica draws its own, the same
    at every other field, and fewer training examples are among the more."""

    @property
    def features(self) -> tuple[int, int, int]:
        """Of pretraining, of fine-tuning, and how many of them are the same."""
        pretrained, finetuned = round(self.rho_pt * self.d), round(self.rho_ft * self.d)
        return pretrained, finetuned, min(round(self.omega * finetuned), pretrained)

    @model_validator(mode="after")
    def _fits(self) -> SparseRegression:
        shared, new = self.omega * self.rho_ft, (1 - self.omega) * self.rho_ft
        if shared > self.rho_pt * (1 + SLACK):
            rule = f"omega rho_ft = {shared:g} must be at most rho_pt = {self.rho_pt:g}"
            text = f"{rule}, the features that can be shared, got {self.omega:g}"
            raise invalid("data.omega", text)
        if new > 1 - self.rho_pt + SLACK:
            rule = f"(1 - omega) rho_ft = {new:g} must be at most 1 - rho_pt"
            text = f"{rule} = {1 - self.rho_pt:g}, where new features can be, got {self.omega:g}"
            raise invalid("data.omega", text)
        pretrained, finetuned, common = self.features
        if not pretrained or not finetuned or finetuned - common > self.d - pretrained:
            sizes = f"{pretrained} and {finetuned} features, {common} of them shared"
            raise invalid("data.d", f"too small for these tasks: {sizes}, got {self.d}")
        if not round(self.alpha * self.d):
            raise invalid("data.alpha", f"alpha d must be at least 1, got {self.alpha * self.d:g}")
        if self.alpha * self.d > 100_000:
            rule = "alpha d may be at most 100000"
            raise invalid("data.alpha", f"{rule}, got {self.alpha * self.d:g}")
        return self

    def sizes(self) -> tuple[int, int, int]:
        """Examples for training, validation and test: those of the test set are the d unit
        vectors, over which the squared error has the mean that it has over all inputs."""
        return round(self.alpha * self.d), self.validation, self.d

    def ood(self) -> bool:
        """Whether there is a set out of distribution."""
        return False
