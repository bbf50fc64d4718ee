from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis import accuracy_by_scale, phase_diagram, regularization, tables
from initmem.study import plan
from initmem.study.spec import UserError
from tests.analysis import make

ACCURACY = {0.25: (90.0, 92.0), 1.0: (95.0, 97.0), 2.0: (80.0, 84.0), 3.0: (70.0, 71.0)}


def exact(replica: plan.Replica) -> dict[str, object]:
    """Means 91, 96, 82, 70.5 in every cell, whatever the draw."""
    accuracy = ACCURACY[replica.recipe.init.scale][replica.seed]
    return {"selected.test_accuracy": accuracy, "final.test_accuracy": accuracy / 2}


def test_memory_is_the_largest_mean_minus_the_smallest(tmp_path: Path) -> None:
    study = make.study(tmp_path, make.STUDY, "search.draws=1")
    run = tables.read(make.run(tmp_path / "run", study, exact))
    cell = run.cells.iloc[0]
    assert (cell["memory"], cell["memory_final"]) == pytest.approx((25.5, 12.75))
    assert (cell["highest_at"], cell["lowest_at"]) == (1.0, 3.0)
    assert cell["mean"] == pytest.approx(84.875)
    assert cell["lr_x_l2"] == cell["optim.lr"] * cell["optim.l2"]
    assert (run.planned, len(run.rows), run.others, cell["missing"]) == (8, 8, 0, 0)


def test_lost_replicas_are_out_of_the_memory_and_counted(tmp_path: Path) -> None:
    def change(replica: plan.Replica) -> dict[str, object]:
        if (replica.recipe.init.scale, replica.seed) == (3.0, 0):
            return make.lost("undertrained")
        if (replica.recipe.init.scale, replica.seed) == (1.0, 1):
            return make.lost("failed")
        if replica.draw == 1 and replica.recipe.init.scale > 0.25:
            return make.lost("diverged")
        return exact(replica)

    study = make.study(tmp_path, make.STUDY, "search.draws=2")
    run = tables.read(make.run(tmp_path / "run", study, change))
    first, second = run.cells["memory"]
    seed = ((92 - 90) + (84 - 80)) / 2  # how much better the second seed is, where both are
    assert first == pytest.approx((95 + seed / 2) - (71 - seed / 2))
    assert np.isnan(second)
    (line,) = tables.states(run).to_dict("records")
    assert line == {
        "arm": "",
        "interpolated": 8,
        "plateaued": 0,
        "undertrained": 2,
        "diverged": 4,
        "failed": 2,
        "there": 16,
        "planned": 16,
        "excluded": 10,  # 8 in another state, 2 of the cell without a memory
    }
    assert tables.errors(run.rows).to_dict("records") == [
        {"error": "RuntimeError: <memory>", "replicas": 2}
    ]
    points, _ = regularization.table(run)
    assert points.empty  # one cell is no relation


def test_a_cell_without_all_its_values_has_no_memory_yet(tmp_path: Path) -> None:
    study = make.study(tmp_path)
    run = tables.read(make.run(tmp_path / "run", study, rows=8 + 6 + 0))
    assert list(run.cells["memory"].isna()) == [False, True]
    assert list(run.cells["missing"]) == [0, 2]
    assert (len(run.rows), run.planned) == (14, 48)


def test_rows_that_the_study_does_not_ask_for_are_left_out(tmp_path: Path) -> None:
    made = make.study(tmp_path, make.STUDY, "search.draws=2")
    make.run(tmp_path / "run", made)
    fewer = make.study(tmp_path, make.STUDY, "search.draws=2", "seeds=1")
    run = tables.read(make.run(tmp_path / "run", fewer, rows=0))
    assert (len(run.rows), run.planned, run.others) == (8, 8, 8)


def test_arms_keep_the_order_of_the_study(tmp_path: Path) -> None:
    text = make.STUDY.replace("axes:", "axes:\n  optim.batch: [50, 10, 25]")
    study = make.study(tmp_path, text.replace(" batch: 50,", ""), "search.draws=1")
    run = tables.read(make.run(tmp_path / "run", study))
    assert list(run.cells["optim.batch"]) == [50, 10, 25]
    states = tables.states(run)
    labels = ["optim.batch 50", "optim.batch 10", "optim.batch 25"]
    assert list(states["arm"]) == [*labels, "all"]
    assert list(states["there"]) == [8, 8, 8, 24]
    points, axes, _ = phase_diagram.table(run)
    assert list(points["panel"]) == labels
    assert list(axes["field"]) == ["optim.lr", "optim.l2"]


def test_a_label_names_only_what_the_arm_has(tmp_path: Path) -> None:
    axes = "axes:\n  optim.name: [sgd, momentum]\n  optim.momentum: [0.5, 0.9]"
    text = make.STUDY.replace("axes:", axes).replace("name: sgd, ", "")
    run = tables.read(make.run(tmp_path / "run", make.study(tmp_path, text), rows=8))
    assert list(run.arms.values()) == [
        "optim.name sgd",
        "optim.name momentum, optim.momentum 0.5",
        "optim.name momentum, optim.momentum 0.9",
    ]
    assert (len(run.rows), run.planned) == (8, 3 * 48)


