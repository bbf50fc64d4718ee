"""Which of the four regimes of fine-tuning a setting is in (arXiv 2602.20062), and their map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from initmem.theory.diagonal import Array, Init, dependence, order

REGIMES = {
    "I": "rich, independent of pretraining",
    "II": "lazy, dependent on pretraining",
    "III": "lazy, independent of pretraining",
    "IV": "rich, dependent on pretraining",
}
"""The paper's. I learns features of its own, II reuses those of pretraining, III does neither, IV
takes some of those of pretraining."""

BOTH = 1 / 6
"""The least weight of both I and II that makes IV."""


@dataclass(frozen=True)
class Map:
    """Two fields of the init against each other, y down and x across."""

    order_YX: Array
    dependence_YX: Array

    @property
    def regime_YX(self) -> NDArray[np.str_]:
        return regime(self.order_YX, self.dependence_YX)


def corners(order: ArrayLike, dependence: ArrayLike) -> tuple[Array, Array, Array]:
    """How much of regimes I, II and III is in a setting: the weights, with sum 1, of the corners
    (1, 0), (2, -1) and (2, 0) of the triangle in which (ell, PD) lies."""
    order, dependence = np.asarray(order), np.asarray(dependence)
    return 2 - order, -dependence, order + dependence - 1


def regime(order: ArrayLike, dependence: ArrayLike) -> NDArray[np.str_]:
    """The regime, a key of REGIMES, of each (ell, PD).

    The paper gives no borders, for regimes are continuous; these are ours: III where its corner
    has half of the weight or more, else IV where both other corners have BOTH or more, else the
    heavier of the two. The settings that the paper names are named as it names them.
    """
    first, second, third = corners(order, dependence)
    one = np.where(first >= second, "I", "II")
    rich = np.where(np.minimum(first, second) >= BOTH, "IV", one)
    return np.where(third >= 0.5, "III", rich)


def regime_map(
    base: Init,
    y: tuple[str, Sequence[float]],
    x: tuple[str, Sequence[float]],
    beta: float = 1.0,
    pretrained: float = 1.0,
) -> Map:
    """ell and PD at |beta| and |pretrained| over two of c, lam and gam, each a name and its
    values; the third is that of base."""
    inits = [[replace(base, **{y[0]: b, x[0]: a}) for a in x[1]] for b in y[1]]
    orders = [[order(beta, one.finetuning_root(pretrained)) for one in row] for row in inits]
    dependences = [[dependence(beta, pretrained, one) for one in row] for row in inits]
    return Map(np.array(orders), np.array(dependences))
