"""A study that was edited: what adds goes on, what contradicts finished rows is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import initmem
from initmem.study.spec import UserError
from tests.tiny import study


def test_more_seeds_draws_and_scales_add_rows_and_keep_the_old(tmp_path: Path) -> None:
    run = tmp_path / "run"
    initmem.run(study(tmp_path), run, local=True)
    old = initmem.rows(run)
    more = study(tmp_path, "seeds=3", "search.draws=4", "axes.init.scale=[0.5, 1, 2]")
    assert initmem.run(more, run, local=True).trained == 4 * 3 * 3 - 12
    new = initmem.rows(run)
    kept = new[new["replica"].isin(old["replica"])].set_index("replica")
    assert kept.loc[old["replica"]].reset_index()[list(old)].equals(old)


def test_a_changed_study_is_refused_before_anything_starts(tmp_path: Path) -> None:
    run = tmp_path / "run"
    initmem.run(study(tmp_path), run, local=True)
    with pytest.raises(UserError) as caught:
        initmem.run(study(tmp_path, "optim.batch=30", "ranges.optim.lr.high=0.2"), run, local=True)
    said = str(caught.value)
    assert "recipe.optim.batch: 20 -> 30" in said and "another folder with --run" in said
    assert "ranges.optim.lr" in said and initmem.load_study(tmp_path / "tiny.yaml")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("axes.init.scale=[1, 3]", "axes.init.scale: [1, 2] -> [1, 3]"),
        ("search.seed=1", "search.seed: 0 -> 1"),
        ("search.lag=2", "search.lag: 1 -> 2"),
        ("resources.cpus=2", "resources.cpus: 1 -> 2"),
        ("resources.device=auto", "resources.device: cpu -> auto"),
        ("resources.deterministic=true", "resources.deterministic: False -> True"),
        ("data.train=50", "recipe.data.train: 60 -> 50"),
    ],
)
def test_each_change_that_contradicts_rows_is_refused(
    tmp_path: Path, change: str, said: str
) -> None:
    run = tmp_path / "run"
    initmem.run(study(tmp_path, "search.draws=1"), run, local=True)
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    with pytest.raises(UserError) as caught:
        initmem.run(study(tmp_path, "search.draws=1", change), run, local=True)
    assert said in str(caught.value)
    assert {p: p.read_bytes() for p in run.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize(
    "change",
    ["question=Why?", "resources.replicas=1", "resources.checkpoint_every=9",
     "resources.retries=0", "resources.keep_checkpoints=true", "seeds=1"],
)  # fmt: skip
def test_each_change_that_only_adds_goes_on(tmp_path: Path, change: str) -> None:
    run = tmp_path / "run"
    initmem.run(study(tmp_path, "search.draws=1"), run, local=True)
    assert initmem.run(study(tmp_path, "search.draws=2", change), run, local=True).trained in (
        2,
        4,
    )
