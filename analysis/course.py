"""The part of the report on the course of training: how soon networks generalize, their curves,
what probes read, condensation, and answers out of distribution. A study has the sections that its
rows have something for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from analysis import condensation, curves, grokking, ood, ood_map, readings, time_map
from analysis.tables import Run
from initmem.study.objective_section import Probes

PROBES = [name for name, field in Probes.model_fields.items() if field.annotation is bool]

FIGURES: dict[str, tuple[str, Callable[..., Figure]]] = {
    "time_to_generalize": ("Time to generalize", time_map.draw),
    "curves": ("Curves", curves.draw),
    **{f"readings_{probe}": (f"Readings: {probe}", readings.draw) for probe in PROBES},
    "condensation": ("Condensation", condensation.draw),
    "out_of_distribution": ("Out of distribution", ood_map.draw),
}
"""Name -> heading, and what draws its tables."""

MOST_RATIOS = 24
"""That the page shows."""


def make(run: Run) -> dict[str, tuple[pd.DataFrame, ...]]:
    """The tables that figures, files and sentences come from, by name; the first is empty where
    the rows have nothing for it."""
    read, times, answers = readings.table(run), grokking.made(run), ood.table(run)
    return {
        "generalization": times,
        "time_to_generalize": time_map.table(run, times[0]),
        "curves": curves.table(run),
        **{f"readings_{probe}": (read.get(probe, pd.DataFrame()),) for probe in PROBES},
        "condensation": (condensation.table(run),),
        "ood": (answers,),
        "out_of_distribution": ood_map.table(run, answers),
        "readings": (readings.whole(run),),
    }


def files(made: dict[str, tuple[pd.DataFrame, ...]]) -> dict[str, pd.DataFrame]:
    """Name -> what is kept beside the page, as far as there is any."""
    times, ratios = made["generalization"]
    tables = {"generalization": times, "generalization_ratios": ratios, "ood": made["ood"][0]}
    tables["readings"] = made["readings"][0]
    return {f"{name}.csv": table for name, table in tables.items() if len(table)}


def view(
    run: Run, made: dict[str, tuple[pd.DataFrame, ...]], images: dict[str, str]
) -> dict[str, Any]:
    """What `course.html` shows: tables of text, sentences, images by name."""
    times, ratios = made["generalization"]
    beside = grokking.compared(ratios) if len(ratios) else ratios
    answers = made["ood"][0]
    none = pd.DataFrame()
    return {
        "images": {name: image for name, image in images.items() if name in FIGURES},
        "axis": run.study.memory_axis,
        "times": grokking.texts(run, times) if len(times) else none,
        "times_said": grokking.said(run, times, ratios) if len(times) else [],
        "ratios": beside.head(MOST_RATIOS),
        "hidden_ratios": max(0, len(beside) - MOST_RATIOS),
        "fit": run.rows["steps_to.train"].iloc[0],
        "hidden_curves": _hidden(run, made["curves"][0]),
        "symmetric": run.rows["selected.symmetric_accuracy"].notna().any(),
        "probes": [p for p in PROBES if f"readings_{p}" in images and p != "condensation"],
        "condensed": condensation.said(run),
        "ood": ood.texts(run, answers) if len(answers) else none,
        "ood_said": ood.said(run, answers) if len(answers) else [],
    }


def _hidden(run: Run, curves_: pd.DataFrame) -> str:
    drawn = curves_["panel"].nunique() if len(curves_) else 0
    cells = len(run.cells)
    if drawn in (0, cells):
        return ""
    return f" {drawn} of {cells} cells, from the first to generalize to the last."
