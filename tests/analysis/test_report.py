from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from analysis import answer, regularization, tables
from analysis.__main__ import main
from initmem.study import plan
from initmem.study.load import load
from tests.analysis import make


def analyse(folder: Path) -> Result:
    return CliRunner().invoke(main, [str(folder)])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    run = make.run(folder / "run", make.study(folder), make.some_lost)
    assert analyse(run).exit_code == 0
    return run


def test_files_and_what_is_printed(finished: Path) -> None:
    result = analyse(finished)
    said, where = result.output.splitlines()
    assert said.startswith("Memory is highest, ")
    assert where == f"report: {finished}/report/report.html"
    assert not result.stderr
    names = {p.relative_to(finished).as_posix() for p in (finished / "report").rglob("*.*")}
    figures = ("phase_diagram", "memory_against_regularization", "accuracy_by_scale")
    assert names == {
        f"report/{name}"
        for name in ("report.html", "cells.csv", "cells.parquet", "differences.csv")
    } | {f"report/figures/{name}.{suffix}" for name in figures for suffix in ("png", "pdf")}
    cells = pd.read_parquet(finished / "report" / "cells.parquet")
    pd.testing.assert_frame_equal(cells, tables.read(finished).cells)
    assert len(pd.read_csv(finished / "report" / "cells.csv")) == len(cells) == 6


def test_two_runs_on_the_same_rows_give_the_same_bytes(finished: Path, tmp_path: Path) -> None:
    files = sorted(p for p in (finished / "report").rglob("*") if p.is_file())
    before = {path: path.read_bytes() for path in files}
    command = [sys.executable, "-W", "error", "-m", "analysis", str(finished)]
    made = subprocess.run(command, capture_output=True, check=True, text=True)
    assert not made.stderr
    assert {path: path.read_bytes() for path in files} == before


def test_the_page_stands_alone(finished: Path) -> None:
    page = (finished / "report" / "report.html").read_text()
    assert "<script" not in page and "://" not in page and str(finished) not in page
    assert page.count('src="data:image/png;base64,') == 3
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    table = page.partition("<h2>Cells</h2>")[2].partition("</table>")[0]
    memories = re.findall(r"<tr><td>([\d.]+|-)</td><td>", table)
    values = [float(memory) for memory in memories if memory != "-"]
    assert values == sorted(values, reverse=True) and memories.index("-") == len(values)
    assert "All 48 planned replicas are there." in page
    assert "4 means over 2 seeds each" in page
    assert "norm.bias, norm.weight" in page
    assert "Probes took" not in page


def test_the_page_says_which_clock_and_which_cells(tmp_path: Path) -> None:
    made = make.study(tmp_path, make.STUDY, "search.draws=12", "seeds=4")
    folder = make.run(tmp_path / "run", made)
    done = CliRunner().invoke(main, [str(folder), "--clock", "lr*l2^2"])
    assert done.exit_code == 0
    page = (folder / "report" / "report.html").read_text()
    section = page.partition("<h2>Forgetting clocks</h2>")[2].partition("<h2>")[0]
    assert "Memory falls with T lr L2: left-out cells err by 0." in section
    assert " against T lr L2² 0." in section
    differences = page.partition("<h2>Differences between cells</h2>")[2].partition("<h2>")[0]
    assert differences.count("<tr><td>") == 12 and "54 more are in" in differences
    assert len(pd.read_csv(folder / "report" / "differences.csv")) == 66


def test_the_study_in_the_page_is_the_study(finished: Path, tmp_path: Path) -> None:
    page = (finished / "report" / "report.html").read_text()
    source = re.findall(r"<pre><code>(\{.*?)</code>", page, re.DOTALL)[0]
    (tmp_path / "made-up.yaml").write_text(html.unescape(source))
    assert load(tmp_path / "made-up.yaml") == tables.read(finished).study


