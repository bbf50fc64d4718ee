"""What all typed parts of a study have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(gt=0, le=1)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Size = Annotated[int, Field(ge=1, le=65_536)]
"""A width or depth that a machine can still build."""


class Section(BaseModel):
    """Strict and frozen: `true` is no integer, unknown keys and nan are errors."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )


def invalid(field: str, text: str) -> PydanticCustomError:
    """An error that a rule between fields gives, pinned to the dotted `field` to change."""
    return PydanticCustomError("rule", "{text}", {"text": text, "field": field})
