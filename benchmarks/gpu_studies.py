"""The studies of `gpu_check`, small enough for a GPU and a CPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from initmem.study.spec import Study
from tests import tiny

TEXT = """
recipe: {data: {name: digits, train: 500, validation: 300}, model: {name: resnet9, width: 8},
         init: {rule: kaiming}, optim: {name: momentum, batch: 50, steps: 60}, eval_every: 30}
axes: {init.scale: [1, 2]}
ranges: {optim.lr: {low: 1e-2, high: 6e-2, log: true}}
seeds: 2
search: {draws: 1}
"""
GRID = """
recipe: {{data: {{name: {}}}, model: {{{}}}, init: {{rule: kaiming}},
         optim: {{{} lr: 0.01, batch: 50, steps: 20}}}}
axes: {{{axis}: [{names}]}}
memory_axis: {axis}
"""
TOKENS = """
recipe:
  data: {train: 400, validation: 60, test: 60, length: 9}
  model: {name: transformer, width: 16, heads: 2, depth: 2, norm_at: post, gated: true}
  init: {rule: gamma, residual: depth}
  optim: {name: adamw, lr: 0.01, batch: 50, steps: 20}
  penalty: {name: radial, site: residual}
  probes: {radius: true, radial_share: true, rank: true, condensation: true, hessian: true,
           sink: true, groups: true}
axes: {data.name: [addition, anchors, modular, permutations, text]}
memory_axis: data.name
"""
LARGE = """
recipe: {data: {name: text, length: 256, train: 2000}, init: {rule: kaiming},
         model: {name: transformer, width: 512, heads: 8, depth: 4},
         optim: {name: sgd, batch: 128, steps: 2}}
axes: {init.scale: [1, 2]}
ranges: {optim.lr: {low: 1e-2, high: 6e-2, log: true}}
search: {draws: 1}
"""
"""More than 4 GB of activations."""
LONG = {"cuda": (600, 4), "cpu": (100, 2)}
"""Steps and draws where blocks must take seconds."""


def study(device: str, folder: Path, name: str, text: str = TEXT, **resources: Any) -> Study:
    asked = {"device": device, "checkpoint_every": 25, "deterministic": True, **resources}
    return tiny.study(folder, text=f"{text}resources: {json.dumps(asked)}", name=name)


def long_study(device: str, folder: Path, share: float) -> Study:
    """share: of a GPU for a block."""
    steps, draws = LONG[device]
    text = TEXT.replace("steps: 60", f"steps: {steps}").replace("draws: 1", f"draws: {draws}")
    resources = {"gpus": share} if device == "cuda" else {}
    return study(device, folder, "long", text, **resources)
