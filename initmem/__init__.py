"""initmem: how much of a network's random initialization survives training.

From a notebook, with the functions that the command line calls:

    study = initmem.load_study("studies/digits.yaml")
    outcome = initmem.run(study, local=True)
    rows = initmem.rows(outcome.address)
    cells = initmem.cells(rows)
"""

from __future__ import annotations

import importlib
import os
from typing import Any

__version__ = "0.1.0"
__all__ = ["cells", "load_study", "rows", "run"]

_HOMES = {
    "load_study": ("initmem.study.load", "load"),
    "run": ("initmem.tune.launch", "run"),
    "rows": ("initmem.records.store", "rows"),
    "cells": ("initmem.memory.table", "cells"),
}

# OpenMP reads it once, when torch is loaded: this is before that in commands, workers and
# notebooks alike. By default, threads that wait spin, and slow each other down on shared cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def __getattr__(name: str) -> Any:
    """Import on first use: a bad study file is answered before torch or ray are loaded."""
    if name not in _HOMES:
        raise AttributeError(f"module 'initmem' has no attribute {name!r}")
    module, function = _HOMES[name]
    return getattr(importlib.import_module(module), function)