def test_listed_numbers_are_the_axes_where_nothing_is_searched(tmp_path: Path) -> None:
    head = make.STUDY.partition("ranges:")[0]
    listed = "axes:\n  optim.l2: [0, 1e-3, 1e-1]\n  model.norm: [batch, none]"
    text = head.replace("axes:", listed).replace("epochs: 100", "epochs: 100, lr: 0.1")
    run = tables.read(make.run(tmp_path / "run", make.study(tmp_path, text)))
    assert run.axes.iloc[0][["field", "low", "high", "log"]].to_list() == [
        "optim.l2", 1e-3, 1e-1, True,
    ]  # fmt: skip
    assert 0 < run.axes["zero"].iloc[0] < 1e-3
    assert list(dict.fromkeys(run.panels.values())) == ["model.norm batch", "model.norm none"]
    assert run.cells["optim.l2"].iloc[0] == 0


def test_audit_finds_the_tensor_that_is_furthest_off(tmp_path: Path) -> None:
    def change(replica: plan.Replica) -> dict[str, object]:
        scale, off = replica.recipe.init.scale, 1.5 if replica.seed else 1.0
        tensor = {"group": "body", "count": 50, "asked_std": scale}
        return {
            "audit": [
                {"tensor": "a", **tensor, "measured_std": scale * 0.9},
                {"tensor": "b", **tensor, "measured_std": scale * off},
            ]
        }

    study = make.study(tmp_path, make.STUDY, "search.draws=1")
    found = tables.audit(tables.read(make.run(tmp_path / "run", study, change)).rows)
    assert list(found["init.scale"]) == [0.25, 1, 2, 3]
    assert list(found["largest"]) == [0.5] * 4
    assert set(found["tensor"]) == {"b"} and set(found["tensors"]) == {4}
    assert list(found["sampling"]) == [0.1] * 4


def test_the_time_of_probes_is_of_the_replicas_that_were_probed(tmp_path: Path) -> None:
    def change(replica: plan.Replica) -> dict[str, object]:
        reading = {"step": 0, "probe": "rank", "quantity": "q", "where": "w", "value": None}
        seconds = {"run.probing": 0.3 + replica.seed, "run.seconds": 4.0}
        return {"readings": [reading], **seconds} if replica.recipe.init.scale > 1 else {}

    study = make.study(tmp_path, make.STUDY, "search.draws=1")
    rows = tables.read(make.run(tmp_path / "run", study, change)).rows
    assert tables.probing(rows) == pytest.approx(100 * 0.8 / 4)
    assert tables.probing(rows[rows["init.scale"] <= 1]) is None


def test_versions_that_differ_have_a_line_each(tmp_path: Path) -> None:
    study = make.study(tmp_path, make.STUDY, "search.draws=1")
    folder = make.run(tmp_path / "run", study, lambda r: {"threads": 1 + r.seed})
    found = tables.versions(tables.read(folder).rows)
    threads = found[found["what"] == "threads"]
    assert threads[["value", "rows"]].to_numpy().tolist() == [[1, 4], [2, 4]]


def test_replicas_and_means_of_the_accuracy_figure(tmp_path: Path) -> None:
    def change(replica: plan.Replica) -> dict[str, object]:
        last = (replica.recipe.init.scale, replica.seed) == (2.0, 1)
        return make.lost("undertrained") if last else exact(replica)

    study = make.study(tmp_path, make.STUDY, "search.draws=1")
    replicas, means = accuracy_by_scale.table(
        tables.read(make.run(tmp_path / "run", study, change))
    )
    assert len(replicas) == 8
    assert list(means["accuracy"]) == [91.0, 96.0, 80.0, 70.5]
    assert list(means["seeds"]) == [2, 2, 1, 2]


def test_correlation_is_exact_at_the_ends_and_silent_when_it_knows_nothing() -> None:
    x = np.arange(8.0)
    assert regularization.correlation(x, -(x**3)) == (-1.0, -1.0, -1.0)
    assert regularization.correlation(x[:4], x[:4]) is None
    assert regularization.correlation(x, np.ones(8)) is None
    found = regularization.correlation(x, np.array([7, 5, 6, 4, 2, 3, 1, 0.0]))
    assert found == regularization.correlation(x, np.array([7, 5, 6, 4, 2, 3, 1, 0.0]))
    assert found is not None and -1 <= found[1] < found[0] < found[2] < -0.5


@pytest.mark.parametrize(
    ("state", "rows", "says"),
    [("failed", 48, "no row has a test accuracy to draw (failed 48)"), ("failed", 0, "no rows")],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, state: str, rows: int, says: str) -> None:
    folder = make.run(tmp_path / "run", make.study(tmp_path), lambda r: make.lost(state), rows)
    with pytest.raises(UserError, match="report: ") as caught:
        tables.read(folder)
    assert says in str(caught.value)
