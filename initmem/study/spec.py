"""A study: a recipe, what varies, how much to spend.

`Study` holds what a study file says, checked. Its recipes are looked at one value at a time by
`load.py` and in all combinations by `plan.py`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from initmem.study.address import below, refusal
from initmem.study.resources_section import Resources
from initmem.study.section import Count, Section, Seed, invalid
from initmem.study.tracking_section import Tracking


class UserError(ValueError):
    """What a user can mend: the message names the place, the field and the way out, in one line
    or more. What the lines quote breaks no line, moves no cursor and shows no password."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(re.sub(r":/+\S*@", "://...@", one_line(s)) for s in lines))


@contextmanager
def told() -> Iterator[None]:
    """Of a command: what a user can mend is said on stderr in its own words, and the exit status
    is 2."""
    try:
        yield
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def one_line(text: str) -> str:
    """The text with what no terminal should be sent (line breaks, control characters) escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def word(value: Any) -> str:
    """null, true and false as a study file has them; anything else as it prints."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


class Problem(UserError):
    """One fault of a study: `file:line: field: what is wrong, what is allowed`."""

    def __init__(self, where: str, field: str, text: str) -> None:
        plain = cut(field, 80).replace(":", "\\x3a") or repr(field)
        super().__init__(f"{where}: {plain}: {cut(text, 500)}")
        self.where, self.field, self.text = where, field, text


class StudyError(UserError):
    """All faults of a study, a line each."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(*(str(problem) for problem in problems))
        self.problems = problems


class Range(Section):
    """A searched field."""

    low: float
    high: float
    log: bool = False
    """Search the logarithm."""
    points: Annotated[int, Field(ge=2)] | None = None
    """An even grid of this many points instead of a search, for reference maps."""

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if self.low >= self.high:
            raise invalid("low", f"must be less than high, got {self.low:g} >= {self.high:g}")
        if self.log and self.low <= 0:
            raise invalid("low", f"must be greater than 0 on a log range, got {self.low:g}")
        return self


class Search(Section):
    sampler: Literal["random", "qmc", "tpe", "frontier"] = "qmc"
    """frontier looks for where memory crosses `threshold`, or the mean `level`."""
    draws: Count | None = None
    """Points an arm's search may draw. Absent where every range has `points`, or there is none."""
    lag: Annotated[int, Field(ge=0)] = 8
    """Draw k knows the draws 0 .. k-lag-1, whatever the number of workers: at most lag + 1 draws
    of an arm are trained at once."""
    objective: Literal["memory", "accuracy", "both"] = "memory"
    """Minimize the spread of the study's `measure`, find the best mean, or both as two
    objectives. Test accuracy is searched for by the validation accuracy, for the test set is for
    the map; of the other measures, the search sees what the map shows. With sampler frontier:
    look for where the spread crosses `threshold`, or the mean `level`."""
    level: float | None = None
    """Of sampler frontier with objective accuracy: what the mean over the memory axis and seeds
    crosses, in percent; for steps, log2 of them."""
    seed: Seed = 0
    stop_when: str | None = None
    """`band < 0.1` ends an arm's search, of sampler frontier, before all its draws: when the 95%
    band of the frontier covers less than that share of the ranges."""

    @property
    def band(self) -> float | None:
        """The share that `stop_when` names."""
        return None if self.stop_when is None else _share(self.stop_when)

    @model_validator(mode="after")
    def _stoppable(self) -> Search:
        if self.stop_when is not None:
            if _share(self.stop_when) is None:
                text = f"must be `band < NUMBER`, 0 < NUMBER < 1, got {cut(self.stop_when, 60)!r}"
                raise invalid("stop_when", text)
            if self.sampler != "frontier":
                raise invalid("stop_when", f"sampler {self.sampler} has no band, frontier has")
        return self

    @model_validator(mode="after")
    def _levelled(self) -> Search:
        of_mean = self.sampler == "frontier" and self.objective == "accuracy"
        if of_mean and self.level is None:
            raise invalid("level", "required: what the mean crosses where the frontier is")
        if self.level is not None and not of_mean:
            raise invalid("level", "is for sampler frontier with objective accuracy, remove it")
        return self


def _share(stop_when: str) -> float | None:
    """The number in `band < NUMBER`, or None where that is not what the text is."""
    found = re.fullmatch(r"\s*band\s*<\s*(\d*\.?\d+(?:[eE][-+]?\d+)?)\s*", stop_when, re.ASCII)
    share = float(found[1]) if found else 0.0
    return share if 0 < share < 1 else None


class Study(Section):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")]
    """Default: the file's name. Its run folder is runs/<name>."""
    question: Annotated[str, Field(max_length=500)] = ""
    """What is asked, for the head of the report."""
    recipe: dict[str, Any]
    """Fixed fields by dotted name."""
    axes: dict[str, Annotated[list[Any], Field(min_length=1)]]
    """Listed values by dotted name: the grid."""
    ranges: dict[str, Range] = Field(default={})
    """Searched fields by dotted name."""
    memory_axis: str = "init.scale"
    """The axis that memory is measured over."""
    measure: Literal["test_accuracy", "ood_accuracy", "steps_to_validation"] = "test_accuracy"
    """What memory is the spread of: test accuracy or accuracy out of distribution, in points, or
    log2 of the steps to `steps_to.validation`, in doublings."""
    threshold: Annotated[float, Field(gt=0)] = 2.0
    """Memory below it counts as erased; in points, or doublings."""
    seeds: Count = 1
    """Networks per cell and value of the memory axis, with seeds 0 .. seeds-1. One seed draws the
    same noise for every value of the memory axis."""
    search: Search = Search()
    resources: Resources = Resources()
    tracking: Tracking = Tracking()
    storage: Annotated[str, Field(min_length=1, max_length=500)] = "runs"
    """Where runs are kept: a folder, or s3://bucket/path[?region=...]; the study's own run is
    <storage>/<name>."""

    @property
    def level(self) -> float:
        """What a frontier crosses: of the mean where `search.level` is given, else of memory."""
        return self.threshold if self.search.level is None else self.search.level

    @property
    def address(self) -> str:
        """Of the study's run."""
        return below(self.storage, self.name)

    @model_validator(mode="after")
    def _stored(self) -> Study:
        if text := refusal(self.storage):
            raise invalid("storage", text)
        return self

    @model_validator(mode="after")
    def _searchable(self) -> Study:
        gridded = [r.points is not None for r in self.ranges.values()]
        if any(gridded) and not all(gridded):
            raise invalid("ranges", "give `points` to every range or to none")
        if all(gridded) and self.search.draws is not None:
            raise invalid("search.draws", "there is nothing to draw, remove it")
        if all(gridded) and self.search.stop_when is not None:
            raise invalid("search.stop_when", "there is nothing to search, remove it")
        if self.search.sampler == "frontier":
            if self.seeds == 1:
                raise invalid("seeds", "sampler frontier needs 2 or more, to know a cell's noise")
            if self.search.objective == "both":
                text = "sampler frontier looks for memory alone, or for accuracy alone"
                raise invalid("search.objective", text)
        level, percent = self.search.level, self.measure != "steps_to_validation"
        if level is not None and not 0 < level < (100 if percent else 64):
            unit = "percent, 0 < level < 100" if percent else "log2 of steps, 0 < level < 64"
            raise invalid("search.level", f"is in {unit}, got {level:g}")
        if not all(gridded) and self.search.draws is None:
            raise invalid("search.draws", "required with ranges: how many points to draw an arm")
        return self
