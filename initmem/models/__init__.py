"""Name -> network. Each has the children `stem`, `body`, `head` and no word of init scale.

To add a model: its fields in `study/recipe.py`, its module in this room, its name below.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from initmem.models.diagonal import diagonal
from initmem.models.resnet import cifar_resnet, resnet9, resnet18
from initmem.models.shallow import mlp, token_mlp
from initmem.models.transformer import transformer
from initmem.models.two_layer import two_layer
from initmem.models.vit import vit
from initmem.study.section import Section

BUILDERS = {
    "resnet9": resnet9,
    "resnet18": resnet18,
    "resnet20": cifar_resnet,
    "resnet56": cifar_resnet,
    "resnet110": cifar_resnet,
    "mlp": mlp,
    "token_mlp": token_mlp,
    "transformer": transformer,
    "nanogpt": transformer,
    "vit": vit,
    "diagonal": diagonal,
    "two_layer": two_layer,
}


def build(
    model: Section, shape: tuple[int, ...], classes: int, vocabulary: int, answers: int = 1
) -> nn.Module:
    """The network of a recipe's `model` section, with torch's default initialization.

    shape: of one input, (channels, height, width) or (length,); vocabulary: tokens, 0 if none;
    answers: positions, counted from the last, at which it answers.
    """
    fields: dict[str, Any] = model.model_dump()
    return BUILDERS[fields["name"]](fields, shape, classes, vocabulary, answers)
