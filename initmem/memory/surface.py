"""What is believed of memory everywhere in the ranges, from the cells that were trained.

A Gaussian process over the logarithms of the ranges, each cell with its own noise; cells that did
not train have no memory, and a classifier learns where they lie. Where the mean crosses the
threshold runs the frontier.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import norm, qmc
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern
from threadpoolctl import ThreadpoolController

from initmem.memory.noise import errors
from initmem.memory.paired import Array, Paired

LENGTH, LENGTH_SPREAD = 0.5, 0.6
AMPLITUDE, AMPLITUDE_SPREAD = 3.0, 0.7
"""Lognormal priors of the process, in units of the range and of the scaled memory: without them
ten cells with noise are as soon taken for a plane, or for noise alone."""

UNSURE = (0.025, 0.975)
"""The frontier's 95% band: where the probability of memory above the threshold lies between."""
WIDER = 1.4
"""The process errs by this many of its own standard deviations, for it takes its kernel for known:
by its own word the band held 86% of a true frontier after 24 cells and 92% after 36, as did a
bootstrap of the cells (85 and 94%); with this it holds 91 to 97% and 96 to 100%
(`benchmarks/band.py`)."""
TRAINS = 0.5
"""Probability that a cell trains, below which a place is left out of band and search."""
PLACES = 2**10
"""Evenly spread, at which the width of the band is measured."""

_one_thread = ThreadpoolController().wrap(limits=1, user_api="blas")
"""For all that calls BLAS. By default it takes a thread a core: from about 100 cells on, the bits,
and with them the draws of a search, would depend on the machine; and beside workers that keep the
cores busy, its threads wait for each other for many times what they save."""


@dataclass(frozen=True)
class Measured:
    """Cells that have an end: their places in the unit cube [N, D], memory [N] (nan where not
    trained) and its standard error [N], in the unit of the measure. For the frontier of a mean,
    the mean stands for memory."""

    place_ND: Array
    memory_N: Array
    error_N: Array


@dataclass(frozen=True)
class Surface:
    """What is believed of memory everywhere, on a scale that has the threshold at 0."""

    process: GaussianProcessRegressor
    trained: GaussianProcessClassifier | None
    """None where no cell failed to train."""
    threshold: float
    unit: float
    """Of the scale."""

    @_one_thread
    def believed(self, place_ND: Array) -> tuple[Array, Array]:
        """Mean and standard deviation [N]."""
        mean_N, sd_N = self.process.predict(place_ND, return_std=True)
        return mean_N, sd_N

    @_one_thread
    def trains(self, place_ND: Array) -> Array:
        """Probability [N] that a cell there trains."""
        if self.trained is None:
            return np.ones(len(place_ND))
        return np.asarray(self.trained.predict_proba(place_ND)[:, 1])

    def remembers(self, place_ND: Array) -> Array:
        """Probability [N] that memory there is above the threshold."""
        mean_N, sd_N = self.believed(place_ND)
        return np.asarray(norm.cdf(mean_N / (WIDER * sd_N)))

    def band(self) -> float:
        """Width of the frontier's band: the share of the places where a cell would sooner train
        than not at which it is unsure on which side of the threshold memory lies; nan where there
        is no such place."""
        sobol = qmc.Sobol(self.process.n_features_in_, scramble=False)
        place_ND = sobol.random(PLACES) + 0.5 / PLACES
        remembers_N = self.remembers(place_ND[self.trains(place_ND) >= TRAINS])
        return float(unsure(remembers_N).mean()) if len(remembers_N) else np.nan

    def memory(self, scaled: Array) -> Array:
        """Memory in the unit of the measure, from the scale of the process."""
        return self.unit * (self.threshold / self.unit + np.sinh(scaled))

    @_one_thread
    def with_cell(self, place_D: Array) -> Surface:
        """The surface if a cell there turned out as believed: for cells still in training."""
        mean, _ = self.believed(place_D[None])
        error = float(np.median(self.process.alpha))
        return Surface(
            _condition(
                self.process.kernel_,
                np.vstack([self.process.X_train_, place_D]),
                np.append(self.process.y_train_, mean),
                np.append(self.process.alpha, error),
            ),
            self.trained,
            self.threshold,
            self.unit,
        )


