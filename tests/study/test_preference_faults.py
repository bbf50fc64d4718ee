"""What no network with planted features can be asked, with file, line and field."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from initmem.study.recipe import Recipe
from tests.pairs import STUDY, pairs, planted
from tests.study.helpers import faults, study
from tests.tiny import recipe


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("[0, 0.5]", "[0, 1.5]", "11: data.rho: must be less than or equal to 1, got 1.5"),
        ("[0, 0.5]", "[-1.5, 0]", "11: data.rho: must be greater than or equal to -1, got -1.5"),
        (", s: 4", ", s: 9",
         "3: data.s: two subspaces of s dimensions must fit into data.d 16: at most 8, got 9"),
        (", s: 4", ", s: 1", "3: data.s: must be greater than or equal to 2, got 1"),
        ("[sft, w2s_projected]", "[w2s_plain]\n  data.cosine: [0.5, 1.5]",
         "11: data.cosine: must be less than or equal to 1, got 1.5"),
        (", s: 4", ", s: 4, cosine: 0.7",
         "3: data.cosine: is of the weak teacher, data.arm sft has none: remove it, or take an "
         "arm w2s_..., got 0.7"),
        ("[sft, w2s_projected]", "[sft, w2s]",
         "10: data.arm: must be one of sft, w2s_localized, w2s_projected, w2s_plain, "
         "sft_localized, sft_projected, w2s_inside, got 'w2s'"),
        ("neurons: 3", "neurons: 3, sign: 0", "4: model.sign: must be one of 1, -1, got 0"),
        ("name: two_layer, neurons: 3, off: 2", "name: mlp",
         "4: model.name: mlp takes image input, data.name gaussian_pairs gives pairs"),
        ("rule: planted", "rule: kaiming",
         "5: init.rule: rule planted and model.name two_layer go together, got kaiming "
         "and two_layer"),
        ("rule: planted", "rule: planted, gamma: 1",
         "5: init.gamma: does not apply to planted, which has: rule, scale, spread"),
        ("name: online_sgd", "name: sgd",
         "6: optim.name: online_sgd and model.name two_layer go together, got sgd and two_layer"),
        ("steps: 40", "epochs: 4",
         "6: optim.epochs: a stream has no epochs: give optim.steps in their place, got 4"),
        (", steps: 40", "", "6: optim.steps: required: a stream has no end"),
        ("batch: 64", "batch: null",
         "6: optim.batch: a stream has no end: give a number of pairs, got null"),
        ("lr: 0.3", "lr: 0.3, l2: 0.1",
         "6: optim.l2: acts along the weights, where tangential updates leave nothing: set "
         "optim.update to free, or remove it"),
        ("lr: 0.3", "lr: 0.3, beyond: 0.5",
         "6: optim.beyond: must be greater than or equal to 1, got 0.5"),
        ("  eval_every: 10\n", "",
         "2: eval_every: required: a stream has no epochs to evaluate after"),
        ("eval_every: 10", "eval_every: 10\n  precision: bf16",
         "8: precision: two_layer takes float32 alone, got bf16"),
        ("eval_every: 10", "eval_every: 10\n  penalty: {name: radial}",
         "8: penalty.site: two_layer has no site"),
        ("eval_every: 10", "eval_every: 10\n  pretrain: {name: stage, steps: 3}",
         "8: pretrain.name: planted features are the pretraining: remove it, got stage"),
        ("eval_every: 10", "eval_every: 10\n  random_labels: {name: heads}",
         "8: random_labels.name: two_layer has no layer that a head could read"),
        ("features: true", "features: true, rank: true",
         "8: probes.rank: reads networks with classes, two_layer has none"),
        ("seeds: 2", "seeds: 2\nresources: {engine: batched}",
         "14: resources.engine: batched trains no two_layer; write loop, or auto, which takes "
         "loop (at data.arm 'sft', data.rho 0)"),
        ("seeds: 2", "seeds: 2\nresources: {engine: graph, device: cuda}",
         "14: resources.engine: graph trains no two_layer; write loop, or auto, which takes "
         "loop (at data.arm 'sft', data.rho 0)"),
    ],
)  # fmt: skip
def test_a_study_that_asks_for_it(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert STUDY.count(old) == 1
    assert f"s.yaml:{fault}" in faults(tmp_path, STUDY.replace(old, new))


def test_a_hard_subspace_has_its_second_direction(tmp_path: Path) -> None:
    text = STUDY.replace("s: 4", "s: 4, subspaces: hard", 1).replace("0.5]", "1]")
    [fault] = faults(tmp_path, text)
    rule = "hard needs a rho between -1 and 1, for else V_2 has s - 1 dimensions; take nested"
    assert fault == f"s.yaml:3: data.subspaces: {rule}, got rho 1"
    assert study(tmp_path, text.replace("hard", "nested")).seeds == 2


def test_its_sections_are_for_each_other_alone() -> None:
    with pytest.raises(ValidationError, match=r"two_layer takes pairs input, data\.name digits"):
        recipe(model={"name": "two_layer"}, init={"rule": "planted"})
    with pytest.raises(ValidationError, match="go together, got planted and mlp"):
        recipe(init={"rule": "planted"})
    with pytest.raises(ValidationError, match="go together, got online_sgd and mlp"):
        recipe(optim={"name": "online_sgd", "lr": 0.1, "steps": 5})
    with pytest.raises(ValidationError, match="reads planted features, mlp has none"):
        recipe(probes={"features": True})


def test_what_a_stream_makes_of_a_recipe() -> None:
    of = planted(optim={"batch": 4096, "update": "free", "l2": 0.1})
    assert (of.batch, of.total_steps, of.evaluation_interval) == (4096, 400, 10)
    assert of.streams and not of.stacks and not of.graphed
    assert Recipe.model_validate(of.model_dump()) == of
    assert [pairs(arm).inside for arm in ("w2s_inside", "w2s_localized")] == [True, False]
