"""The command line: what it prints, and that it never shows a traceback."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from initmem.cli import main
from tests.tiny import study


def call(*words: object) -> Result:
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    study(tmp_path)
    return tmp_path / "tiny.yaml"


@pytest.fixture
def run(tmp_path: Path, tiny: Path) -> Path:
    assert call("run", tiny, "--run", tmp_path / "run", "--local").exit_code == 0
    return tmp_path / "run"


def test_every_verb_has_help_with_an_example() -> None:
    assert set(main.commands) == {"validate", "plan", "run", "status", "export", "rerun", "fetch"}
    for verb in main.commands:
        assert f"Example: initmem {verb}" in call(verb, "--help").output


def test_validate_says_the_size_or_every_fault(tiny: Path, tmp_path: Path) -> None:
    good = call("validate", tiny, "studies/digits.yaml")
    assert good.exit_code == 0 and "1 arm, 3 cells, 12 replicas, 3 blocks" in good.output
    bad = tmp_path / "bad.yaml"
    bad.write_text(tiny.read_text().replace("width", "widht").replace("seeds: 2", "seeds: 0"))
    faults = call("validate", tiny, bad)
    assert faults.exit_code == 2 and "tiny.yaml: 1 arm" in faults.stdout
    assert len(faults.stderr.splitlines()) == 2
    for line in faults.stderr.splitlines():
        assert re.match(rf"{bad}:\d+: (model\.widht|seeds): ", line)


def test_plan_estimates_without_torch_or_ray(tiny: Path) -> None:
    said = call("plan", tiny, "--set", "search.draws=5").output
    assert "5 cells, 20 replicas" in said and "axis init.scale: 1, 2 (memory axis)" in said
    assert "600 steps in all, networks of up to 1,184 parameters" in said and "checkpoints" in said
    hint = "engine loop trains the networks of a block one after the other; --set resources.engine"
    assert hint in said
    assert "probes" not in said
    probed = call("plan", tiny, "--set", "probes.rank=true", "--set", "probes.groups=true").output
    told = "probes rank, groups: read at up to 4 steps of a replica, about 36 readings\n"
    assert told in probed
    for no_gain in ("resources.engine=auto", "resources.replicas=1", "model.width=100000"):
        assert hint not in call("plan", tiny, "--set", no_gain).output
    code = "import sys; from initmem.cli import main; main(standalone_mode=False); " \
           "assert not {'torch', 'ray', 'optuna'} & set(sys.modules)"  # fmt: skip
    subprocess.run(
        [sys.executable, "-c", code, "plan", str(tiny)], check=True, capture_output=True
    )


def test_run_status_export_rerun(run: Path, tiny: Path) -> None:
    again = call("run", tiny, "--run", run)
    assert again.exit_code == 0 and "nothing to do, all 12 replicas are trained" in again.output
    status = call("status", run)
    assert "tiny: 12 of 12 replicas" in status.output and "not running" in status.output
    exported = call("export", run)
    assert exported.output.split() == [str(run / "rows.parquet"), str(run / "rows.csv")]
    replica = next((run / "records").glob("*.sealed")).stem
    assert "the same row, bit for bit" in call("rerun", run, replica).output


def test_set_changes_a_field_and_is_checked(tiny: Path, tmp_path: Path) -> None:
    done = call("run", tiny, "--run", tmp_path / "r", "--local", "--set", "search.draws=1",
                "--set", "optim.steps=10")  # fmt: skip
    assert done.exit_code == 0 and "4 of 4 replicas" in done.output
    wrong = call("run", tiny, "--set", "optim.steps=-3")
    assert wrong.exit_code == 2 and wrong.stderr.startswith("--set: optim.steps: ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["status", "nowhere"], "holds no study.sealed, so it is no run"),
        (["export", "nowhere"], "holds no study.sealed, so it is no run"),
        (["rerun", "nowhere", "abc"], "holds no study.sealed, so it is no run"),
        (["run", "nowhere.yaml"], "nowhere.yaml: study: cannot be read: No such file"),
        (["run", "studies/digits.yaml", "--local", "--dashboard"], "--local starts no Ray"),
        (["fetch", "cifar"], "unknown data set 'cifar', allowed: digits, .*did you mean"),
    ],
)
def test_what_a_user_can_mend_is_one_line(words: list[str], said: str) -> None:
    result = call(*words)
    assert result.exit_code == 2 and len(result.stderr.splitlines()) == 1
    assert re.search(said, result.stderr)


def test_export_of_a_run_without_rows(tmp_path: Path, tiny: Path) -> None:
    from initmem.records.store import Store

    Store(tmp_path / "empty").create(study(tmp_path))
    result = call("export", tmp_path / "empty")
    assert result.exit_code == 2 and result.stderr.endswith("run: has no rows yet\n")


def test_failed_replicas_make_the_status_1(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from initmem.training.replica import Training

    def broken(self: Training) -> None:
        raise ZeroDivisionError("no")

    monkeypatch.setattr(Training, "update", broken)
    result = call("run", tiny, "--run", tmp_path / "r", "--local")
    assert result.exit_code == 1 and "12 failed" in result.output


def test_fetch_of_what_needs_no_files() -> None:
    assert "nothing to fetch" in call("fetch", "digits").output


def test_interrupted_runs_say_how_to_go_on(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from initmem.training.replica import Training

    update = Training.update

    def interrupted(self: Training) -> None:
        if self.seed == 1:
            raise KeyboardInterrupt
        update(self)

    monkeypatch.setattr(Training, "update", interrupted)
    result = call("run", tiny, "--run", tmp_path / "r", "--local")
    assert result.exit_code == 130 and "stopped by SIGINT; to go on: initmem" in result.stderr
    monkeypatch.undo()
    assert "11 trained" in call("run", tiny, "--run", tmp_path / "r", "--local").output
