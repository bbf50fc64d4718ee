"""What a network learns before the recipe's own task: the first of two trainings.

After the first training the readout is drawn anew and all else is kept; then the network is
trained as the rest of the recipe says. The first initialization is the recipe's `init`: with
`memory_axis: init.scale`, memory is what survives both trainings.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from initmem.study.data_section import FirstClasses
from initmem.study.section import Count, Fraction, NonNegative, Positive, Section, invalid
from initmem.study.token_data import Operation

OF_OPTIM = ("lr", "l2", "weight_decay", "batch", "epochs", "steps", "stop_loss")
"""Fields of a stage that replace those of `optim`."""
OF_DATA = ("train", "validation", "classes", "operation", "train_fraction")
"""Fields of a stage that replace those of `data`."""


class NoPretraining(Section):
    name: Literal["none"]


class Stage(Section):
    """One training before the recipe's own, by the same kind of optimizer. A field that is left
    out is as in `optim` or `data`; penalty, evaluations and precision are the recipe's, probes are
    not read. What the stage ends with is kept, but for the readout."""

    name: Literal["stage"]
    head: NonNegative = 1.0
    """gamma: weights of the redrawn readout have gamma times the std of the init rule, whatever
    the other factors of `init`; its bias is torch's default times gamma. 0 is a readout of
    zeros."""
    lr: Positive | None = None
    l2: NonNegative | None = None
    weight_decay: NonNegative | None = None
    batch: Count | None = None
    epochs: Count | None = None
    """In the place of `optim.epochs` and `optim.steps`; or give steps."""
    steps: Count | None = None
    stop_loss: Positive | None = None
    train: Count | None = None
    validation: Count | None = None
    classes: FirstClasses | None = None
    """Of images: those whose classes are learned; rest is all that `data.classes` leaves."""
    operation: Operation | None = None
    """Of modular."""
    train_fraction: Annotated[Fraction, Field(gt=0)] | None = None
    """Of modular."""

    def put(self, fields: dict[str, Any], data: Any) -> None:
        """Replace what the stage says in the fields of a recipe, in place. data: its section."""
        given = self.model_dump(exclude_none=True)
        for name in OF_DATA:
            if name in given and name not in data.restaged:
                text = f"does not apply to data.name {data.name}"
                allowed = f", where it may have {', '.join(data.restaged)}" * bool(data.restaged)
                raise invalid(f"pretrain.{name}", text + allowed)
        if given.get("classes") == "rest":
            given["classes"] = data.rest()
        if "epochs" in given or "steps" in given:
            fields["optim"] |= {"epochs": None, "steps": None}
        fields["optim"] |= {name: given[name] for name in OF_OPTIM if name in given}
        fields["data"] |= {name: given[name] for name in OF_DATA if name in given}


class Oracle(Section):
    """Of a diagonal network: pretraining to the end on infinitely many examples, in closed form.
    Then the earlier layer of both paths is set to the sum of theirs, and the readout to
    init.gam / sqrt(2) (arXiv 2602.20062)."""

    name: Literal["oracle"]


Pretraining = Annotated[NoPretraining | Stage | Oracle, Field(discriminator="name")]
