"""Is the 95% band of the frontier honest?

    python -m benchmarks.band                     5 minutes on one core
    python -m benchmarks.band --with-bootstrap    half an hour

The analytic surfaces of `benchmarks.frontier` are searched as `search: {sampler: frontier}` does,
and each band is held against the truth. Over the repetitions, in percent, mean and standard error:

- covers: points of the true frontier that lie in the band (95 is asked for)
- wrong: places outside of the band, in percent of the ranges, that are on the other side
- width: of the band, in percent of the ranges

Bands. process: where the Gaussian process is unsure (`memory.surface.unsure`). bootstrap: the
memory of the cells is drawn again, 100 times, with their own errors, and each time the surface is
fitted anew; the band is where it is above the threshold in 2.5 to 97.5% of the times.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import click
import numpy as np
import pandas as pd

from benchmarks.frontier import THRESHOLD, Repetition, curved, island, ridge, with_noise
from initmem.memory.paired import Array
from initmem.memory.surface import Measured, Surface, surface, unsure

RESAMPLES, SIDE = 100, 50
_EVEN = (np.arange(SIDE) + 0.5) / SIDE
PLACES = np.stack(np.meshgrid(_EVEN, _EVEN, indexing="ij"), -1).reshape(-1, 2)

Band = Callable[[Measured, Surface, Array, int], Array]
"""Cells, their surface, places [N, 2] and a seed -> probability [N] of being above."""


def process(cells: Measured, found: Surface, place_ND: Array, seed: int) -> Array:
    return found.remembers(place_ND)


def bootstrap(cells: Measured, found: Surface, place_ND: Array, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    above_N = np.zeros(len(place_ND))
    for _ in range(RESAMPLES):
        memory_N = cells.memory_N + cells.error_N * rng.standard_normal(len(cells.error_N))
        again = surface(Measured(cells.place_ND, memory_N, cells.error_N), THRESHOLD)
        assert again is not None
        above_N += again.process.predict(place_ND) > 0
    return above_N / RESAMPLES


BANDS: dict[str, Band] = {"process": process, "bootstrap": bootstrap}


def crossings(truth: Callable[[Array], Array]) -> Array:
    """Points of the true frontier [N, 2]: where it crosses lines along both ranges."""
    fine = np.linspace(0, 1, 501)
    found = []
    for along in (0, 1):
        for at in _EVEN:
            line_ND = np.full((len(fine), 2), at)
            line_ND[:, along] = fine
            over = truth(line_ND) - THRESHOLD
            for k in np.flatnonzero(over[:-1] * over[1:] < 0):
                point = line_ND[k].copy()
                point[along] += over[k] / (over[k] - over[k + 1]) / (len(fine) - 1)
                found.append(point)
    return np.array(found)


def judged(
    bands: dict[str, Band], truth: Callable[[Array], Array], sd: float, number: int, seed: int
) -> pd.DataFrame:
    """A line for each band, columns covers, wrong and width, in percent: one repetition."""
    one = Repetition(with_noise(truth, sd), seed)
    one.frontier(number)
    found = surface(one.cells, THRESHOLD)
    assert found is not None
    true_ND, above_N = crossings(truth), truth(PLACES) > THRESHOLD
    lines = {}
    for name, band in bands.items():
        chance_N = band(one.cells, found, np.vstack([true_ND, PLACES]), seed)
        unsure_N = unsure(chance_N)
        covered_N, inside_N = unsure_N[: len(true_ND)], unsure_N[len(true_ND) :]
        other_N = (chance_N[len(true_ND) :] > 0.5) != above_N
        lines[name] = {
            "covers": 100 * covered_N.mean(),
            "wrong": 100 * (other_N & ~inside_N).mean(),
            "width": 100 * inside_N.mean(),
        }
    return pd.DataFrame(lines).T


def table(bands: dict[str, Band], repeat: int) -> pd.DataFrame:
    """A line for each number of cells, noise and band; a column for each surface, with covers,
    wrong and width."""
    lines: dict[str, dict[str, str]] = {}
    for number in (24, 36):
        for sd in (0.5, 1.0):
            for truth in (ridge, curved, island):
                found = [judged(bands, truth, sd, number, seed) for seed in range(repeat)]
                for name in bands:
                    all_of = np.array([one.loc[name] for one in found])
                    error = all_of.std(axis=0, ddof=1) / repeat**0.5
                    told = [
                        f"{m:.1f} ({e:.1f})" for m, e in zip(all_of.mean(0), error, strict=True)
                    ]
                    line = lines.setdefault(f"{number} cells, noise {sd:g}, {name}", {})
                    line[truth.__name__] = ", ".join(told)
                click.echo(f"{number} cells, noise {sd:g}, {truth.__name__}", err=True)
    return pd.DataFrame(lines).T


@click.command()
@click.option("--repeat", default=20, show_default=True)
@click.option("--with-bootstrap", is_flag=True)
def main(repeat: int, with_bootstrap: bool) -> None:
    """Print for each band: covers, wrong, width (standard errors)."""
    warnings.simplefilter("ignore")  # Sobol sequences of lengths that are no power of two
    bands = BANDS if with_bootstrap else {"process": process}
    click.echo(table(bands, repeat).to_string())


if __name__ == "__main__":
    main()
