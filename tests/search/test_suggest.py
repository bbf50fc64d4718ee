"""Draws: a function of the study, the arm and the draws before, and of nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from initmem.search.suggest import objectives, suggest
from initmem.study.plan import Point, arms
from initmem.study.spec import Study
from tests.tiny import study


def sequence(of: Study, arm: int, count: int, lag: int = 2) -> list[Point]:
    """Draws with a value that prefers a small lr, every fourth cell lost."""
    known: list[tuple[Point, tuple[float, ...] | None]] = []
    for k in range(count):
        told, open_points = known[: max(0, k - lag)], [p for p, _ in known[max(0, k - lag) :]]
        point = suggest(of, arms(of)[arm], told, open_points)
        values = (point["optim.lr"], -point["optim.l2"])
        two = of.search.objective == "both"
        known.append((point, None if k % 4 == 3 else values if two else values[:1]))
    return [point for point, _ in known]


@pytest.mark.parametrize("sampler", ["random", "qmc", "tpe"])
@pytest.mark.parametrize("objective", ["memory", "accuracy", "both"])
def test_draws_repeat_lie_in_range_and_differ(
    tmp_path: Path, sampler: str, objective: str
) -> None:
    of = study(tmp_path, f"search.sampler={sampler}", f"search.objective={objective}",
               "search.draws=24")  # fmt: skip
    points = sequence(of, 0, 24)
    assert points == sequence(of, 0, 24)
    assert len({tuple(p.values()) for p in points}) == 24
    assert all(0.01 <= p["optim.lr"] <= 0.1 and 1e-4 <= p["optim.l2"] <= 0.1 for p in points)


@pytest.mark.parametrize("sampler", ["random", "qmc", "tpe"])
def test_an_arm_draws_the_same_alone_and_among_others(tmp_path: Path, sampler: str) -> None:
    alone = study(tmp_path, f"search.sampler={sampler}", "search.draws=14", "optim.name=adam")
    among = study(
        tmp_path, f"search.sampler={sampler}", "search.draws=14",
        text=ARMS, name="among",
    )  # fmt: skip
    assert [a.values for a in arms(among)] == [{"optim.name": n} for n in ("sgd", "adam")]
    assert sequence(among, 1, 14) == sequence(alone, 0, 14)
    assert sequence(among, 0, 14) != sequence(among, 1, 14)


ARMS = """
recipe:
  data: {name: digits, train: 60, validation: 40}
  model: {name: mlp, width: 16}
  init: {rule: kaiming}
  optim: {batch: 20, steps: 30}
  eval_every: 10
axes: {init.scale: [1, 2], optim.name: [sgd, adam]}
ranges:
  optim.lr: {low: 1e-2, high: 1e-1, log: true}
  optim.l2: {low: 1e-4, high: 1e-1, log: true}
seeds: 2
search: {draws: 3, lag: 1}
"""


@pytest.mark.parametrize("sampler", ["random", "qmc"])
def test_more_draws_keep_the_first_ones(tmp_path: Path, sampler: str) -> None:
    few = study(tmp_path, f"search.sampler={sampler}", "search.draws=6")
    many = study(tmp_path, f"search.sampler={sampler}", "search.draws=20")
    assert sequence(many, 0, 6) == sequence(few, 0, 6)


def test_tpe_learns_and_depends_on_what_it_is_told(tmp_path: Path) -> None:
    of = study(tmp_path, "search.sampler=tpe", "search.draws=60")
    points = [p["optim.lr"] for p in sequence(of, 0, 60)]
    late = sorted(points[40:])[10]
    assert late < 0.025, "half of the last draws should lie near the small lr that is preferred"


def test_qmc_covers_evenly(tmp_path: Path) -> None:
    """Of 16 Sobol points, four lie in each quarter of each range."""
    import math

    of = study(tmp_path, "search.draws=16")
    for field, r in of.ranges.items():
        shares = [
            math.log(p[field] / r.low) / math.log(r.high / r.low) for p in sequence(of, 0, 16)
        ]
        assert sorted(int(4 * share) for share in shares) == sorted([0, 1, 2, 3] * 4)


def test_a_grid_is_listed_not_drawn(tmp_path: Path) -> None:
    text = ARMS.replace("log: true}", "log: true, points: 2}").replace("draws: 3, ", "")
    of = study(tmp_path, text=text)
    assert sequence(of, 0, 4) == [
        {"optim.lr": lr, "optim.l2": l2} for lr in (0.01, 0.1) for l2 in (1e-4, 0.1)
    ]


def rows(
    accuracies: dict[float, list[float]], state: str = "interpolated"
) -> list[dict[str, object]]:
    return [
        {"memory_axis": "init.scale", "init.scale": scale, "state": state, "seed": seed,
         "selected.validation_accuracy": y}
        for scale, ys in accuracies.items() for seed, y in enumerate(ys)
    ]  # fmt: skip


def test_objectives_are_of_the_validation_accuracy(tmp_path: Path) -> None:
    told = rows({1.0: [90.0, 92.0], 2.0: [80.0, 84.0]})
    named = {n: objectives(study(tmp_path, f"search.objective={n}"), told)
             for n in ("memory", "accuracy", "both")}  # fmt: skip
    assert named == {"memory": (9.0,), "accuracy": (86.5,), "both": (9.0, 86.5)}
    assert objectives(study(tmp_path), rows({1.0: [90.0], 2.0: [80.0]}, "diverged")) is None
