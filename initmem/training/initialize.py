"""Init scale: a function on a built network that draws its weights anew and proves it.

A tensor's standard deviation is the rule's, times `scale`, times the factor of its group, times
its share of `kappa`, in the blocks of a Transformer times that of its part. The noise depends on
the seed and the tensor's name alone, so two scales differ in scale alone. Weights of layers are
drawn; biases and affine parameters of norms stay as built, and are listed. Between two trainings
`redraw` draws the readout once more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from initmem.study.init_section import FixedRule, GammaRule, Init
from initmem.study.seeds import fold

GROUPS = ("stem", "body", "head")
PARTS = {"qkv": "vo", "out": "vo", "gate": "vo", "up": "mlp", "down": "mlp"}
"""Layer of a Transformer's block -> field of its factor; for qkv, that of its values."""
ADDS = ("out", "down")
"""Layers whose output a block adds to its input."""
SIGMAS = 6.0
"""Standard errors that a measured std may be off: less than 1e-8 by chance, per tensor."""


@dataclass(frozen=True)
class Drawn:
    """A weight tensor: the std that was asked for and the one that is there."""

    tensor: str
    """Its name; with the part in brackets, where parts of it are asked different ones."""
    group: str
    count: int
    asked_std: float
    measured_std: float


@dataclass(frozen=True)
class Audit:
    drawn: list[Drawn] = field(default_factory=list)
    untouched: list[str] = field(default_factory=list)
    """Parameters left as built."""
    assigned: list[str] = field(default_factory=list)
    """Parameters that a formula gives their values, without chance."""

    @property
    def tensors(self) -> list[str]:
        """Names of the drawn and the assigned parameters, each once."""
        names = [d.tensor.partition("[")[0] for d in self.drawn]
        return list(dict.fromkeys(names + self.assigned))


def group_of(name: str) -> str:
    """stem, body or head: the first word of a parameter's name."""
    first = name.partition(".")[0]
    return first if first in ("stem", "head") else "body"


@torch.no_grad()
def initialize(network: nn.Module, init: FixedRule | GammaRule, seed: int) -> Audit:
    """Draw the weights of a network built under torch's defaults; returns the audit.

    With rule torch and scale 1 nothing changes. A tensor that two layers share is drawn once,
    as the first of them asks. Raises RuntimeError if a tensor's std is not the asked one within
    sampling error: then something has undone the request.
    """
    audit = Audit()
    blocks = sum(name.endswith(".down") for name, _ in network.named_modules())
    shares = _shares(network, init.kappa)
    done: set[int] = set()
    for name, parameter, layer in _parameters(network):
        if id(parameter) in done:
            continue
        done.add(id(parameter))
        if layer is None:
            audit.untouched.append(name)
            continue
        group = group_of(name)
        parts = _parts(name, len(parameter), init, shares[group], blocks)
        std = _fill(parameter, layer, init, group, parts, fold(seed, "init", name))
        for part, rows, factor in parts:
            audit.drawn.append(_measure(name + part, group, parameter[rows], factor * std))
    return audit


@torch.no_grad()
def redraw(network: nn.Module, init: FixedRule | GammaRule, seed: int, factor: float) -> Audit:
    """Draw the readout anew, from a stream of its own: weights with the std of the rule times
    `factor`, whatever else `init` says; biases as torch draws them, times `factor`. Returns the
    audit, whose tensors are marked [redrawn].

    Raises RuntimeError as `initialize` does.
    """
    audit = Audit()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(fold(seed, "readout"))
        for part in network.get_submodule("head").modules():
            reset: Any = getattr(part, "reset_parameters", None)
            if reset is not None:
                reset()
    for name, parameter, layer in _parameters(network):
        if group_of(name) != "head":
            continue
        if layer is None:
            parameter.mul_(factor)
            audit.untouched.append(name)
            continue
        whole = [("", slice(len(parameter)), factor)]
        std = _fill(parameter, layer, init, "head", whole, fold(seed, "readout", name))
        audit.drawn.append(_measure(f"{name}[redrawn]", "head", parameter, factor * std))
    return audit


