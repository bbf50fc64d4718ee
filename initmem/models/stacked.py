"""Networks for R replicas at once, as functions of stacked parameters.

A form computes what its module does, R times, and is bound to no module: for a network of a name
in FORMS it takes the module's parameters, each with a first dimension R, and inputs with the
dimensions R and B first. The result of a replica depends on R and on its neighbours in no bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from initmem.models.stacked_transformer import transformer as stacked_transformer

Parameters = dict[str, Tensor]
"""Name of a module's parameter -> [R, *shape]."""
Form = Callable[[Parameters, Tensor], Tensor]
"""Parameters and inputs [R, B, ...] -> logits_RCB."""


LINE = 16
"""float32 numbers in 64 bytes: products of matrices that do not begin at a multiple of this differ
in their bits (oneMKL, "Conditional Numerical Reproducibility"), and a replica's place in the stack
would show."""


def mlp(fields: dict[str, Any]) -> Form:
    """`shallow.MLP`. Activations are [R, features, B]: products then take weights as they lie, and
    a softmax over ten classes in this layout is 25 times faster on a CPU than over the last
    dimension. Widths are filled up with zeros to whole lines."""
    layers = ["stem", *(f"body.{i}" for i in range(fields["depth"] - 1)), "head"]

    def forward(parameters: Parameters, x_RBCHW: Tensor) -> Tensor:
        x_RDB = x_RBCHW.flatten(2).transpose(1, 2)
        for layer in layers:
            x_RDB = torch.bmm(filled(parameters[f"{layer}.weight"], x_RDB.shape[1]), x_RDB)
            if fields["bias"]:
                bias_RD1 = parameters[f"{layer}.bias"][:, :, None]
                x_RDB = x_RDB + filled(bias_RD1, 1)
            if layer != "head":
                x_RDB = torch.relu(x_RDB)
        return x_RDB[:, : parameters["head.weight"].shape[1]]

    return forward


def filled(weight_ROI: Tensor, inputs: int) -> Tensor:
    """The weights with zeros for as many inputs, and for outputs up to a whole line."""
    more = -weight_ROI.shape[1] % LINE, inputs - weight_ROI.shape[2]
    return F.pad(weight_ROI, (0, more[1], 0, more[0])) if any(more) else weight_ROI


def transformer(fields: dict[str, Any]) -> Form:
    """`transformer.Transformer`, by exact algebra: see stacked_transformer.py."""
    return partial(stacked_transformer, heads=fields["heads"])


FORMS: dict[str, Callable[[dict[str, Any]], Form]] = {"mlp": mlp, "transformer": transformer}
