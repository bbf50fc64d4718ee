"""A run as Optuna studies: what is in the file, in either form, and that it appears whole."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import optuna
import pytest
from click.testing import CliRunner
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

import initmem
from initmem.cli import main
from initmem.records.store import Store
from initmem.search.export import optuna_file
from initmem.search.suggest import objectives
from initmem.study.spec import Study
from tests.tiny import TINY, study

ARMS = TINY.replace("init.scale: [1, 2]", "init.scale: [1, 2]\n  optim.name: [sgd, adam]")
ARMS = ARMS.replace("{name: sgd, batch", "{batch").replace("steps: 30", "steps: 60")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    initmem.run(study(folder, text=ARMS), folder / "run", local=True)
    return folder / "run"


def export(run: Path, file: Path) -> dict[str, optuna.Study]:
    done = CliRunner().invoke(main, ["export", str(run), "--optuna", str(file)])
    assert (done.exit_code, done.output) == (0, f"{file}\n")
    storage: Any = f"sqlite:///{file}"
    if file.suffix in (".log", ".jsonl"):
        storage = JournalStorage(JournalFileBackend(str(file)))
    names = optuna.get_all_study_names(storage)
    return {name: optuna.load_study(study_name=name, storage=storage) for name in names}


@pytest.mark.parametrize("suffix", [".db", ".sqlite3", ".log", ".jsonl"])
def test_a_study_an_arm_with_what_its_search_was_told(
    run: Path, tmp_path: Path, suffix: str
) -> None:
    file = tmp_path / f"o{suffix}"
    file.write_bytes(b"what was there before")
    studies = export(run, file)
    assert list(studies) == ["tiny arm 0: optim.name sgd", "tiny arm 1: optim.name adam"]
    store = Store(run)
    of, rows = store.open(), store.rows()
    cells = initmem.cells(store.frame(), axis_values=2).set_index(["arm", "draw"])
    for name, search in studies.items():
        assert search.metric_names == ["memory of the validation accuracy, points"]
        assert [d.name for d in search.directions] == ["MINIMIZE"]
        assert search.user_attrs["optim.name"] == name.split()[-1]
        assert search.user_attrs["initmem"] == initmem.__version__
        arm = search.user_attrs["arm"]
        assert len(search.trials) == 3
        for draw, trial in enumerate(search.trials):
            mine = [row for row in rows if (row["arm"], row["draw"]) == (arm, draw)]
            told, shown = objectives(of, mine), cells.loc[arm, draw]
            assert trial.params == {f: mine[0][f] for f in ("optim.lr", "optim.l2")}
            assert trial.distributions["optim.lr"].log
            assert trial.values == (None if told is None else list(told))
            assert trial.state == (TrialState.PRUNED if told is None else TrialState.COMPLETE)
            assert trial.user_attrs["verdict"] == shown["verdict"]
            assert trial.user_attrs.get("memory", -1) == pytest.approx(
                shown["memory"] if shown["memory"] >= 0 else -1
            )
            states = {s: shown[s] for s in ("interpolated", "undertrained") if shown[s]}
            assert states.items() <= trial.user_attrs.items()
    assert [p.name for p in tmp_path.iterdir()] == [file.name]


def alike(**fields: Any) -> dict[str, Any]:
    return {"state": "interpolated", "run.started": "2026-01-02T03:04:05+00:00",
            "run.seconds": 60.0, "cell": "c", "draw": 0, "optim.lr": 0.05, "optim.l2": 0.01,
            "memory_axis": "init.scale", "steps": 30, **fields}  # fmt: skip


def opened(of: Study, rows: list[dict[str, Any]], folder: Path) -> optuna.trial.FrozenTrial:
    from initmem.study.plan import arms

    arm = arms(of)[0].id
    shown = {"arm": arm, "draw": 0, "verdict": "unfinished", "memory": float("nan"), "p": 0.25}
    content = optuna_file(of, [row | {"arm": arm} for row in rows], [shown], ".jsonl")
    (folder / "x.jsonl").write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        storage = JournalStorage(JournalFileBackend(str(folder / "x.jsonl")))
    search = optuna.load_study(study_name="tiny arm 0", storage=storage)
    assert len(search.metric_names or []) == len(search.directions)
    return search.trials[0]


def rows_of(count: int) -> list[dict[str, Any]]:
    pairs = [(scale, seed) for scale in (1, 2) for seed in (0, 1)]
    return [alike(**{"init.scale": scale, "seed": seed,
                     "selected.validation_accuracy": 90.0 - 10 * scale})
            for scale, seed in pairs][:count]  # fmt: skip


@pytest.mark.parametrize(
    ("objective", "values", "untold"),
    [("memory", [10.0], "PRUNED"), ("accuracy", [75.0], "PRUNED"), ("both", [10.0, 75.0], "FAIL")],
)
def test_cells_that_are_not_done_are_told_as_to_the_sampler(
    tmp_path: Path, objective: str, values: list[float], untold: str
) -> None:
    of = study(tmp_path, f"search.objective={objective}")
    whole, part = opened(of, rows_of(4), tmp_path), opened(of, rows_of(3), tmp_path)
    assert (whole.state.name, whole.values) == ("COMPLETE", values)
    assert (part.state.name, part.values) == (untold, None)
    assert whole.user_attrs == {"verdict": "unfinished", "p": 0.25, "cell": "c", "replicas": 4,
                                "interpolated": 4}  # fmt: skip
    assert whole.duration and whole.duration.total_seconds() == 60


def test_the_frontier_is_shown_without_its_noise(tmp_path: Path) -> None:
    of = study(tmp_path, "search.sampler=frontier")
    assert opened(of, rows_of(4), tmp_path).values == [10.0]


@pytest.mark.parametrize(
    ("file", "said"),
    [("o.csv", "must end in .db or .sqlite3 (sqlite), .log or .jsonl (journal)"),
     ("s3://lab/o.db", "is written to a file of this machine, not to an address")],
)  # fmt: skip
def test_files_that_cannot_be_written(run: Path, file: str, said: str) -> None:
    done = CliRunner().invoke(main, ["export", str(run), "--optuna", file])
    assert done.exit_code == 2 and done.stderr.startswith("--optuna: ") and said in done.stderr


def test_a_run_without_rows(tmp_path: Path) -> None:
    Store(tmp_path / "empty").create(study(tmp_path))
    done = CliRunner().invoke(main, ["export", str(tmp_path / "empty"), "--optuna", "o.db"])
    assert done.exit_code == 2 and done.stderr.endswith("run: has no rows yet\n")