def _fill(
    parameter: Tensor,
    layer: nn.Module,
    init: FixedRule | GammaRule,
    group: str,
    parts: list[tuple[str, slice, float]],
    seed: int,
) -> float:
    """Draw a weight, each part of its rows times its factor; returns the std of the rule."""
    if isinstance(init, FixedRule) and init.rule == "torch":
        for _, rows, factor in parts:
            parameter[rows].mul_(factor)
        return torch_std(layer)
    std = rule_std(init, fan_in(layer), group)
    noise = torch.empty(parameter.shape)  # on the CPU: the same on every device
    noise.normal_(generator=torch.Generator().manual_seed(seed))
    for _, rows, factor in parts:
        noise[rows].mul_(factor * std)
    parameter.copy_(noise)
    return std


def _shares(network: nn.Module, kappa: float) -> dict[str, float]:
    """Group -> factor of its weights for a relative scale kappa of early layers."""
    early = {id(p) for n, p, layer in _parameters(network) if layer and group_of(n) != "head"}
    each = kappa ** (1 / max(1, len(early)))
    return {"stem": each, "body": each, "head": 1 / kappa}


def rule_std(init: FixedRule | GammaRule, fan_in: int, group: str) -> float:
    """Base standard deviation of a weight with `fan_in` inputs; kaiming is He et al. 2015 (arXiv
    1502.01852) before a ReLU and without its factor 2 at the readout; gamma is fan_in^-gamma
    (arXiv 2405.05409)."""
    if isinstance(init, GammaRule):
        return float(fan_in**-init.gamma)
    gain = 2.0 if init.rule == "kaiming" and group != "head" else 1.0
    return math.sqrt(gain / fan_in)


def torch_std(layer: nn.Module) -> float:
    """Standard deviation of torch's own default: U(-1, 1) / sqrt(fan_in), embeddings N(0, 1)."""
    return 1.0 if isinstance(layer, nn.Embedding) else 1 / math.sqrt(3 * fan_in(layer))


def fan_in(layer: Any) -> int:
    """Inputs of one output unit; of an embedding, its width (arXiv 2501.08537)."""
    if isinstance(layer, nn.Embedding):
        return layer.embedding_dim
    return int(layer.weight[0].numel())


def _parts(
    name: str, count: int, init: Init, share: float, blocks: int
) -> list[tuple[str, slice, float]]:
    """Of a weight of `count` rows: name in brackets, rows and factor of each part. share: of its
    group, for kappa."""
    layer = name.removesuffix(".weight").rpartition(".")[2]
    factor = init.scale * getattr(init, group_of(name)) * share
    if layer == "qkv" and init.qk != init.vo:
        end = 2 * count // 3
        queries_keys, values = slice(end), slice(end, count)
        return [("[qk]", queries_keys, factor * init.qk), ("[v]", values, factor * init.vo)]
    if layer in PARTS:
        factor *= getattr(init, PARTS[layer])
    if layer in ADDS and init.residual == "depth":
        factor /= math.sqrt(2 * blocks)
    return [("", slice(count), factor)]


def _parameters(network: nn.Module) -> Iterator[tuple[str, Tensor, nn.Module | None]]:
    """Name, parameter, and the layer if it is a weight to draw."""
    for prefix, layer in network.named_modules():
        for name, parameter in layer.named_parameters(recurse=False):
            drawn = name == "weight" and isinstance(layer, nn.Linear | nn.Conv2d | nn.Embedding)
            yield f"{prefix}.{name}".lstrip("."), parameter, layer if drawn else None


def _measure(name: str, group: str, parameter: Tensor, asked: float) -> Drawn:
    n = parameter.numel()
    measured = float(parameter.double().square().mean().sqrt())  # the mean is known: 0
    if asked == measured == 0:
        return Drawn(name, group, n, asked, measured)
    # n (measured / asked)^2 is chi-square with n degrees; bounds by Wilson and Hilferty (1931).
    middle, width = 1 - 2 / (9 * n), SIGMAS * math.sqrt(2 / (9 * n))
    low, high = max(middle - width, 0) ** 1.5, (middle + width) ** 1.5
    if not low <= measured / asked <= high:
        raise RuntimeError(
            f"init.scale: {name} has std {measured:.4g}, asked {asked:.4g}: off by more than "
            f"sampling error ({low:.4f} to {high:.4f} times)"
        )
    return Drawn(name, group, n, asked, measured)
