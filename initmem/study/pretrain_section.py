"""What a recipe does before its training: nothing, or a pretraining."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from initmem.study.section import Section


class NoPretraining(Section):
    name: Literal["none"]


class Oracle(Section):
    """Of a diagonal network: pretraining to the end on infinitely many examples, in closed form
    (arXiv 2602.20062). Then the earlier layer of both paths is set to the sum of theirs, and the
    readout to init.gam / sqrt(2)."""

    name: Literal["oracle"]


Pretraining = Annotated[NoPretraining | Oracle, Field(discriminator="name")]
