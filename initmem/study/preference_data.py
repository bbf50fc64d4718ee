"""The preferences a recipe can name: pairs of Gaussian inputs, of which a teacher prefers one."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from initmem.study.section import Count, Positive, Section, Seed, invalid


class GaussianPairs(Section):
    """Pairs x, x' ~ N(0, I_d), drawn anew for each step, with the label that x is preferred with
    probability sigmoid(r(x) - r(x')), where r = reward g(<theta, x>) and g is an even polynomial.
    Task 1, which is trained, has the direction theta_1 in the subspace V_1, task 2, whose features
    are to be kept, theta_2 in V_2; both subspaces have s dimensions (after arXiv 2605.12908; the
    law of inputs, teacher and subspaces is our choice).

    Accuracy is the percent of pairs that the on-target neurons order as task 1 does without label
    noise, out of distribution that which the off-target neurons order as task 2 does; on the
    training set, which is a sample that is never trained on, labels are the teacher's.
    """

    kind: ClassVar[str] = "pairs"
    name: Literal["gaussian_pairs"]
    arm: Literal[
        "sft", "w2s_localized", "w2s_projected", "w2s_plain", "sft_localized", "sft_projected",
        "w2s_inside",
    ]  # fmt: skip
    """Who labels, and what is trained. sft: labels of theta_1; w2s: of a weak teacher. localized:
    inputs of training are N(0, P_1), in V_1; projected: gradients of on-target neurons are
    projected on V_1, of off-target neurons on V_2 (inputs are N(0, I_d); what neither subspace nor
    teacher sees of them is not drawn); plain: neither. inside: localized, and the weak teacher's
    error lies in V_1."""
    d: Annotated[int, Field(ge=4, le=10_000)] = 256
    """Inputs."""
    s: Annotated[int, Field(ge=2)] = 32
    """Dimensions of V_1, and of V_2."""
    rho: Annotated[float, Field(ge=-1, le=1)] = 0.0
    """<theta_1, theta_2>."""
    link: Literal["h2", "h4", "h6"] = "h2"
    """g: the normalized Hermite polynomial of this degree."""
    reward: Positive = 2.0
    """Scale of the rewards that labels are drawn by."""
    cosine: Annotated[float, Field(ge=0, le=1)] = 0.6
    """Of the weak teacher's direction to theta_1."""
    subspaces: Literal["nested", "hard"] = "nested"
    """nested: P_2 theta_1 = rho theta_2. hard: V_2 holds a second direction whose cosine to
    theta_1 is rho."""
    validation: Count = 2000
    """Pairs of the validation set, and of the training set that accuracy is measured on."""
    test: Count = 2000
    """Pairs of the test set, and of that out of distribution."""
    split: Seed | None = None
    """Seed of subspaces, directions and pairs for measurement. null: each seed of a replica draws
    its own, the same at every other field as far as it can be: with another rho, theta_2 moves
    in a plane. The start and the stream are drawn by the replica's seed."""

    @property
    def weak(self) -> bool:
        """Whether labels are those of a weak teacher."""
        return self.arm.startswith("w2s")

    @property
    def localized(self) -> bool:
        """Whether inputs of training lie in V_1."""
        return self.arm.endswith(("localized", "inside"))

    @property
    def projected(self) -> bool:
        """Whether gradients are projected on the subspace of their neurons."""
        return self.arm.endswith("projected")

    @property
    def inside(self) -> bool:
        """Whether the error of the weak teacher lies in V_1."""
        return self.arm.endswith("inside")

    @model_validator(mode="after")
    def _fits(self) -> GaussianPairs:
        if 2 * self.s > self.d:
            rule = f"two subspaces of s dimensions must fit into data.d {self.d}: at most"
            raise invalid("data.s", f"{rule} {self.d // 2}, got {self.s}")
        if self.subspaces == "hard" and abs(self.rho) == 1:
            rule = "hard needs a rho between -1 and 1, for else V_2 has s - 1 dimensions; take"
            raise invalid("data.subspaces", f"{rule} nested, got rho {self.rho:g}")
        if not self.weak and self.cosine != type(self).model_fields["cosine"].default:
            rule = f"is of the weak teacher, data.arm {self.arm} has none: remove it, or take an"
            raise invalid("data.cosine", f"{rule} arm w2s_..., got {self.cosine:g}")
        return self

    def sizes(self) -> tuple[int, int, int]:
        """Pairs that training is measured on, for validation and test."""
        return self.validation, self.validation, self.test

    def ood(self) -> bool:
        """Whether there is a set out of distribution."""
        return True