def unsure(remembers_N: Array) -> NDArray[np.bool_]:
    """Whether places lie in the band [N], by the probability of memory above the threshold."""
    return (UNSURE[0] <= remembers_N) & (remembers_N <= UNSURE[1])


@_one_thread
def surface(measured: Measured, threshold: float, unit: float | None = None) -> Surface | None:
    """The surface that the cells speak for; None where none of them trained.

    Memory is scaled to asinh((memory - threshold) / unit), whose unit is by default the threshold:
    linear around the threshold, and logarithmic far above it, where its size tells nothing about
    where it crosses.
    """
    unit = threshold if unit is None else unit
    there_N = np.isfinite(measured.memory_N)
    if not there_N.any():
        return None
    place_ND = measured.place_ND[there_N]
    over_N = (measured.memory_N[there_N] - threshold) / unit
    error_N = measured.error_N[there_N] / unit / np.sqrt(1 + over_N**2)
    process = _process(place_ND, np.arcsinh(over_N), error_N**2 + 1e-6)
    trained = None
    if not there_N.all():
        trained = GaussianProcessClassifier(1.0 * RBF(0.3, "fixed"), random_state=0)
        trained.fit(measured.place_ND, there_N)
    return Surface(process, trained, threshold, unit)


def means(tables: list[Paired]) -> tuple[Array, Array]:
    """Of the cells of an arm, the means [N] (nan where not trained) and their standard errors
    [N], for `Measured`."""
    mean_N = np.array([table.mean if table.trained else np.nan for table in tables])
    error_N, trained_N = np.full(len(tables), np.nan), np.isfinite(mean_N)
    noises = [t.mean_noise for t, trained in zip(tables, trained_N, strict=True) if trained]
    square_M, df_M, contrast_M = np.array(noises).reshape(-1, 3).T
    error_N[trained_N] = errors(square_M, df_M.astype(int), contrast_M)
    return mean_N, error_N


def sided(memory_N: Array, bound_N: NDArray[np.bool_], threshold: float) -> Array:
    """`memory_N`, nan for lower bounds below the threshold, which do not tell the side."""
    return np.where(bound_N & (memory_N < threshold), np.nan, memory_N)


def _process(place_ND: Array, y_N: Array, variance_N: Array) -> GaussianProcessRegressor:
    kernel = ConstantKernel(AMPLITUDE**2, (0.1, 400)) * Matern(
        [LENGTH] * place_ND.shape[1], (0.08, 3), nu=2.5
    )
    far = ConstantKernel(4.0, "fixed")  # the mean is unknown, by about 2
    process = GaussianProcessRegressor(kernel + far, alpha=variance_N, optimizer=_most_probable)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # cells all alike end at a bound
        return process.fit(place_ND, y_N)


def _condition(
    kernel: object, place_ND: Array, y_N: Array, variance_N: Array
) -> GaussianProcessRegressor:
    return GaussianProcessRegressor(kernel, alpha=variance_N, optimizer=None).fit(place_ND, y_N)


def _most_probable(
    negative_likelihood: Callable[..., tuple[float, Array]], start: Array, bounds: Array
) -> tuple[Array, float]:
    """The kernel's logarithms (amplitude^2, lengths) of highest posterior probability."""
    middle = np.log([AMPLITUDE**2, *[LENGTH] * (len(start) - 1)])
    spread = np.array([2 * AMPLITUDE_SPREAD, *[LENGTH_SPREAD] * (len(start) - 1)])

    def negative_posterior(theta: Array) -> tuple[float, Array]:
        value, gradient = negative_likelihood(theta)
        off = (theta - middle) / spread
        return value + 0.5 * off @ off, gradient + off / spread

    shorter = middle - np.log([1.0, *[2.0] * (len(start) - 1)])
    found = [
        minimize(negative_posterior, begin, jac=True, bounds=bounds, method="L-BFGS-B")
        for begin in (middle, shorter)
    ]
    best = min(found, key=lambda f: f.fun)
    return best.x, float(best.fun)
