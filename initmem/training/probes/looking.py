"""How probes look at a network: at which examples, at what passes where, at its matrices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from torch import Tensor, nn

from initmem.data.dataset import Split

EXAMPLES = 512
"""The first of a split, which are looked at."""

Values = dict[tuple[str, str], float]
"""(quantity, where) -> value."""


def first(split: Split) -> Split:
    return Split(split.inputs[:EXAMPLES], split.targets[:EXAMPLES])


@contextmanager
def at_rest(network: nn.Module) -> Iterator[None]:
    """In eval mode, and afterwards in that before."""
    training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(training)


@contextmanager
def outputs(modules: Mapping[str, nn.Module]) -> Iterator[dict[str, Tensor]]:
    """What a forward pass in this context makes these modules give, by their names."""
    found: dict[str, Tensor] = {}

    def keep(name: str, _module: nn.Module, _inputs: object, output: Tensor) -> None:
        found[name] = output

    hooks = [m.register_forward_hook(partial(keep, name)) for name, m in modules.items()]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def matrices(network: nn.Module) -> dict[str, Tensor]:
    """The weights of layers by name, as matrices with a row for each output unit, of an embedding
    for each token: kernels [O, I k k]; of a fused qkv three, name/q, name/k and name/v."""
    found: dict[str, Tensor] = {}
    for name, parameter in network.named_parameters():
        if parameter.ndim < 2:
            continue
        matrix = parameter.detach().flatten(1)
        if name.endswith("qkv.weight"):
            parts = zip("qkv", matrix.chunk(3), strict=True)
            found |= {f"{name}/{part}": piece for part, piece in parts}
        else:
            found[name] = matrix
    return found
