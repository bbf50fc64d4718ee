"""GPU hours and their price, from rates: of a pilot run's rows, or of a block tried here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import initmem
from initmem import price
from initmem.cli import main
from initmem.records.store import Store
from initmem.study.load import load
from initmem.study.spec import UserError
from initmem.tune import fit
from tests.tiny import TINY, study

GPU = "NVIDIA H200"


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("cpu")
    initmem.run(study(folder, "search.draws=1"), folder / "run", local=True)
    return Store(folder / "run").rows()


def pilot(folder: Path, rows: list[dict[str, Any]], *changes: dict[str, Any]) -> Path:
    """A run whose rows say that they were trained on a GPU, with these changes."""
    store = Store(folder / "pilot")
    store.create(study(folder))
    for row, change in zip(rows, changes, strict=False):
        store.put(row | {"device": GPU, "steps": 30} | change)
    return folder / "pilot"


def plan(path: Path, *words: object) -> Result:
    return CliRunner().invoke(main, ["plan", str(path), *map(str, words)])


def test_hours_and_price_from_a_pilot_run(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    """30 steps in 3 h of a whole GPU, in 6 h of half of one, in 12 h of a quarter: 0.1 h a step.
    The fourth is left out, for it failed. The study has 12 networks of 30 steps."""
    took = [{"run.seconds": 3600.0 * 3 / gpus, "run.gpus": gpus} for gpus in (1.0, 0.5, 0.25)]
    took[0]["run.gpus"] = None  # type: ignore[typeddict-item,assignment]  # of a row that does not say
    run = pilot(tmp_path, rows, *took, {"run.seconds": 1e9, "state": "failed"})
    said = plan(tmp_path / "tiny.yaml", "--like", run, "--price", 2.5).output.splitlines()[-1]
    assert said == (
        f"GPU: 36.0 hours, at 2.5 each 90.0; as in 3 networks of {run} on {GPU}, 5th to 95th "
        "percentile; start-up not counted"
    )
    assert "at 2.5" not in plan(tmp_path / "tiny.yaml", "--like", run).output
    early = ["--set", "search={sampler: frontier, draws: 3, stop_when: band < 0.1}"]
    assert "GPU: at most 36.0 hours;" in plan(tmp_path / "tiny.yaml", *early, "--like", run).output


def test_rows_that_differ_give_a_range(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    """Linear percentiles of 1, 2, 3, 4 hours for 30 steps: 2.5 (1.15 to 3.85), times 12."""
    took = [{"run.seconds": 3600.0 * hours, "run.gpus": 1.0} for hours in (4, 2, 1, 3)]
    run = pilot(tmp_path, rows, *took)
    said = plan(tmp_path / "tiny.yaml", "--like", run, "--price", 10).output
    assert "GPU: 30.0 (13.8 to 46.2) hours, at 10 each 300.0 (138.0 to 462.0); as in 4 net" in said


@pytest.mark.parametrize(
    ("change", "hours", "alone"),
    [("optim.steps=300", "360.0", False), ("init.rule=lecun", "36.0", False),
     ("resources.engine=auto", "36.0", False), ("resources.engine=batched", "36.0", True),
     ("optim.batch=30", "36.0", True), ("data.train=80", "36.0", True),
     ("optim.name=adam", "36.0", True)],
)  # fmt: skip
def test_what_a_network_is_taken_to_be_like(
    tmp_path: Path, rows: list[dict[str, Any]], change: str, hours: str, alone: bool
) -> None:
    run = pilot(tmp_path, rows, {"run.seconds": 3600.0 * 3, "run.gpus": 1.0})
    said = plan(tmp_path / "tiny.yaml", "--set", change, "--like", run).output
    with_the_same = " with the same model alone" * alone
    assert f"GPU: {hours} hours; as in 1 network{with_the_same} of {run}" in said


def test_what_was_not_measured_is_not_told(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    run = pilot(tmp_path, rows, {"run.seconds": 1.0})
    other = load(tmp_path / "tiny.yaml", ["model.width=32"])
    with pytest.raises(UserError, match="--like: no network with model mlp of these fields"):
        list(price.lines(other, 1.0, str(run), Path("data")))
    store = Store(run)
    store.put(store.rows()[0] | {"device": "cpu"})
    with pytest.raises(UserError, match="--like: no network of it was trained on a GPU"):
        price.Pilot(str(run), "loop")
    alone = plan(tmp_path / "tiny.yaml", "--price", 2.5)
    assert alone.exit_code == 2 and "12 replicas" in alone.stdout
    assert alone.stderr.startswith("--price: needs a measured rate: name a pilot run")
    assert len(alone.stderr.splitlines()) == 1


def test_blocks_that_fit_and_their_share() -> None:
    """With a tenth of the memory left free; and k shares are never more than a GPU."""
    assert [fit.fitting(n * 10**9, 80 * 10**9) for n in (1, 10, 36, 40, 73)] == [72, 7, 2, 1, 0]
    assert fit.fitting(10**6, 80 * 10**9) == 99
    assert [fit.share(k) for k in (1, 2, 3, 4, 7)] == ["1", "0.5", "0.3333", "0.25", "0.1428"]
    for k in range(1, 100):
        assert k * float(fit.share(k)) <= 1 and round(1 / float(fit.share(k))) == k


def test_a_machine_with_a_gpu_says_how_many_blocks_to_put_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = study(tmp_path)
    found = fit.Fit(GPU, 80 * 10**9, 9 * 10**9, 10**9, networks=4, seconds=360.0)
    monkeypatch.setattr(price, "_has_gpu", lambda: True)
    monkeypatch.setattr(fit, "measure", lambda study, data: found)
    assert plan(tmp_path / "tiny.yaml").output.find(GPU) < 0, "the study asks for no GPU"
    for asks in ("resources.gpus=1", "resources.device=cuda", "resources.device=auto"):
        said = plan(tmp_path / "tiny.yaml", "--set", asks, "--price", 2).output.splitlines()[-2:]
        assert said == [
            f"{GPU}: a block of 4 networks needs 10.0 of 80.0 GB (9.0 for torch, 1.0 for CUDA and "
            "all else on this GPU); with 10% left free 7 fit: --set resources.gpus=0.1428; "
            "3.6e+05 ms a network-step",
            "GPU: 36.0 hours, at 2 each 72.0; as the first block, measured here, one block at a "
            "time; several at once take less",
        ]
    large = fit.Fit(GPU, 80 * 10**9, 79 * 10**9, 0, networks=4, seconds=1.0)
    assert "none fits: lower optim.batch" in large.told
    assert of.resources.gpus == 0


def test_a_gpu_that_cannot_be_tried_ends_no_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver is there, but torch has no GPU: one study insists on it, one does not."""
    study(tmp_path)
    monkeypatch.setattr(price, "_has_gpu", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setattr(fit, "ROUNDS", 1)
    insists, takes = (
        plan(tmp_path / "tiny.yaml", "--set", f"resources.device={device}", "--price", 1)
        for device in ("cuda", "auto")
    )
    assert "GPU: not measured: tiny: resources: asks for device: cuda, but" in insists.stdout
    assert "no GPU that torch can use; " in takes.stdout and "hours" not in takes.stdout
    for said in (insists, takes):
        assert said.exit_code == 2 and said.stderr.startswith("--price: needs a measured rate")


@pytest.mark.parametrize("engine", ["loop", "batched", "auto"])
def test_a_block_is_tried_by_its_engine(tmp_path: Path, engine: str) -> None:
    """On a CPU, which holds no memory of a GPU; networks of two shapes make two teams."""
    text = TINY.replace(", width: 16}", "}").replace("init.scale: [1, 2]", "model.width: [8, 16]")
    of = study(
        tmp_path,
        "memory_axis=model.width",
        f"resources.engine={engine}",
        "probes.rank=true",
        text=text,
    )
    tried: list[str] = []
    real = fit._of_team
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "ROUNDS", 1)
        patch.setattr(
            fit, "timed", lambda study, teams, data, place: dict.fromkeys(teams, "batched")
        )

        def noted(engine: str, team: Any, *where: Any) -> float:
            tried.append(f"{engine} {len(team)}")
            return real(engine, team, *where)

        patch.setattr(fit, "_of_team", noted)
        found = fit.measure(of, Path("data"))
    assert tried == (["loop 1"] if engine == "loop" else ["batched 2"]) * 2
    assert (found.gpu, found.total, found.held, found.networks) == ("cpu", 0, 0, 4)
    assert found.seconds > 0
