"""Networks for R replicas at once, as functions of stacked parameters.

A form computes what its module does, R times: it takes the module's parameters and buffers, each
with a first dimension R, and inputs with the dimensions R and B first. The result of a replica
depends on R > 1 and on its neighbours in no bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from initmem.models import build, per_replica
from initmem.models.stacked_resnet import fuse, fused_logits
from initmem.models.stacked_transformer import transformer as stacked_transformer
from initmem.study.section import Section

Tensors = dict[str, Tensor]
"""Name of a module's parameter or buffer -> [R, *shape]."""
Seen = dict[str, list[Tensor]]
"""Site pre or post -> hidden vectors of the layers [R, d, B], see `taps.py`."""
Form = Callable[[Tensors, Tensor, bool, Seen], Tensor]
"""Tensors, inputs [R, B, ...], whether it is training, and where forms of fully connected networks
put what they have seen -> logits_RCB."""

LINE = per_replica.LINE // 4
"""Numbers of float32 in a line of memory."""


def form(model: Section, shape: tuple[int, ...], classes: int) -> Form:
    """Of the network of a recipe's `model` section; shape: of one input."""
    fields: dict[str, Any] = model.model_dump()
    if fields["name"] == "mlp":
        return mlp(fields)
    if fields["name"] == "token_mlp":
        return token_mlp(fields)
    if fields["name"] in ("transformer", "nanogpt"):
        return transformer(fields)
    return resnet(model, shape, classes)


def mlp(fields: dict[str, Any]) -> Form:
    """`shallow.MLP`."""
    layers = ["stem", *(f"body.{i}" for i in range(fields["depth"] - 1))]

    def forward(tensors: Tensors, x_RBCHW: Tensor, training: bool, seen: Seen) -> Tensor:
        return _dense(tensors, layers, x_RBCHW.flatten(2), fields, seen)

    return forward


def token_mlp(fields: dict[str, Any]) -> Form:
    """`shallow.TokenMLP`."""
    layers = [f"body.{i}" for i in range(fields["depth"])]

    def forward(tensors: Tensors, tokens_RBL: Tensor, training: bool, seen: Seen) -> Tensor:
        x_RBD = per_replica.rows(tensors["stem.weight"], tokens_RBL).flatten(2)
        x_RBD = F.pad(x_RBD, (0, -x_RBD.shape[2] % LINE))
        return _dense(tensors, layers, x_RBD, fields, seen)

    return forward


def _dense(
    tensors: Tensors, layers: list[str], x_RBD: Tensor, fields: dict[str, Any], seen: Seen
) -> Tensor:
    """Logits_RCB of ReLU layers and a head. Activations are [R, features, B]: products then take
    weights as they lie, and a softmax over ten classes in this layout is many times faster on a
    CPU than over the last dimension. Widths are filled up with zeros to whole lines."""

    def linear(layer: str, x_RDB: Tensor) -> Tensor:
        y_RDB = torch.bmm(filled(tensors[f"{layer}.weight"], x_RDB.shape[1]), x_RDB)
        if fields["bias"]:
            y_RDB = y_RDB + filled(tensors[f"{layer}.bias"][:, :, None], 1)
        return y_RDB

    x_RDB = x_RBD.transpose(1, 2)
    for layer in layers:
        pre_RDB = linear(layer, x_RDB)
        x_RDB = torch.relu(pre_RDB)
        seen["pre"].append(pre_RDB[:, : fields["width"]])
        seen["post"].append(x_RDB[:, : fields["width"]])
    return linear("head", x_RDB)[:, : tensors["head.weight"].shape[1]]


def filled(weight_ROI: Tensor, inputs: int) -> Tensor:
    """The weights with zeros for as many inputs, and for outputs up to a whole line."""
    more = -weight_ROI.shape[1] % LINE, inputs - weight_ROI.shape[2]
    return F.pad(weight_ROI, (0, more[1], 0, more[0])) if any(more) else weight_ROI


def transformer(fields: dict[str, Any]) -> Form:
    """`transformer.Transformer`, by exact algebra: see stacked_transformer.py."""
    return lambda tensors, tokens_RBL, training, seen: stacked_transformer(
        tensors, tokens_RBL, fields
    )


def resnet(model: Section, shape: tuple[int, ...], classes: int) -> Form:
    """`resnet.ResNet`, by convolutions in groups: see stacked_resnet.py."""
    skeletons: dict[int, nn.Module] = {}

    def forward(tensors: Tensors, x_RBCHW: Tensor, training: bool, seen: Seen) -> Tensor:
        R = len(x_RBCHW)
        if R not in skeletons:
            with torch.device("meta"):
                skeletons[R] = fuse(build(model, shape, classes, vocabulary=0), R, filled)
        return fused_logits(skeletons[R].train(training), tensors, x_RBCHW)

    return forward
