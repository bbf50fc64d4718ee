"""A search that ended early is complete: for a run, for its status and for the analysis."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from ray.tune.search import Searcher

import initmem
from analysis import answer, phase_diagram, report, tables
from initmem.cli import main
from initmem.records.store import Store
from initmem.search.agenda import Agenda
from initmem.study.plan import arms
from initmem.study.spec import Study
from initmem.tune.searcher import AgendaSearcher, Refusals
from tests.analysis import make
from tests.tiny import study
from tests.tune.test_lookout import ROOM

DRAWS = 30


def early(folder: Path, *overrides: str) -> Study:
    """Of an arm, 30 draws of 4 replicas."""
    return study(folder, "search.sampler=frontier", f"search.draws={DRAWS}", "threshold=1",
                 "search.stop_when=band < 0.5", *overrides)  # fmt: skip


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A run folder with the rows of exactly the draws after which the search ends."""
    folder = tmp_path_factory.mktemp("ended")
    of = early(folder)
    summary = initmem.run(of, make.run(folder / "all", of), local=True)
    (draws,) = summary.ended.values()
    assert 17 <= draws < DRAWS
    assert (summary.planned, summary.done, summary.trained) == (4 * draws, 4 * draws, 0)
    assert tables.read(folder / "all").others == 4 * (DRAWS - draws), "left, and of no draw of it"
    run = make.run(folder / "run", of, rows=4 * draws)
    assert initmem.run(of, run, local=True).trained == 0
    return run, draws


def status(run: Path) -> list[str]:
    return CliRunner().invoke(main, ["status", str(run)]).output.splitlines()


def test_there_is_nothing_to_do(ended: tuple[Path, int], tmp_path: Path) -> None:
    run, draws = ended
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    early(tmp_path)
    words = ["run", str(tmp_path / "tiny.yaml"), "--run", str(run), "--local",
             *(f"--set={o}" for o in ("search.sampler=frontier", f"search.draws={DRAWS}",
                                      "threshold=1", "search.stop_when=band < 0.5"))]  # fmt: skip
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0
    assert result.output.splitlines()[:2] == [
        f"tiny: nothing to do, all {4 * draws} replicas are trained",
        f"search ended early (band < 0.5): after {draws} of at most {DRAWS} draws",
    ]
    assert {p: p.read_bytes() for p in run.rglob("*") if p.is_file()} == before


def test_status_and_analysis_count_it_as_complete(ended: tuple[Path, int]) -> None:
    run, draws = ended
    first, second, *_ = status(run)
    assert first == f"tiny: {4 * draws} of {4 * draws} replicas, {4 * draws} interpolated"
    assert second == f"search ended early (band < 0.5): after {draws} of at most {DRAWS} draws"
    read = tables.read(run)
    assert (read.planned, read.others, len(read.rows)) == (4 * draws, 0, 4 * draws)
    assert list(tables.states(read)["planned"]) == [4 * draws]
    said = answer.progress(read)
    assert said == (
        f"All {4 * draws} planned replicas are there. The search ended early, after {draws} of at "
        f"most {DRAWS} draws: the band of the frontier was narrow enough (band < 0.5)."
    )
    page = report.page(read, report.make(read, []), {}, report.views(read))
    assert ">search ends early when</td>" in page
    assert f"band &lt; 0.5 (after {draws} draws)" in page
    points, axes, surface = phase_diagram.table(read)
    assert set(surface["ended"]) == {"band < 0.5"}
    (band,) = surface["band"].unique()
    assert 0 < band < 0.6
    said = [text.get_text() for text in phase_diagram.draw(points, axes, surface).axes[0].texts]
    line = f"search ended early: band < 0.5 (here {band:.0%})"
    assert line in "\n".join(said).splitlines()


def test_what_a_reader_lacks_the_next_run_writes_anew(
    ended: tuple[Path, int], tmp_path: Path
) -> None:
    of, draws = early(tmp_path), ended[1]
    run = make.run(tmp_path / "run", of, rows=4 * draws)
    assert status(run)[0].startswith(f"tiny: {4 * draws} of {4 * DRAWS} replicas")
    (run / "ended.sealed").write_bytes(b"half of it")
    damaged = CliRunner().invoke(main, ["status", str(run)])
    assert damaged.exit_code == 0 and f"{4 * draws} of {4 * DRAWS} replicas" in damaged.stdout
    assert damaged.stderr == (f"{run}/ended.sealed: run: damaged; `initmem run` writes it anew\n")
    summary = initmem.run(of, run, local=True)
    assert (summary.done, summary.planned, summary.trained) == (4 * draws, 4 * draws, 0)
    assert status(run)[0].startswith(f"tiny: {4 * draws} of {4 * draws} replicas")


def test_tune_is_told_that_nothing_comes(ended: tuple[Path, int], tmp_path: Path) -> None:
    of, store = early(tmp_path), Store(ended[0])
    drawn = {(r["arm"], r["draw"]): {f: r[f] for f in of.ranges} for r in store.rows()}
    agenda, refusals = Agenda(of, store.cell, drawn), Refusals(ROOM.each, print)
    searcher = AgendaSearcher(agenda, store.address, tmp_path, ROOM, refusals)
    assert searcher.suggest("t1") == Searcher.FINISHED


def test_what_ended_one_search_does_not_end_another(tmp_path: Path) -> None:
    of, store = early(tmp_path), Store(tmp_path / "run")
    name = arms(of)[0].id
    store.keep_ended(of, {name: 20})
    assert store.ended(of) == {name: 20}
    assert store.ended(early(tmp_path, "question=Why?", "resources.cpus=2")) == {name: 20}
    for other in ("search.stop_when=band < 0.4", "search.draws=31", "seeds=3", "threshold=2"):
        assert store.ended(early(tmp_path, other)) == {}
    store.keep_ended(of, {})
    assert store.ended(of) == {}


def test_a_narrower_band_goes_on_and_a_wider_one_leaves_rows(
    ended: tuple[Path, int], tmp_path: Path
) -> None:
    draws = ended[1]
    run = make.run(tmp_path / "run", early(tmp_path), rows=4 * draws)
    tighter = early(tmp_path, "search.stop_when=band < 0.001", f"search.draws={draws + 1}")
    summary = initmem.run(tighter, run, local=True)
    assert (summary.trained, summary.planned, summary.ended) == (4, 4 * (draws + 1), {})
    summary = initmem.run(early(tmp_path), run, local=True)
    assert (summary.trained, summary.planned, summary.done) == (0, 4 * draws, 4 * draws)
    assert status(run)[2] == "4 more rows in the folder, of no replica of this study"


def test_a_search_that_may_end_early_is_planned_at_most(tmp_path: Path) -> None:
    early(tmp_path)
    path = tmp_path / "tiny.yaml"
    path.write_text(path.read_text().replace("draws: 3", "draws: 3, sampler: frontier, "
                                             "stop_when: band < 0.1"))  # fmt: skip
    said = CliRunner().invoke(main, ["plan", str(path)]).output
    assert "1 arm, at most 3 cells, 12 replicas, 3 blocks" in said
    assert "at most 360 steps in all" in said
    assert "search: an arm's ends early when band < 0.1" in said
