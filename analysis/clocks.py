"""Clocks of forgetting: products that a step of training adds up, and how well each tells memory.

The hypothesis (arXiv 2605.29152): memory is a falling function of accumulated regularization, and
which product accumulates tells what erases it: T lr^2 / b for the noise of SGD's steps, T lr L2
for explicit decay, T lr for adaptive optimizers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from analysis import style
from initmem.study.optim_section import Optim
from initmem.study.recipe import Recipe, flatten
from initmem.study.schedule import decays, learning_rate
from initmem.study.spec import UserError

Array = NDArray[np.float64]

DEFAULT = ("lr^2/batch", "lr*l2", "lr*weight_decay", "lr", "lr*l2/T", "lr/T")
"""Of every report. The last two are no clocks: if they tell memory, time does not matter."""
SHORT = {**style.SHORT, "optim.batch": "b"}
RESAMPLES = 10_000
_POWERS = {"^1": "", "^2": "²", "^3": "³"}
_FACTOR = re.compile(r"([*/]?)([a-z][a-z0-9_.]*|1|T)(?:\^(\d+(?:\.\d+)?))?")


@dataclass(frozen=True)
class Clock:
    """A product of powers, summed over the steps of training: its terms are fields and powers."""

    text: str
    powers: tuple[tuple[str, float], ...]
    """Of dotted fields, and of T."""

    @property
    def label(self) -> str:
        """`T lr² / b`; of T, what is left of the sum over T steps."""
        powers = {"T": 1.0}
        for name, power in self.powers:
            powers[name] = powers.get(name, 0.0) + power
        said = ""
        for name, power in powers.items():
            exponent = f"^{abs(power):g}"
            factor = SHORT.get(name, name.removeprefix("optim.")) + _POWERS.get(exponent, exponent)
            said += f"{' /' if power < 0 else ''} {factor}" if power else ""
        return said.strip()

    def of(self, recipe: Recipe, steps: int) -> float:
        """What `steps` updates of the recipe add up to; lr, l2 and weight_decay as they are at
        each step. Raises UserError where the recipe lacks a field."""
        fields = flatten(recipe)
        fields |= {"optim.batch": recipe.batch, "T": steps}
        sum_T = np.ones(steps)
        for name, power in self.powers:
            value = fields.get(name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UserError(f"clock: {self.text}: {name} is no number in this study")
            at_T = np.full(steps, float(value))
            if name == "optim.lr":
                shape = recipe.optim.model_copy(update={"lr": 1.0})
                at_T *= _rates(shape, recipe.total_steps)[:steps]
            if name in ("optim.l2", "optim.weight_decay"):
                at_T *= [decays(recipe.optim, step) for step in range(steps)]
            if power < 0 and not at_T.all():
                raise UserError(f"clock: {self.text}: {name} is 0 in this study")
            sum_T *= at_T**power
        return math.fsum(sum_T)


@lru_cache(maxsize=256)
def _rates(optim: Optim, total: int) -> Array:
    return np.array([learning_rate(optim, step, total) for step in range(total)])


def parse(text: str) -> Clock:
    """`lr^2/batch`: T, fields of the optimizer, or any by its dotted name, in products of powers.

    Raises UserError.
    """
    plain = text.replace(" ", "")
    powers, at = [], 0
    while (found := _FACTOR.match(plain, at)) and bool(found[1]) == bool(at):
        at = found.end()
        name = found[2]
        field = name if name == "T" or "." in name else f"optim.{name}"
        if name != "1":
            powers.append((field, float(found[3] or 1) * (-1 if found[1] == "/" else 1)))
    if at != len(plain) or not plain:
        raise UserError(
            f"clock: {text!r}: must be a product of fields, such as lr^2/batch or lr*l2"
        )
    return Clock(text, tuple(powers))


def places(value_N: Array) -> Array:
    """On the logarithm of the clock; what a clock of 0 tells stands a decade below all others."""
    least = value_N[value_N > 0].min(initial=np.inf)
    return np.log10(np.where(value_N > 0, value_N, least / 10))


def falling(place_N: Array, memory_N: Array) -> Callable[[Array], Array]:
    """The falling function nearest to the cells (least squares), linear between them."""
    fit = IsotonicRegression(increasing=False, out_of_bounds="clip").fit(place_N, memory_N)
    return lambda place_M: np.asarray(fit.predict(place_M))


def left_out(place_N: Array, memory_N: Array) -> Array:
    """Memory of each cell minus what the falling function through all others says [N]."""
    keep_NN = ~np.eye(len(place_N), dtype=bool)
    told = [
        falling(place_N[keep], memory_N[keep])(place_N[i : i + 1])[0]
        for i, keep in enumerate(keep_NN)
    ]
    return memory_N - np.array(told)


def untold(memory_N: Array) -> Array:
    """The same without any clock: minus the mean of all others."""
    n = len(memory_N)
    return (memory_N - memory_N.mean()) * n / (n - 1)


def compared(wrong_CN: Array) -> tuple[Array, Array, Array, Array]:
    """Errors that `left_out` gives, a line a clock -> root mean squares [C], the ends of their 95%
    bootstrap intervals over cells [C], and the share of resamples in which each is least [C]."""
    cells = wrong_CN.shape[1]
    pick_BN = np.random.default_rng(0).integers(cells, size=(RESAMPLES, cells))
    resampled_CB = np.array([np.sqrt((wrong_N**2)[pick_BN].mean(axis=1)) for wrong_N in wrong_CN])
    low_C, high_C = np.percentile(resampled_CB, [2.5, 97.5], axis=1)
    # Clocks that put the cells in the same order are as good as each other: they share the win.
    least_CB = resampled_CB <= resampled_CB.min(axis=0) + 1e-9
    best_C = (least_CB / least_CB.sum(axis=0)).mean(axis=1)
    return np.sqrt((wrong_CN**2).mean(axis=1)), low_C, high_C, best_C
