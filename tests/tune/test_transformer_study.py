"""A study of a Transformer is searched, killed and resumed as one of images is."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pandas as pd

import initmem
from initmem.records.store import Store
from tests.tiny import study
from tests.tune.driving import comparable, driver, wait_for_records

STUDY = """
recipe:
  data: {name: permutations, keys: 5, maps: 4}
  model: {name: transformer, depth: 2, heads: 2, width: 16, norm: rms, norm_at: post, gated: true}
  init: {rule: gamma, residual: depth, qk: 2.0}
  optim: {name: adamw, batch: 8, steps: 120}
  penalty: {name: radial, strength: 0.1, site: residual}
  probes: {radius: true, rank: true, condensation: true, sink: true, every: 30}
  eval_every: 40
axes:
  init.gamma: [0.4, 0.9]
ranges:
  optim.lr: {low: 1e-3, high: 1e-2, log: true}
  optim.weight_decay: {low: 1e-2, high: 1, log: true}
memory_axis: init.gamma
measure: ood_accuracy
seeds: 2
search: {sampler: tpe, draws: 3, lag: 1}
resources: {checkpoint_every: 25}
"""


def test_killed_in_one_process_and_ended_on_ray_it_has_the_same_rows(tmp_path: Path) -> None:
    of = study(tmp_path, text=STUDY)
    initmem.run(of, tmp_path / "undisturbed", local=True)
    run = tmp_path / "run"
    with driver(run, tmp_path / "tiny.yaml", "--local") as process:
        wait_for_records(run, 5, process)
        os.killpg(process.pid, signal.SIGKILL)
    assert 5 <= len(Store(run).names()) < 12, "the kill came too late to tell anything"
    assert initmem.run(of, run, workers=2).done == 12
    whole, resumed = comparable(tmp_path / "undisturbed"), comparable(run)
    pd.testing.assert_frame_equal(whole, resumed, check_exact=True)
    assert whole["optim.lr"].nunique() == whole["optim.weight_decay"].nunique() == 3
    steps = {reading["step"] for reading in whole["readings"].iloc[0]}
    assert steps == {0, 30, 60, 90, 120}
    assert whole["selected.ood_accuracy"].notna().all()
