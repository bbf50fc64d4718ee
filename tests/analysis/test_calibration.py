"""A short part of `python -m analysis.calibration`."""

from __future__ import annotations

import pytest

from analysis.calibration import NOISES, calibrate
from initmem.memory import estimate


@pytest.mark.parametrize("noise", NOISES)
def test_the_estimator_keeps_its_word(noise: str) -> None:
    """Bounds of three standard errors above or below what is promised, for 240 cells."""
    percents = calibrate(noise, 4, 3, 240)
    assert percents["false"] <= 5 + 4.3 and percents["missed"] <= 1 + 1.9
    assert percents["found"] >= 95 - 4.3 and percents["covered"] >= 94 - 4.6


def test_it_would_notice_an_estimator_that_is_too_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "quantile", lambda level, values, df: 1.5)
    percents = calibrate("normal", 4, 3, 240)
    assert percents["covered"] < 94 - 4.6
