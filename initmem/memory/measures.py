"""What memory can be the spread of: a number for each row, and the words for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MEASURE = "selected.test_accuracy"
STATES = ("interpolated", "plateaued", "undertrained", "diverged", "failed")
TRAINED = ("interpolated", "plateaued")


@dataclass(frozen=True)
class Measure:
    """A column of the rows, as it is or, for steps, its logarithm to base 2."""

    column: str
    final: str | None = "final.test_accuracy"
    """The column that says the same of the final predictor, if there is one."""
    search: str = "selected.validation_accuracy"
    """What a search is told: a column, or a measure by its name."""
    unit: str = "points"
    """Of memory, in sentences."""
    axis_unit: str = "percentage points"
    """Of memory, on axes."""
    noun: str = "test accuracy"
    title: str = "test accuracy (%)"
    """Of axes."""
    head: tuple[str, str] = ("test", "accuracy")
    """Of columns of means, on two lines."""
    short: str = "accuracy"
    ends: tuple[str, str] = ("best", "worst")
    """What the values of the memory axis with the highest and the lowest mean are called."""
    level: str = "{:g}%"
    """How a mean is written."""
    reach: float = 25.0
    """Of a mean around the level of its frontier, the unit of its scale (see `surface`): with a
    few points, as for memory, an accuracy that falls from 100 to 0 is taken for a cliff."""
    least_is_best: bool = False
    noises: tuple[float, ...] = (0.5, 1.0, 2.0)
    """Standard deviations between replicas that are to be expected, in its unit."""
    steps: bool = False
    """Whether it is log2 of steps, and so censored: a trained replica that did not get there has
    log2 of the steps that it was trained for, a lower bound."""

    def value(self, row: Mapping[str, Any]) -> float:
        """nan where the row has none."""
        y = row["steps"] if self.censored(row) else row[self.column]
        if y is None or not math.isfinite(y):
            return math.nan
        return math.log2(y) if self.steps else float(y)

    def censored(self, row: Mapping[str, Any]) -> bool:
        """Whether its value is but a lower bound."""
        y = row[self.column]
        return self.steps and row["state"] in TRAINED and (y is None or math.isnan(y))


MEASURES = {
    "test_accuracy": Measure(MEASURE),
    "ood_accuracy": Measure(
        "selected.ood_accuracy",
        final="final.ood_accuracy",
        search="ood_accuracy",
        noun="accuracy out of distribution",
        title="accuracy out of distribution (%)",
        head=("accuracy out", "of distribution"),
    ),
    "steps_to_validation": Measure(
        "steps_to_validation",
        final=None,
        search="steps_to_validation",
        unit="doublings",
        axis_unit="doublings of the steps",
        noun="number of steps to generalize",
        title="steps to generalize (log2)",
        head=("log2 of", "the steps"),
        short="steps to generalize",
        ends=("slowest", "fastest"),
        level="2^{:g} steps",
        reach=2.0,
        least_is_best=True,
        noises=(0.25, 0.5, 1.0),
        steps=True,
    ),
}
"""By the names that `Study.measure` takes."""


def named(measure: str) -> Measure:
    """The measure of that name, or else the column of that name as it is."""
    return MEASURES.get(measure) or Measure(measure)
