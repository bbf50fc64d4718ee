"""Every model, optimizer, data set and init rule trains as a small grid in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from initmem.study.recipe import variants
from tests.data.files import write
from tests.tune.grid import DIGITS, MLP, trained

ELSEWHERE = {"diagonal", "exact", "two_layer", "planted", "online_sgd"}
"""Trained in training/test_diagonal.py and training/test_online.py: their axes are others."""


@pytest.mark.parametrize("name", sorted(set(variants("model")) - ELSEWHERE))
def test_models(tmp_path: Path, name: str) -> None:
    tokens = variants("model")[name].kind == "tokens"  # type: ignore[attr-defined]  # each has one
    data = "{name: modular, p: 7}" if tokens else DIGITS
    trained(tmp_path, data=data, model=f"{{name: {name}, width: 12}}")


@pytest.mark.parametrize("name", sorted(set(variants("optim")) - ELSEWHERE))
@pytest.mark.parametrize("model", ["{name: resnet9, width: 4}", MLP])
def test_optimizers(tmp_path: Path, name: str, model: str) -> None:
    optim = f"{{name: {name}, lr: 0.01, batch: 10, steps: 12, l2: 0.01, schedule: cosine}}"
    trained(tmp_path, model=model, optim=optim)


@pytest.mark.parametrize("name", ["fashion_mnist", "cifar10", "cifar100", "svhn"])
def test_data_sets_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    written = write(name, tmp_path / "files", monkeypatch, train=60, test=30)
    data = f"{{name: {name}, train: 40, validation: 20, crop: 2, flip: true}}"
    rows = trained(tmp_path, data=data, model="{name: resnet9, width: 4}", files="files")
    assert len(rows[0]["selected.test_predictions"]) == len(written.test_labels)


@pytest.mark.parametrize("operation", ["add", "divide"])
def test_arithmetic(tmp_path: Path, operation: str) -> None:
    trained(tmp_path, data=f"{{name: modular, p: 7, operation: {operation}}}",
            model="{name: transformer, width: 8, heads: 2, norm: rms}")  # fmt: skip


@pytest.mark.parametrize(
    ("data", "extra"),
    [("name: addition, digits: 1, train: 60, validation: 10, test: 10", set()),
     ("name: addition, digits: 1, square: true, train: 60, validation: 10, test: 10", {"ood"}),
     ("name: anchors, train: 60, validation: 10, test: 20", {"ood", "symmetric"}),
     ("name: anchors, misleading: false, train: 60, validation: 10, test: 20", {"ood"}),
     ("name: anchors, length: 5, train: 60, validation: 10, test: 20", {"ood", "symmetric"}),
     ("name: permutations, keys: 5, maps: 3, held_out: 0.3", {"ood", "symmetric"}),
     ("name: text, length: 6, train: 60, validation: 10, test: 20", set())],
)  # fmt: skip
def test_data_sets_of_tokens(tmp_path: Path, data: str, extra: set[str]) -> None:
    """Columns of what is out of distribution are there where the data set has it."""
    models = ["{name: transformer, width: 8, heads: 2}"]
    if "addition" not in data and "text" not in data:  # those ask more than once
        models.append("{name: token_mlp, width: 8, embedding: 4}")
    for number, model in enumerate(models):
        folder = tmp_path / str(number)
        folder.mkdir()
        for row in trained(folder, data=f"{{{data}}}", model=model):
            assert set(row["selected.test_predictions"]) <= set(range(110))
            curve: Any = row["curve"]
            for name in ("ood", "symmetric"):
                column = f"{name}_accuracy"
                values = [row[f"selected.{column}"], row[f"final.{column}"]]
                values += [point[column] for point in curve]
                assert [pd.isna(value) for value in values] == [name not in extra] * 4
                assert all(0 <= value <= 100 for value in values if name in extra)


@pytest.mark.parametrize("rule", sorted(set(variants("init")) - ELSEWHERE))
def test_init_rules(tmp_path: Path, rule: str) -> None:
    trained(tmp_path, rule=rule)
