"""The frontier is found where it is, with cells near it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from threadpoolctl import threadpool_info, threadpool_limits

from initmem.memory.surface import Measured, surface
from initmem.search import frontier
from initmem.search.suggest import suggest
from initmem.study.plan import Point, arms
from initmem.study.spec import Study, UserError
from initmem.study.unit import from_unit, to_unit
from tests.tiny import study

SEARCHED = ("search.sampler=frontier", "search.draws=30", "search.lag=0")


def memory(place_ND: np.ndarray) -> np.ndarray:
    """Falls with x + y from 20 to 0 points, and is 2 where they sum to 1."""
    return 20 / (1 + np.exp(9 * (place_ND.sum(axis=1) - 1) + np.log(9)))


def told(of: Study, point: Point, noise: float = 0.1) -> frontier.Told:
    (value,) = memory(np.array([to_unit(point, of.ranges)]))
    return float(value), noise**2, 6.0, 2 / 3


def draws(of: Study, count: int) -> list[Point]:
    known: list[tuple[Point, frontier.Told | None]] = []
    for _ in range(count):
        point = suggest(of, arms(of)[0], known, [])
        known.append((point, told(of, point)))
    return [point for point, _ in known]


@pytest.fixture
def of(tmp_path: Path) -> Study:
    return study(tmp_path, *SEARCHED)


def test_it_starts_as_qmc_and_then_draws_at_the_frontier(of: Study, tmp_path: Path) -> None:
    points = draws(of, 20)
    even = study(tmp_path, "search.sampler=qmc", "search.draws=30")
    assert points[:8] == [suggest(even, arms(even)[0], [(p, None) for p in points[:k]], [])
                          for k in range(8)]  # fmt: skip
    place_ND = np.array([to_unit(point, of.ranges) for point in points])
    off_N = np.abs(place_ND.sum(axis=1) - 1)
    assert np.median(off_N[8:]) < 0.12 < np.median(off_N[:8])
    assert np.ptp(place_ND[8:, 0]) > 0.7, "along all of it"


def test_it_is_a_function_of_what_it_is_told(of: Study) -> None:
    assert draws(of, 12) == draws(of, 12)


def test_beside_cells_that_do_not_train_it_goes_on_along_the_frontier(of: Study) -> None:
    """Nothing trains at the upper half of the first range. That a cell surely trains where the
    frontier is known is no reason to draw there again."""
    known: list[tuple[Point, frontier.Told | None]] = []
    for _ in range(28):
        point = suggest(of, arms(of)[0], known, [])
        trains = to_unit(point, of.ranges)[0] < 0.5
        known.append((point, told(of, point) if trains else None))
    chosen_ND = np.array([to_unit(point, of.ranges) for point, _ in known[8:]])
    near_D = np.sort(chosen_ND[np.abs(chosen_ND.sum(axis=1) - 1) < 0.15][:, 0])
    assert near_D[0] < 0.1 and near_D[-1] > 0.4 and np.diff(near_D).max() < 0.2


def test_cells_in_training_are_not_drawn_again(of: Study) -> None:
    known = [(p, told(of, p)) for p in draws(of, 10)]
    first = suggest(of, arms(of)[0], known[:9], [known[9][0]])
    second = suggest(of, arms(of)[0], known[:9], [known[9][0], first])
    apart = np.subtract(to_unit(first, of.ranges), to_unit(second, of.ranges))
    assert np.abs(apart).max() > 0.05


def test_places_that_do_not_train_are_avoided(of: Study) -> None:
    """Nothing trains at the upper half of the first range."""
    known: list[tuple[Point, frontier.Told | None]] = []
    for _ in range(24):
        point = suggest(of, arms(of)[0], known, [])
        trains = to_unit(point, of.ranges)[0] < 0.5
        known.append((point, told(of, point) if trains else None))
    lost = [t is None for _, t in known]
    assert sum(lost[:8]) >= 3 and sum(lost[12:]) <= 3


def test_nothing_trained_at_all_goes_on_quasi_randomly(of: Study) -> None:
    known: list[tuple[Point, frontier.Told | None]] = [(p, None) for p in draws(of, 8)]
    assert suggest(of, arms(of)[0], known, []) != known[-1][0]


def test_cells_of_unknown_noise_count_as_cells_with_a_large_one(of: Study) -> None:
    """One seed of each cell trained: no degrees of freedom. The error taken is the threshold."""
    points = draws(of, 9)
    bare = [(p, (told(of, p)[0], np.nan, 0.0, 2.0)) for p in points]
    large = [(p, (told(of, p)[0], 2.0, 6.0, 2.0)) for p in points]
    assert suggest(of, arms(of)[0], bare, []) == suggest(of, arms(of)[0], large, [])


def test_places_and_points_are_the_same(of: Study) -> None:
    for share in ([0.0, 1.0], [0.3, 0.6]):
        point = from_unit(share, of.ranges)
        assert to_unit(point, of.ranges) == pytest.approx(share)
    assert from_unit([0.5, 0.5], of.ranges)["optim.lr"] == pytest.approx(10**-1.5)


def test_a_surface_knows_what_it_was_told_and_doubts_the_rest() -> None:
    rng = np.random.default_rng(0)
    place_ND = rng.random((25, 2)) * [0.5, 1.0]
    found = surface(Measured(place_ND, memory(place_ND), np.full(25, 0.1)), threshold=2.0)
    assert found is not None
    mean_N, sd_N = found.believed(place_ND)
    assert found.memory(mean_N) == pytest.approx(memory(place_ND), abs=0.5)
    _, far = found.believed(np.array([[1.0, 0.5]]))
    assert far[0] > 3 * sd_N.max()


def test_the_bits_of_a_surface_do_not_depend_on_the_number_of_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 250 cells they do, where BLAS takes 3 threads."""
    rng = np.random.default_rng(0)
    place_ND, other_ND = rng.random((250, 2)), rng.random((1000, 2))
    found_N = memory(place_ND)
    found_N[place_ND[:, 0] > 0.8] = np.nan
    cells = Measured(place_ND, found_N, np.full(250, 0.3))
    seen: set[tuple[str, int]] = set()

    def watched(of: type, name: str) -> None:
        original = getattr(of, name)

        def watching(self: Any, *args: Any, **named: Any) -> Any:
            blas = [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]
            assert blas
            seen.update((f"{of.__name__}.{name}", threads) for threads in blas)
            return original(self, *args, **named)

        monkeypatch.setattr(of, name, watching)

    calls = [
        (GaussianProcessRegressor, "fit"),
        (GaussianProcessRegressor, "predict"),
        (GaussianProcessClassifier, "fit"),
        (GaussianProcessClassifier, "predict_proba"),
    ]
    for of, name in calls:
        watched(of, name)
    believed = []
    for threads in (1, 3):
        with threadpool_limits(threads, user_api="blas"):
            found = surface(cells, threshold=2.0)
            assert found is not None
            found = found.with_cell(np.array([0.4, 0.6]))
            believed.append([*found.believed(other_ND), found.trains(other_ND)])
    assert all(np.array_equal(a, b) for a, b in zip(*believed, strict=True))
    assert seen == {(f"{of.__name__}.{name}", 1) for of, name in calls}


@pytest.mark.parametrize(
    ("change", "says"),
    [("seeds=1", "to know a cell's noise"), ("search.objective=both", "looks for memory alone")],
)
def test_what_it_needs(tmp_path: Path, change: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        study(tmp_path, *SEARCHED, change)
