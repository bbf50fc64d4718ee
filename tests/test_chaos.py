"""The short part of `make chaos`: five kills and every file fault, and nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import cells, files, kills, storage
from tests.chaos.scene import TEXT, Line, Scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder: Path = tmp_path_factory.mktemp("chaos")
    return Scene(folder, TEXT.replace("draws: 5", "draws: 3"))


def clean(line: Line) -> bool:
    return (line.rows_lost, line.rows_doubled, line.bits_different) == (0, 0, 0)


def test_kills_of_the_driver(scene: Scene) -> None:
    line = kills.driver_killed(scene, 5)
    assert line.injected == 5 and clean(line)
    assert line.steps_twice <= 5 * 2 * 200, "at most a checkpoint interval a worker and kill"


def test_damaged_state_files(scene: Scene) -> None:
    line = files.state_files_damaged(scene)
    assert line.injected >= 8 and clean(line)


def test_flipped_bits_of_a_checkpoint_are_all_found(scene: Scene) -> None:
    assert clean(files.checkpoint_flipped(scene, 1500))


def test_code_in_the_place_of_a_checkpoint_is_not_run(scene: Scene) -> None:
    assert clean(files.pickle_bomb(scene))


def test_a_kill_between_the_steps_of_a_write(scene: Scene) -> None:
    assert clean(files.killed_in_a_write(scene))


def test_a_read_only_folder_keeps_the_rows_and_goes_on(scene: Scene) -> None:
    assert clean(storage.folder_read_only(scene))


def test_a_cell_that_raises(scene: Scene) -> None:
    line = cells.raises(scene)
    assert line.injected == 12 and clean(line)


def test_a_cell_that_runs_out_of_memory(scene: Scene) -> None:
    line = cells.out_of_memory(scene)
    assert line.injected == 12 and clean(line)


def test_a_cell_that_diverges(scene: Scene) -> None:
    line = cells.diverges(scene)
    assert line.injected == 12 and clean(line)
