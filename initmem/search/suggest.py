"""The next draw of an arm, from Optuna, as a function of the draws that came before.

Nothing is kept between two calls, so the table of a study does not depend on which worker
finished first, nor on how often the study was interrupted.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

import optuna
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState, create_trial

from initmem.memory.measures import named
from initmem.memory.paired import paired
from initmem.search import frontier
from initmem.study.plan import Arm, Point, grid
from initmem.study.seeds import fold
from initmem.study.spec import Study

optuna.logging.set_verbosity(optuna.logging.WARNING)

Values = tuple[float, ...]


def objectives(study: Study, rows: list[dict[str, Any]]) -> Values | None:
    """What an arm's search is told of a cell: the spread and the mean of what stands for the
    study's measure in a search (`Measure.search`): for test accuracy, the selected predictor's
    validation accuracy, in percent; else the measure itself, for no second set says the same, so
    the search then sees what the map shows. For the frontier one of them with its noise
    (`frontier.Told`). None where too few scales are trained to speak of a spread, or the spread
    is a lower bound, which is no number to minimize."""
    cell = paired(rows, named(study.measure).search)
    if study.search.sampler == "frontier":
        return frontier.told(study, cell)
    known = cell.whole and not cell.censored
    if not (cell.trained if study.search.objective == "accuracy" else known):
        return None
    memory, mean = cell.spread, cell.mean
    return {"memory": (memory,), "accuracy": (mean,)}.get(study.search.objective, (memory, mean))


def directions(study: Study) -> list[str]:
    """Of `objectives`, or of what the frontier is told first."""
    mean = "minimize" if named(study.measure).least_is_best else "maximize"
    single = {"memory": ["minimize"], "accuracy": [mean]}
    return single.get(study.search.objective, ["minimize", mean])


def fixed(study: Study, arm: Arm) -> list[Point] | None:
    """All points of an arm, where none depends on what came of the others, else None."""
    points = grid(study.ranges)
    if points is None and study.search.sampler in ("random", "qmc"):
        return _sequence(study.model_dump_json(), arm.id)
    return points


def suggest(
    study: Study, arm: Arm, known: list[tuple[Point, Values | None]], open_points: list[Point]
) -> Point:
    """The point of draw number len(known) + len(open_points).

    known: draws 0, 1, ... in order, with their objectives; open_points: the draws after them,
    which are in training. The samplers random and qmc look at their number only; frontier begins
    as qmc does.
    """
    draw = len(known) + len(open_points)
    points = fixed(study, arm)
    if points is not None:
        return points[draw]
    if study.search.sampler == "frontier" and draw >= frontier.start(study):
        chosen = frontier.choose(study, known, open_points, _seed(study, arm, draw))
        if chosen is not None:
            return chosen
    if study.search.sampler == "frontier":
        return dict(_sequence(study.model_dump_json(), arm.id)[draw])
    sampler = optuna.samplers.TPESampler(seed=_seed(study, arm, draw))
    search = _study(study, sampler)
    for point, values in known:
        search.add_trial(trial(study, point, values))
    for point in open_points:
        search.add_trial(create_trial(state=TrialState.RUNNING, params=point,
                                      distributions=_distributions(study)))  # fmt: skip
    return _ask(study, search)


@lru_cache(maxsize=1024)
def _sequence(study_json: str, arm_id: str) -> list[Point]:
    """All draws of a sampler that does not learn; a longer sequence begins with the shorter."""
    study = Study.model_validate_json(study_json)
    seed = fold(study.search.seed, "search", arm_id) % 2**32
    if study.search.sampler == "random":
        search = _study(study, optuna.samplers.RandomSampler(seed=seed))
    else:
        with warnings.catch_warnings():  # Optuna calls it experimental; it is scipy's Sobol
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.QMCSampler(scramble=True, seed=seed)
        search = _study(study, sampler)
        # The first trial of a study is drawn apart from the sequence: let it be one of no use.
        low = {field: r.low for field, r in study.ranges.items()}
        search.add_trial(trial(study, low, (0.0,) * len(search.directions)))
    return [_ask(study, search) for _ in range(study.search.draws or 0)]


def _study(study: Study, sampler: optuna.samplers.BaseSampler) -> optuna.Study:
    return optuna.create_study(sampler=sampler, directions=directions(study))


def trial(
    study: Study, point: Point, values: Values | None, **user_attrs: Any
) -> optuna.trial.FrozenTrial:
    """A cell without objectives counts as worse than any other, so that its region is avoided;
    under two objectives Optuna knows no such state, and it is left out."""
    single = study.search.objective != "both"
    lost = TrialState.PRUNED if single else TrialState.FAIL
    return create_trial(
        state=lost if values is None else TrialState.COMPLETE,
        values=values,
        params=point,
        distributions=_distributions(study),
        user_attrs=user_attrs,
    )


def _ask(study: Study, search: optuna.Study) -> Point:
    return dict(search.ask(fixed_distributions=_distributions(study)).params)


def _distributions(study: Study) -> dict[str, Any]:
    return {f: FloatDistribution(r.low, r.high, log=r.log) for f, r in study.ranges.items()}


def _seed(study: Study, arm: Arm, draw: int) -> int:
    return fold(study.search.seed, "search", arm.id, draw) % 2**32
