"""A run as Optuna studies, one an arm, for those who look with Optuna's own tools.

Made anew from the rows each time: nothing is ever read back from such a file.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend

import initmem
from initmem.memory.measures import named
from initmem.search.suggest import directions, objectives, trial
from initmem.study.plan import Arm, arms
from initmem.study.spec import Study, UserError

Lines = list[dict[str, Any]]

SQLITE, JOURNAL = (".db", ".sqlite3"), (".log", ".jsonl")
SHOWN = ("verdict", "memory", "low", "high", "p", "floor", "sigma", "mean", "memory_final",
         "memory_interpolated", "function_memory", "more_seeds")  # fmt: skip
"""Columns of `memory.cells` that go along, where they have a value."""


def optuna_file(study: Study, rows: Lines, cells: Lines, suffix: str) -> bytes:
    """The content of a file that Optuna opens: sqlite or a journal, by its suffix.

    rows: of the study; cells: the lines of `memory.cells` for them. A trial is a cell. Its params
    are the point, its values what the search is told (of the validation accuracy), its user
    attributes what the map shows (of the test accuracy). A cell that did not train, or whose
    replicas are not all done, is PRUNED or, under two objectives, FAIL, as the sampler has it.
    Raises UserError for another suffix.
    """
    if suffix not in SQLITE + JOURNAL:
        known = f"{' or '.join(SQLITE)} (sqlite), {' or '.join(JOURNAL)} (journal)"
        raise UserError(f"--optuna: the name of the file must end in {known}")
    of_cell: dict[tuple[str, int], Lines] = {}
    for row in rows:
        of_cell.setdefault((row["arm"], row["draw"]), []).append(row)
    shown = {(line["arm"], line["draw"]): line for line in cells}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"studies{suffix}")
        storage = _storage(path)
        for arm in arms(study):
            search = _search(study, arm, storage)
            for place in sorted(place for place in of_cell if place[0] == arm.id):
                search.add_trial(_trial(study, of_cell[place], shown[place]))
        if isinstance(storage, RDBStorage):
            storage.remove_session()
            storage.engine.dispose()
        return path.read_bytes()


def _storage(path: Path) -> BaseStorage:
    if path.suffix in SQLITE:
        return RDBStorage(f"sqlite:///{path}")
    return JournalStorage(JournalFileBackend(str(path)))


def _search(study: Study, arm: Arm, storage: BaseStorage) -> optuna.Study:
    where = f": {', '.join(arm.named)}" if arm.values else ""
    search = optuna.create_study(
        study_name=f"{study.name} arm {arm.index}{where}",
        storage=storage,
        directions=directions(study),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        search.set_metric_names(metric_names(study))
    about = {
        **arm.values,
        "arm": arm.id,
        "question": study.question,
        "memory_axis": study.memory_axis,
        "measure": study.measure,
        "threshold": study.threshold,
        "sampler": study.search.sampler,
        "initmem": initmem.__version__,
    }
    for name, value in about.items():
        search.set_user_attr(name, value)
    return search


def metric_names(study: Study) -> list[str]:
    """Of the values, in the order of `directions`."""
    of = named(study.measure)
    noun = "validation accuracy" if "validation_accuracy" in of.search else of.noun
    mean = f"mean {noun}, {'log2' if of.steps else '%'}"
    spread = f"memory of the {noun}, {of.unit}"
    single = {"memory": [spread], "accuracy": [mean]}
    return single.get(study.search.objective, [spread, mean])


def _trial(study: Study, rows: Lines, shown: dict[str, Any]) -> optuna.trial.FrozenTrial:
    whole = len(rows) == len(study.axes[study.memory_axis]) * study.seeds
    values = objectives(study, rows) if whole else None
    told = values and values[: len(directions(study))]  # the frontier is told of noise, too
    said = {name: shown[name] for name in SHOWN if _is_something(shown.get(name))}
    said |= {"cell": rows[0]["cell"], "replicas": len(rows)}
    states = Counter(row["state"] for row in rows)
    point = {field: rows[0][field] for field in study.ranges}
    made = trial(study, point, told, **said, **states)
    starts = [_local(row["run.started"]) for row in rows]
    seconds = [timedelta(seconds=row["run.seconds"] or 0.0) for row in rows]
    made.datetime_start = min(starts)
    made.datetime_complete = max(map(datetime.__add__, starts, seconds))
    return made


def _is_something(value: Any) -> bool:
    return isinstance(value, str) or (value is not None and math.isfinite(value))


def _local(utc: str) -> datetime:
    """As Optuna has times: of this machine's zone, without its name."""
    return datetime.fromisoformat(utc).astimezone().replace(tzinfo=None)