def test_what_a_user_writes_is_escaped(tmp_path: Path) -> None:
    text = make.STUDY.replace("erase the memory?", "<script>alert(1)</script> & co?")
    strange = dict.fromkeys(("device", "version.torch"), "<script>2</script>")
    reading = {"step": 0, "probe": "rank", "quantity": "q", "where": "w", "value": 1.0}

    def change(replica: plan.Replica) -> dict[str, object]:
        return {**make.some_lost(replica), **strange, "untouched": ["<script>3</script>\u202e"],
                "readings": [reading], "run.probing": 0.9}  # fmt: skip

    folder = make.run(tmp_path / "run", make.study(tmp_path, text), change, rows=24)
    assert analyse(folder).exit_code == 0
    page = (folder / "report" / "report.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; co?" in page
    assert page.count("&lt;script&gt;2") == 2 and "&lt;script&gt;3" in page
    assert "RuntimeError: &lt;memory&gt;" in page
    assert "over all replicas. Probes took 20.0% of the training time.</p>" in page


def test_a_partial_run_says_how_much_is_there(tmp_path: Path) -> None:
    folder = make.run(tmp_path / "run", make.study(tmp_path), rows=21)
    result = analyse(folder)
    assert result.exit_code == 0
    progress = "21 of 48 planned replicas are there; the numbers are of those."
    assert progress in result.output.splitlines()
    assert progress in (folder / "report" / "report.html").read_text()


def test_rows_made_by_different_software_are_pointed_out(tmp_path: Path) -> None:
    def change(replica: plan.Replica) -> dict[str, object]:
        return {"version.torch": f"2.{14 + replica.seed}.0"}

    folder = make.run(tmp_path / "run", make.study(tmp_path), change, rows=8)
    analyse(folder)
    page = (folder / "report" / "report.html").read_text()
    assert "The rows were not all made alike: version.torch differ" in page


def test_a_third_range_is_named_in_the_caption(tmp_path: Path) -> None:
    more = "  optim.weight_decay: {low: 0, high: 1}\nseeds:"
    study = make.study(tmp_path, make.STUDY.replace("seeds:", more))
    folder = make.run(tmp_path / "run", study, rows=16)
    analyse(folder)
    page = (folder / "report" / "report.html").read_text()
    assert "Also searched, and not drawn: optim.weight_decay." in page


def points(memories: dict[int, float]) -> make.Change:
    """Draw -> memory: accuracy 90 at the smallest scale, less by that much at the others."""

    def change(replica: plan.Replica) -> dict[str, object]:
        less = memories[replica.draw] if replica.recipe.init.scale > 0.25 else 0.0
        return {"selected.test_accuracy": 90.0 - less}

    return change


def sentence(folder: Path, change: make.Change, *overrides: str) -> str:
    run = tables.read(make.run(folder / "run", make.study(folder, make.STUDY, *overrides), change))
    return answer.sentence(run, regularization.table(run)[1])


def test_the_sentence_has_the_numbers_of_the_data(tmp_path: Path) -> None:
    change = points({0: 16.8, 1: 4.0, 2: 1.04})
    assert sentence(tmp_path, change, "search.draws=3") == (
        "Memory is highest, 16.8 points (95% 15.9 to 17.7), at lr 0.01, L2 1e-4, "
        "and lowest, 1.0 points (95% 0.1 to 2.0), at lr 0.0153, L2 8.91e-3: "
        "of 3 cells 2 remember, 1 is erased."
    )


def test_the_sentence_states_a_correlation_from_five_cells_on(tmp_path: Path) -> None:
    said = sentence(tmp_path, points({0: 9, 1: 8, 2: 5, 3: 1, 4: 7}), "search.draws=5")
    interval = r"\(95% -1\.00 to -?\d\.\d\d, n = 5 cells\)"
    assert re.search(rf"; its rank correlation with lr x L2 is -0\.\d\d {interval}\.$", said)


def test_the_sentence_says_when_a_memory_is_over_part_of_the_axis(tmp_path: Path) -> None:
    def change(replica: plan.Replica) -> dict[str, object]:
        return (
            make.lost("diverged") if replica.recipe.init.scale == 3 else points({0: 2.0})(replica)
        )

    assert sentence(tmp_path, change, "search.draws=1") == (
        "Memory is 2.0 points (95% 0.0 to 5.4), at lr 0.01, L2 1e-4 "
        "(over 3 of 4 values of init.scale): the cell is undecided."
    )


def test_the_sentence_of_a_run_without_memory(tmp_path: Path) -> None:
    said = sentence(tmp_path, lambda r: make.lost("undertrained"), "search.draws=1")
    assert said == ("No cell has a memory: too few of its replicas are trained (8 undertrained).")


def test_errors_are_one_line_and_a_status(tmp_path: Path) -> None:
    study = make.study(tmp_path)
    empty = make.run(tmp_path / "empty", study, rows=0)
    failed = make.run(tmp_path / "failed", study, lambda r: make.lost("failed"), rows=4)
    blocked = make.run(tmp_path / "blocked", study, rows=8)
    (blocked / "report").write_text("a file where the folder should be")
    for folder, says in {
        tmp_path / "nowhere": "holds no study.sealed, so it is no run",
        empty: "the run has no rows yet",
        failed: "no row has a test accuracy to draw",
        blocked: "cannot be written",
    }.items():
        result = analyse(folder)
        assert result.exit_code == 2 and not result.stdout
        assert len(result.stderr.splitlines()) == 1 and says in result.stderr


def test_help_gives_an_example() -> None:
    assert "python -m analysis runs/digits" in CliRunner().invoke(main, ["--help"]).output


def test_analysis_loads_no_training_room() -> None:
    code = "import sys, analysis.__main__; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    never = {"torch", "ray", "optuna", "initmem.training", "initmem.tune", "matplotlib.pyplot"}
    assert not never & set(loaded.split())
