"""MLflow, Weights & Biases and Ray's dashboard, which need not be installed here: what Ray's own
callbacks for them are told."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.air.integrations import mlflow, wandb

import initmem
from initmem.records.files import LocalFiles
from initmem.search.agenda import Agenda
from initmem.study.compare import conflicts
from initmem.study.spec import StudyError, UserError
from initmem.tune import dashboard, tracking
from initmem.tune.trainable import config_of
from tests.tiny import first_cell, study

MLFLOW = "tracking={mlflow: {uri: 'https://lab:5000/x', experiment: maps}}"
WANDB = "tracking={wandb: {project: maps, entity: us, mode: offline}}"


class Client:
    """In the place of what Ray speaks to MLflow through."""

    calls: list[Any]
    broken = ""

    def __getattr__(self, name: str) -> Any:
        def call(**words: Any) -> Any:
            self.calls.append((name, words))
            if name == self.broken:
                raise ConnectionError("nobody is there\nat all")
            return SimpleNamespace(info=SimpleNamespace(run_id="r1"))

        return call


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    Client.calls, Client.broken = [], ""
    monkeypatch.setattr(mlflow, "_MLflowLoggerUtil", Client)
    for name in tracking.PATIENCE:
        monkeypatch.setenv(name, "0")
    return Client.calls


class Trial(SimpleNamespace):
    def __str__(self) -> str:
        return "arm0-draw0-block0"

    __hash__ = object.__hash__


def told(of: Any, folder: Path) -> None:
    """A trial from start to end, as Tune tells a callback of it."""
    (callback,) = tracking.callbacks(of, LocalFiles(folder))
    block = Agenda(of, lambda cell: None, {}).next()
    assert block is not None
    trial = Trial(config=config_of(block, "run", Path("data"), {"CPU": 1.0}, []))
    callback.setup()
    callback.log_trial_start(trial)
    points = {"scale_1_seed_0": {"step": 10, "train_loss": 0.5}}
    noise = {"config": trial.config, "time_total_s": 3.0, "done": False}
    callback.log_trial_result(1, trial, {**points, **noise, "training_iteration": 7})
    callback.log_trial_end(trial)


def test_mlflow_is_told_points_axes_and_curves(tmp_path: Path, calls: list[Any]) -> None:
    of = study(tmp_path, MLFLOW, "axes={init.scale: [1, 2], optim.momentum: [0.5]}",
               "recipe.optim.name=momentum", "search.sampler=random")  # fmt: skip
    told(of, tmp_path)
    assert [name for name, _ in calls] == [
        "setup_mlflow", "start_run", "log_params", "log_metrics", "end_run",
    ]  # fmt: skip
    setup, start, params, metrics, end = (words for _, words in calls)
    assert (setup["tracking_uri"], setup["experiment_name"]) == ("https://lab:5000/x", "maps")
    assert start["run_name"] == "arm0-draw0-block0" and start["tags"]["study"] == "tiny"
    fields = params["params_to_log"]
    assert set(fields) == {"optim.lr", "optim.l2", "optim.momentum", "arm", "draw", "block", "run",
                           "data", "whole_gpu", "share", "not_on"}  # fmt: skip
    assert fields["optim.momentum"] == 0.5 and 0.01 <= fields["optim.lr"] <= 0.1
    assert metrics["step"] == 7 and metrics["metrics_to_log"] == {
        "scale_1_seed_0": {"step": 10, "train_loss": 0.5}, "training_iteration": 7,
    }  # fmt: skip
    assert end == {"run_id": "r1", "status": "FINISHED"}


@pytest.mark.parametrize("broken", ["setup_mlflow", "log_metrics"])
def test_a_tracker_that_fails_is_said_once_and_ends_nothing(
    tmp_path: Path, calls: list[Any], broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Client.broken = broken
    told(study(tmp_path, MLFLOW), tmp_path)
    assert calls[-1][0] == broken
    line = "ToMLflow: told no more, the run goes on: ConnectionError: nobody is there\n"
    assert capsys.readouterr().err == line


def test_wandb_keeps_offline_runs_in_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(wandb, "wandb", object())
    monkeypatch.setenv("WANDB_MODE", "online")
    (callback,) = tracking.callbacks(study(tmp_path, WANDB), LocalFiles(tmp_path))
    started: dict[str, Any] = {}
    monkeypatch.setattr(wandb, "_clean_log", dict)
    monkeypatch.setattr(
        callback, "_start_logging_actor", lambda *_, **words: started.update(words)
    )
    callback.setup()  # asks for no key
    callback.log_trial_start(Trial(config={"optim.lr": 0.1}, trial_id="t1"))
    assert started.items() >= {"project": "maps", "entity": "us", "mode": "offline", "id": "t1",
                               "group": "tiny", "dir": str(tmp_path)}.items()  # fmt: skip
    assert started["config"] == {"optim.lr": 0.1} and started["name"] == "arm0-draw0-block0"
    assert not capsys.readouterr().err


def test_what_an_actor_of_wandb_raised_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(wandb, "wandb", object())
    monkeypatch.setenv("WANDB_MODE", "offline")

    def lost(ref: str) -> None:
        raise ConnectionError(f"{ref}: no such host")

    monkeypatch.setattr("ray.wait", lambda refs, **_: (refs, []))
    monkeypatch.setattr("ray.get", lost)
    (callback,) = tracking.callbacks(study(tmp_path, WANDB), LocalFiles(tmp_path))
    monkeypatch.setattr(callback, "_cleanup_logging_actor", lambda trial: None)
    callback._trial_logging_futures = {"trial": "future"}
    callback._logging_future_to_trial = {"future": "trial"}
    callback.on_experiment_end([])
    assert "ToWandb: told no more, the run goes on: ConnectionError: future: no such host\n" == (
        capsys.readouterr().err
    )
    callback._trial_logging_futures = {}


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_packages_that_are_missing_are_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    of = study(tmp_path, {"mlflow": MLFLOW, "wandb": WANDB}[name])
    said = f"^tiny: tracking.{name}: {name} is not installed: pip install {name}$"
    with pytest.raises(UserError, match=said):
        initmem.run(of, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_missing_key_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    package = SimpleNamespace(api=SimpleNamespace(api_key=None))
    monkeypatch.setattr("importlib.import_module", lambda name: package)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    of = study(tmp_path, WANDB, "tracking.wandb.mode=online")
    with pytest.raises(UserError, match=r"tracking\.wandb: no key: set WANDB_API_KEY"):
        tracking.require(of, local=False)
    monkeypatch.setenv("WANDB_API_KEY", "x")
    tracking.require(of, local=False)


def test_tracking_changes_no_row_and_no_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, tracked = study(tmp_path), study(tmp_path, MLFLOW)
    assert conflicts(plain, tracked) == conflicts(tracked, plain) == []
    ids = [[r.id for r in first_cell(of).replicas] for of in (plain, tracked)]
    assert ids[0] == ids[1]
    assert tracking.callbacks(plain, LocalFiles(tmp_path)) == []
    for of, said in ((plain, ""), (tracked, "tracking: is done by callbacks of Ray; --local ")):
        tracking.require(of, local=True)
        assert capsys.readouterr().err.partition("tells")[0] == said


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [("mlflow.uri", "https://me:HUSH@lab/x", "uri: write https://host/path or sqlite:///FILE"),
     ("mlflow.uri", "https://lab/x?token=HUSH", "uri: write https://host/path"),
     ("mlflow.uri", "postgresql://me:HUSH@lab/x", "uri: write https://host/path"),
     ("mlflow", "{uri: [HUSH]}", "mlflow.uri: must be a valid string"),
     ("mlflow.token", "HUSH", "mlflow.token: unknown key, allowed: uri, experiment"),
     ("wandb", "{project: x, api_key: HUSH}", "wandb.api_key: unknown key, allowed: project,"),
     ("wandb", "{mode: offline}", "wandb.project: required"),
     ("wandb", "{project: x, mode: off}", "wandb.mode: must be one of online, offline")],
)  # fmt: skip
def test_no_secret_has_a_place_in_a_study(
    tmp_path: Path, field: str, value: str, said: str
) -> None:
    with pytest.raises(StudyError) as raised:
        study(tmp_path, f"tracking.{field}={value}")
    assert said in str(raised.value) and "HUSH" not in str(raised.value)


def test_the_dashboard_is_on_the_loopback_or_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missing: list[ImportError | None] = [None]
    monkeypatch.setattr(dashboard, "get_dashboard_dependency_error", lambda: missing[0])
    assert dashboard.beside(False, "auto") == {}
    on = {"include_dashboard": True, "dashboard_host": "127.0.0.1"}
    assert dashboard.beside(True, "local") == on
    with pytest.raises(UserError, match=r"^--dashboard: is for a Ray that this command starts"):
        dashboard.beside(True, "10.0.0.1:6379")
    missing[0] = ImportError("no module")
    with pytest.raises(UserError, match=r"not installed: pip install 'ray\[default\]'$"):
        dashboard.beside(True, "local")
