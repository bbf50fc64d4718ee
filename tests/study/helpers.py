"""Study files for tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from initmem.study.load import load
from initmem.study.spec import Study, StudyError

STUDY = """\
question: Which learning rates erase it?
recipe:
  data: {name: digits, train: 500, validation: 300}
  model: {name: resnet9, width: 8, norm: batch}
  init: {rule: kaiming}
  optim: {name: sgd, batch: 50, epochs: 100}
  eval_every: 50
axes:
  init.scale: [0.25, 1, 2, 3]
ranges:
  optim.lr: {low: 1e-2, high: 6e-2, log: true}
  optim.l2: {low: 1e-4, high: 1e-1, log: true}
seeds: 2
search: {sampler: qmc, draws: 16}
"""


def changed(*changes: tuple[str, str]) -> str:
    """The study above with each old text, which must be there once, replaced by the new one."""
    text = STUDY
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def study(folder: Path, text: str, *overrides: str) -> Study:
    path = folder / "s.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path, overrides)


def faults(folder: Path, text: str, *overrides: str) -> list[str]:
    """The lines of the StudyError that the file gives, without the folder."""
    with pytest.raises(StudyError) as caught:
        study(folder, text, *overrides)
    return str(caught.value).replace(f"{folder}/", "").splitlines()
