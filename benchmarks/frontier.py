"""How many cells does it take to find where memory is erased?

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.frontier         4 minutes on one core

For each surface and method, the share of the ranges, in percent, that is put on the wrong side of
the threshold (2 points), mean and standard error over repetitions; the area between the curves in
decades squared is this share of the area of the ranges.

Surfaces. Four analytic ones of 0 to 20 points, whose cells are measured with normal noise of the
standard deviation named (on `cliff`, a fifth of them does not train and counts for nothing); and
`digits`, the rows of studies/digits/dense_map.yaml (144 cells of 12 networks): there a method
picks among the cells, and its error is against what all of them say.
Methods. frontier as in `search: {sampler: frontier}`, in batches of 4; qmc and random draws; tpe,
which minimizes memory; each ends in the same surface (`initmem.memory.surface`) over its cells.
grid is the even grid, with that surface; heat map is the even grid read between its cells.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import optuna
import pandas as pd
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator
from scipy.special import expit
from scipy.stats import qmc

from initmem.memory import cells
from initmem.memory.paired import Array
from initmem.memory.surface import Measured, surface
from initmem.search.frontier import next_place

Side = NDArray[np.bool_]
"""Whether memory is above the threshold, at each of EVERYWHERE."""

THRESHOLD, START, BATCH, SIDE = 2.0, 8, 4, 12
MAP = Path(__file__).with_name("digits_map.parquet")
_EVEN = (np.arange(100) + 0.5) / 100
EVERYWHERE = np.stack(np.meshgrid(_EVEN, _EVEN, indexing="ij"), -1).reshape(-1, 2)

Measure = Callable[[Array, np.random.Generator], tuple[Array, Array, Array]]
"""Places asked [N, 2] -> places measured, memory and its error."""


def ridge(p: Array) -> Array:
    return 20 * expit(9 * (0.95 - p[:, 0] - 0.8 * p[:, 1]))


def curved(p: Array) -> Array:
    return 20 * expit(12 * (0.25 + 1.6 * (p[:, 0] - 0.5) ** 2 - p[:, 1]))


def island(p: Array) -> Array:
    inside = ((p[:, 0] - 0.6) / 0.24) ** 2 + ((p[:, 1] - 0.55) / 0.2) ** 2
    return 20 * expit(2.2 * (inside - 2))


def cliff(p: Array) -> Array:
    """curved, with two regions, a fifth of all, where no cell trains."""
    fast = (p[:, 0] > 0.85 - 0.1 * p[:, 1]) & (p[:, 1] > 0.35)
    slow = p[:, 0] + 1 - p[:, 1] < 0.35
    return np.where(fast | slow, np.nan, curved(p))


def with_noise(truth: Callable[[Array], Array], sd: float) -> Measure:
    def measure(p: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        return p, truth(p) + rng.normal(0, sd, len(p)), np.full(len(p), sd)

    return measure


def from_map() -> tuple[Measure, Side]:
    """The real map as something to measure, and which side of the threshold all of it says."""
    known = cells(pd.read_parquet(MAP))
    place = np.stack([_shares(known[f]) for f in ("optim.lr", "optim.l2")], 1)
    memory, error = known["memory"].to_numpy(float), known["error"].to_numpy(float)

    def measure(p: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        nearest = ((p[:, None] - place[None]) ** 2).sum(-1).argmin(1)
        return place[nearest], memory[nearest], error[nearest]

    whole = surface(Measured(place, memory, error), THRESHOLD)
    assert whole is not None
    return measure, np.asarray(whole.believed(EVERYWHERE)[0] > 0)


def _shares(values: pd.Series) -> Array:
    logs = np.log(values.to_numpy(float))
    return (logs - logs.min()) / (logs.max() - logs.min())


class Repetition:
    """One method's cells on one surface."""

    def __init__(self, measure: Measure, seed: int) -> None:
        self.measure, self.seed, self.rng = measure, seed, np.random.default_rng(seed)
        self.cells = Measured(np.empty((0, 2)), np.empty(0), np.empty(0))

    def add(self, p: Array) -> None:
        new, old = self.measure(p, self.rng), self.cells
        parts = (old.place_ND, new[0]), (old.memory_N, new[1]), (old.error_N, new[2])
        self.cells = Measured(*(np.concatenate(part) for part in parts))

    def above(self) -> Side:
        found = surface(self.cells, THRESHOLD)
        assert found is not None
        return np.asarray(found.believed(EVERYWHERE)[0] > 0)

    def frontier(self, number: int) -> None:
        self.add(qmc.Sobol(2, rng=self.seed).random(START))
        while len(self.cells.memory_N) < number:
            found = surface(self.cells, THRESHOLD)
            assert found is not None
            batch = np.empty((0, 2))
            for k in range(min(BATCH, number - len(self.cells.memory_N))):
                key = 10_000 * self.seed + 10 * len(self.cells.memory_N) + k
                batch = np.vstack([batch, next_place(found, batch, key)])
            self.add(batch)

    def qmc(self, number: int) -> None:
        self.add(qmc.Sobol(2, rng=self.seed).random(number))

    def random(self, number: int) -> None:
        self.add(self.rng.random((number, 2)))

    def tpe(self, number: int) -> None:
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=self.seed))
        for _ in range(number):
            trial = study.ask()
            self.add(np.array([[trial.suggest_float(axis, 0, 1) for axis in "xy"]]))
            memory = self.cells.memory_N[-1]
            if np.isfinite(memory):
                study.tell(trial, memory)
            else:
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)

    def grid(self, number: int) -> None:
        side = round(number**0.5)
        even = np.linspace(0, 1, side)
        self.add(np.stack(np.meshgrid(even, even, indexing="ij"), -1).reshape(-1, 2))

    def heat_map(self) -> Side:
        even = np.linspace(0, 1, SIDE)
        memory_N = np.nan_to_num(self.cells.memory_N)
        between = RegularGridInterpolator((even, even), memory_N.reshape(SIDE, SIDE))
        return np.asarray(between(EVERYWHERE) > THRESHOLD)


