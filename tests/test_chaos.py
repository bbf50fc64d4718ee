"""The short part of `make chaos`: five kills and every state file damaged, and nothing lost."""

from __future__ import annotations

import pytest

from tests.chaos import Chaos
from tests.tune.driving import LONG


@pytest.fixture(scope="module")
def chaos(tmp_path_factory: pytest.TempPathFactory) -> Chaos:
    text = LONG.replace("checkpoint_every: 7", "checkpoint_every: 100")
    return Chaos(tmp_path_factory.mktemp("chaos"), text.replace("steps: 1500", "steps: 4000"))


def test_kills_of_the_driver(chaos: Chaos) -> None:
    line = chaos.driver_killed(5)
    assert line.injected == 5
    assert (line.rows_lost, line.rows_doubled, line.rows_different) == (0, 0, 0)
    assert line.steps_repeated <= 5 * 2 * 100, "at most a checkpoint interval a worker and kill"


def test_damaged_state_files(chaos: Chaos) -> None:
    line = chaos.files_damaged()
    assert line.injected >= 8
    assert (line.rows_lost, line.rows_doubled, line.rows_different) == (0, 0, 0)


def test_flipped_bits_of_a_checkpoint_are_all_found(chaos: Chaos) -> None:
    assert chaos.checkpoint_flipped(1500).rows_different == 0


def test_code_in_the_place_of_a_checkpoint_is_not_run(chaos: Chaos) -> None:
    assert chaos.pickle_bomb().rows_different == 0


def test_a_full_disk_keeps_the_rows_and_goes_on(chaos: Chaos) -> None:
    line = chaos.disk_full()
    assert (line.rows_lost, line.rows_doubled, line.rows_different) == (0, 0, 0)
