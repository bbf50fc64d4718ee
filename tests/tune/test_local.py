"""A run in this process: its rows, its errors, and what it does a second time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch

import initmem
from initmem.study.spec import UserError
from initmem.training.replica import Training
from initmem.tune.process import arithmetic
from initmem.tune.rerun import rerun
from tests.tiny import study
from tests.tune.driving import comparable
from tests.tune.grid import DIGITS, GRID, SGD, trained


def test_a_row_says_all_there_is_to_know(tmp_path: Path) -> None:
    of = study(tmp_path)
    initmem.run(of, tmp_path / "run", local=True)
    rows = initmem.rows(tmp_path / "run")
    assert len(rows) == 12 and rows["replica"].is_unique
    known = [c for c in rows if rows[c].notna().all()]
    for column in ("study", "arm", "cell", "draw", "optim.lr", "data.split", "state", "threads",
                   "device", "version.torch", "data_hash", "parameters"):  # fmt: skip
        assert column in known, column
    one = rows.iloc[-1]
    assert [d["tensor"] for d in one["audit"]] == ["stem.weight", "head.weight"]
    assert one["audit"][0]["asked_std"] == pytest.approx(2 * (2 / 64) ** 0.5)
    assert not list((tmp_path / "run").glob("checkpoints/*"))


def test_a_finished_study_starts_nothing(tmp_path: Path) -> None:
    of = study(tmp_path)
    initmem.run(of, tmp_path / "run", local=True)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*")}
    summary = initmem.run(of, tmp_path / "run")
    assert (summary.done, summary.trained) == (12, 0) and summary.seconds < 5
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*")} == before


def test_a_process_gets_its_own_arithmetic_back(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    initmem.run(study(tmp_path, f"resources.cpus={threads + 1}"), tmp_path / "run", local=True)
    with arithmetic(threads + 1, deterministic=True):
        assert torch.are_deterministic_algorithms_enabled() and not torch.backends.cudnn.benchmark
        assert torch.backends.cudnn.conv.fp32_precision == "ieee"
        assert torch.backends.cuda.matmul.fp32_precision == "ieee"
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
        assert torch.get_num_threads() == threads + 1
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.tensor(1e-310, dtype=torch.float64).mul(1).item() > 0, "denormals are kept"


def test_a_diverged_replica_is_a_row_and_the_rest_goes_on(tmp_path: Path) -> None:
    of = study(tmp_path, "axes.init.scale=[1, 1e30]")
    summary = initmem.run(of, tmp_path / "run", local=True)
    rows = initmem.rows(tmp_path / "run")
    assert summary.done == 12 and set(rows[rows["init.scale"] > 1]["state"]) == {"diverged"}
    assert rows[rows["init.scale"] == 1]["diverged_step"].isna().all()
    assert rows[rows["init.scale"] > 1]["diverged_step"].notna().all()


def test_an_error_in_one_replica_is_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = Training.update

    def broken(self: Training) -> None:
        if self.recipe.init.scale == 2 and self.seed == 1 and self.step == 5:
            raise ZeroDivisionError("first line\nsecond line")
        update(self)

    monkeypatch.setattr(Training, "update", broken)
    summary = initmem.run(study(tmp_path), tmp_path / "run", local=True)
    rows = initmem.rows(tmp_path / "run")
    assert summary.states["failed"] == 3 and len(rows) == 12
    assert set(rows[rows["state"] == "failed"]["error"]) == {"ZeroDivisionError: first line"}


def test_a_lost_gpu_ends_the_run_and_is_nobodys_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = Training.update

    def broken(self: Training) -> None:
        if self.seed == 1 and self.step == 5:
            raise torch.AcceleratorError("CUDA error: unspecified launch failure\nsecond line")
        update(self)

    monkeypatch.setattr(Training, "update", broken)
    with pytest.raises(UserError, match=r"lost its GPU \(CUDA error: .* failure\); .*goes on"):
        initmem.run(study(tmp_path), tmp_path / "run", local=True)
    assert list(initmem.rows(tmp_path / "run")["state"]) == ["undertrained"]
    monkeypatch.undo()
    assert initmem.run(study(tmp_path), tmp_path / "run", local=True).trained == 11


@pytest.mark.parametrize(
    ("data", "model"),
    [(DIGITS, "{name: resnet9, width: 4}"),
     ("{name: modular, p: 7}", "{name: transformer, width: 8, heads: 2}")],
)  # fmt: skip
def test_deterministic_changes_nothing_on_a_cpu(tmp_path: Path, data: str, model: str) -> None:
    text = GRID.format(data=data, model=model, optim=SGD, rule="kaiming")
    for name, value in (("yes", "true"), ("no", "false")):
        of = study(tmp_path, f"resources.deterministic={value}", text=text)
        initmem.run(of, tmp_path / name, local=True)
    assert comparable(tmp_path / "yes").equals(comparable(tmp_path / "no"))
    assert comparable(tmp_path / "yes")["deterministic"].all()


def test_missing_data_is_said_before_anything_starts(tmp_path: Path) -> None:
    text = GRID.format(data="{name: cifar10}", model="{name: resnet9}", optim=SGD, rule="kaiming")
    of = study(tmp_path, text=text)
    with pytest.raises(UserError, match=r"missing, expected md5 .*(?s:.)*initmem fetch cifar10"):
        initmem.run(of, tmp_path / "run", data=tmp_path / "empty")
    assert not (tmp_path / "run").exists()


def test_gpus_that_are_not_there_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    for field in ("resources.gpus=0.25", "resources.device=cuda"):
        with pytest.raises(UserError, match=r"asks for .*no GPU.*device: auto"):
            initmem.run(study(tmp_path, field), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    auto = study(tmp_path, "resources.device=auto", "resources.gpus=0.25", "search.draws=1")
    initmem.run(auto, tmp_path / "run", local=True)
    assert set(initmem.rows(tmp_path / "run")["device"]) == {"cpu"}


def test_failed_replicas_are_trained_again_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    initmem.run(study(tmp_path), tmp_path / "whole", local=True)
    update = Training.update

    def broken(self: Training) -> None:
        if self.seed == 1:
            raise MemoryError("no room")
        update(self)

    run = tmp_path / "run"
    monkeypatch.setattr(Training, "update", broken)
    assert initmem.run(study(tmp_path), run, local=True).states["failed"] == 6
    monkeypatch.undo()
    assert initmem.run(study(tmp_path), run, local=True).trained == 0
    assert initmem.run(study(tmp_path), run, local=True, retry_failed=True).trained == 6
    assert comparable(run).equals(comparable(tmp_path / "whole"))


def test_rerun_gives_the_same_row_and_notices_another(tmp_path: Path) -> None:
    from initmem.records.store import Store

    run = tmp_path / "run"
    initmem.run(study(tmp_path, "search.draws=1"), run, local=True)
    store = Store(run)
    row = store.rows()[1]
    assert rerun(run, row["replica"], "data") == {}
    store.put({**row, "final.test_loss": 0.5})
    assert list(rerun(run, row["replica"], "data")) == ["final.test_loss"]
    with pytest.raises(UserError, match="no such replica"):
        rerun(run, "0" * 12, "data")


@pytest.mark.parametrize("p", [7, 17])
def test_rows_of_full_batches_are_read_back_as_such(tmp_path: Path, p: int) -> None:
    """Of 24 examples, fewer than a batch by default, and of 144, more."""
    data, optim = f"{{name: modular, p: {p}}}", "{name: adamw, lr: 0.01, batch: null, steps: 12}"
    rows = trained(tmp_path, data, "{name: transformer, width: 8}", optim)
    assert all(pd.isna(row["optim.batch"]) for row in rows)
    again = study(tmp_path, text=(tmp_path / "grid.yaml").read_text(), name="grid")
    assert initmem.run(again, tmp_path / "run", local=True).trained == 0
    assert rerun(tmp_path / "run", str(rows[0]["replica"]), "data") == {}


def test_local_runs_need_no_ray(tmp_path: Path) -> None:
    study(tmp_path, "search.draws=1")
    code = (
        "import sys, initmem; "
        f"initmem.run(initmem.load_study({str(tmp_path / 'tiny.yaml')!r}), "
        f"{str(tmp_path / 'run')!r}, local=True); "
        "assert not {'ray', 'analysis'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_checkpoint_of_another_replica_is_set_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, of = (
        tmp_path / "run",
        study(tmp_path, "search.draws=1", "resources.keep_checkpoints=true"),
    )
    initmem.run(of, run, local=True)
    whole = comparable(run)
    one, two = sorted((run / "checkpoints").iterdir())[:2]
    shutil.copy(one / "0000000028.sealed", two)
    (run / "records" / f"{two.name}.sealed").unlink()
    initmem.run(of, run, local=True)
    assert "0000000028.sealed: checkpoint: of another replica," in capsys.readouterr().err
    assert comparable(run).equals(whole)