def errors(
    method: str, number: int, measure: Measure, above: Side, trained: Side, repeat: int
) -> Array:
    """Percent of the ranges on the wrong side where cells train, for each repetition."""
    found = []
    for seed in range(repeat):
        one = Repetition(measure, seed)
        getattr(one, "grid" if method == "heat map" else method)(number)
        said = one.heat_map() if method == "heat map" else one.above()
        found.append(100 * float(np.mean((said != above)[trained])))
    return np.array(found)


def table(repeat: int) -> pd.DataFrame:
    """A line for each method and number of cells, a column for each surface."""
    surfaces: dict[str, tuple[Measure, Side, Side]] = {}
    for truth in (ridge, curved, island, cliff):
        memory_N = truth(EVERYWHERE)
        for sd in (0.5, 1.0):
            trained = np.isfinite(memory_N)
            surfaces[f"{truth.__name__}, {sd:g}"] = (
                with_noise(truth, sd), memory_N > THRESHOLD, trained,
            )  # fmt: skip
    if MAP.exists():
        surfaces["digits"] = *from_map(), np.full(len(EVERYWHERE), True)
    lines = {}
    for method, number in (
        *(("frontier", n) for n in (16, 24, 36)),
        *((name, n) for name in ("qmc", "random", "tpe") for n in (24, 36)),
        *((name, SIDE**2) for name in ("qmc", "grid", "heat map")),
    ):
        line = {}
        for name, (measure, above, trained) in surfaces.items():
            if name == "digits" and number == SIDE**2:
                continue  # that is what the others are held against
            found = errors(method, number, measure, above, trained, repeat)
            line[name] = f"{found.mean():.1f} ({found.std(ddof=1) / repeat**0.5:.1f})"
        lines[f"{method}, {number} cells"] = line
        click.echo(f"{method}, {number} cells: {line}", err=True)
    return pd.DataFrame(lines).T.fillna("-")


@click.command()
@click.option("--repeat", default=20, show_default=True)
def main(repeat: int) -> None:
    """Print the error of the frontier by method and number of cells."""
    warnings.simplefilter("ignore")  # Sobol sequences of lengths that are no power of two
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    click.echo(table(repeat).to_string())


if __name__ == "__main__":
    main()
