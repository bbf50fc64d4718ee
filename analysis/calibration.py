"""python -m analysis.calibration: does the estimator of memory keep its word?

Arms of simulated cells whose true spread is known go through `initmem.memory`. Noise has standard
deviation 1 point, seeds shift all values of a cell alike, the threshold is 2 points. Printed for
each number of values and seeds and each kind of noise, in percent of the cells:

- false: `remembers` where nothing is remembered, at most 5
- found: `remembers` where the true spread is 5 points, at least 95
- missed: `erased` where the true spread is 4, twice the threshold, at most 1
- covered: the 95% interval holds the true spread, the lowest of the three cases, at least 94

Kinds of noise: normal; heavy (Student's t with 3 degrees of freedom); unequal (each cell its own
standard deviation, lognormal with sigma 0.5 and mean square 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import click
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from initmem.memory.estimate import Estimate, estimates
from initmem.memory.paired import fit

Array = NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, ...]], Array]

CELLS = 12
"""Of an arm: their noise is pooled."""


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.normal(size=shape)


def heavy(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_t(3, size=shape) / math.sqrt(3)


def unequal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    spread_C = np.exp(0.5 * rng.normal(size=(shape[0], 1, 1)) - 0.25)
    return spread_C * rng.normal(size=shape)


NOISES: dict[str, Noise] = {"normal": normal, "heavy": heavy, "unequal": unequal}


def arm(
    rng: np.random.Generator, noise: Noise, values: int, seeds: int, spread: float, cells: int
) -> list[Estimate]:
    """The estimates of an arm of cells that all have this true spread."""
    truth_A = np.linspace(0, spread, values)[:, None]
    y_CAS = truth_A + rng.normal(size=(cells, 1, seeds)) + noise(rng, (cells, values, seeds))
    return estimates([fit(y_AS) for y_AS in y_CAS])


def calibrate(noise: str, values: int, seeds: int, cells: int, seed: int = 0) -> dict[str, float]:
    """Percent of so many simulated cells: false, found, missed, covered (see above)."""
    percents: dict[str, float] = {"n": cells}
    covered = []
    for name, verdict, spread in (
        ("false", "remembers", 0.0),
        ("found", "remembers", 5.0),
        ("missed", "erased", 4.0),
    ):
        rng = np.random.default_rng([seed, values, seeds, int(spread)])
        verdicts: list[bool] = []
        holds: list[bool] = []
        while len(verdicts) < cells:
            part = min(CELLS, cells - len(verdicts))
            for estimate in arm(rng, NOISES[noise], values, seeds, spread, part):
                low, high = estimate.interval()
                verdicts.append(estimate.verdict == verdict)
                holds.append(low <= spread <= high)
        percents[name] = 100 * float(np.mean(verdicts))
        covered.append(100 * float(np.mean(holds)))
    return percents | {"covered": min(covered)}


def table(cells: int) -> pd.DataFrame:
    """A line for each kind of noise, number of values (4, 6, 8) and of seeds (3, 4, 5)."""
    return pd.DataFrame(
        {
            "noise": noise,
            "values": values,
            "seeds": seeds,
            **calibrate(noise, values, seeds, cells),
        }
        for noise in NOISES
        for values in (4, 6, 8)
        for seeds in (3, 4, 5)
    )


@click.command()
@click.option("--cells", default=2000, show_default=True, help="Simulated, for each number.")
def main(cells: int) -> None:
    """Print how often the estimator of memory is right, by simulation."""
    click.echo(table(cells).to_string(index=False, float_format="%.1f"))


if __name__ == "__main__":
    main()
