"""Tables and figures -> DIR/report/: a page that stands alone, and its parts as files."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from analysis import (
    accuracy_by_scale,
    answer,
    course,
    diagonal,
    differences,
    fine_tuning,
    forgetting_clock,
    frontier,
    phase_diagram,
    random_labels,
    regimes,
    regularization,
    style,
    tables,
    weak_to_strong,
)
from analysis.clocks import Clock
from analysis.tables import Run
from initmem.memory import STATES
from initmem.records.files import Files

FIGURES: dict[str, tuple[str, Callable[..., Figure]]] = {
    "theory": ("Theory and networks", diagonal.draw),
    "regimes": ("Regimes of fine-tuning", regimes.draw),
    "phase_diagram": ("Phase diagram", phase_diagram.draw),
    "accuracy_by_scale": ("{} over the memory axis", accuracy_by_scale.draw),
    "memory_against_regularization": ("Memory against regularization", regularization.draw),
    "forgetting_clocks": ("Forgetting clocks", forgetting_clock.draw),
    "fine_tuning": ("Fine-tuning", fine_tuning.draw),
}
"""Name -> heading ({}: the study's measure), and what draws its tables."""

MOST_PAIRS = 12
"""Differences that the page shows."""

Made = dict[str, tuple[pd.DataFrame, ...]]
"""Name of a figure, or `differences` -> its tables. A figure whose first table is empty is not
drawn."""


def write(run: Run, to: Files, chosen: list[Clock]) -> str:
    """Write the report into the run's own files, with the chosen clocks, and return its answer.

    Raises UserError where they cannot be written, or a clock does not fit the study.
    """
    made = make(run, chosen)
    drawn = {
        name: style.encoded(draw(*made[name]))
        for name, (_, draw) in (FIGURES | course.FIGURES).items()
        if len(made[name][0])
    }
    seen = views(run)
    more = {f"random_labels_{n}": f for n, f in seen["memorized"]["figures"].items()}
    more |= {f"planted_{n}": f for n, f in seen["planted"]["figures"].items()}
    drawn |= {name: style.encoded(figure) for name, figure in more.items()}
    files = {"cells.parquet": _parquet(run.cells), "cells.csv": _csv(run.cells)}
    for name in ("differences", "theory", "fine_tuning"):
        if len(made[name][0]):
            files[f"{name}.csv"] = _csv(made[name][0])
    files |= {name: _csv(table) for name, table in course.files(made).items()}
    for name, kinds in drawn.items():
        files |= {f"figures/{name}.{suffix}": content for suffix, content in kinds.items()}
    images = {name: base64.b64encode(kinds["png"]).decode() for name, kinds in drawn.items()}
    files["report.html"] = page(run, made, images, seen).encode()
    for name, content in files.items():
        to.write(f"report/{name}", content)
    return said(run, made)


def make(run: Run, chosen: list[Clock]) -> Made:
    """The tables that the figures and the sentences come from."""
    return {
        "theory": diagonal.table(run),
        "regimes": regimes.table(run),
        "phase_diagram": phase_diagram.table(run),
        "accuracy_by_scale": accuracy_by_scale.table(run),
        "memory_against_regularization": regularization.table(run),
        "forgetting_clocks": forgetting_clock.table(run, chosen),
        "fine_tuning": fine_tuning.table(run),
        "differences": (differences.table(run),),
        **course.make(run),
    }


def said(run: Run, made: Made) -> str:
    """The answer, in one sentence, and one on the theory, where there is one."""
    sentence = answer.sentence(run, made["memory_against_regularization"][1])
    return " ".join(filter(None, [sentence, diagonal.said(made["theory"][0])]))


def views(run: Run) -> dict[str, dict[str, Any]]:
    """What sections of their own show: table, said (sentences) and figures, by name."""
    return {"memorized": random_labels.view(run), "planted": weak_to_strong.view(run)}


def page(run: Run, made: Made, images: dict[str, str], seen: dict[str, dict[str, Any]]) -> str:
    """report.html; seen: `views`. Everything that a study or a row says is escaped by the
    template."""
    environment = Environment(
        loader=PackageLoader("analysis", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = style.number
    environment.filters["chance"] = style.chance
    environment.filters["points"] = points
    versions = tables.versions(run.rows)
    return environment.get_template("report.html").render(
        study=run.study,
        answer=said(run, made),
        caveat=answer.caveat(run),
        progress=answer.progress(run),
        others=run.others,
        measure=run.measure,
        measured=_measured(run),
        crossed=frontier.crossed(run),
        censored=bool(style.censored(run.cells).any()),
        figures=[
            (name, FIGURES[name][0].format(run.measure.short.capitalize()), image)
            for name, image in images.items()
            if name in FIGURES
        ],
        course=course.view(run, made, images),
        **seen,
        drawn=images,
        axes=list(run.axes["field"]),
        surface=not made["phase_diagram"][2].empty,
        clocks=forgetting_clock.said(made["forgetting_clocks"][1]),
        fine_tuned=fine_tuning.texts(*made["fine_tuning"]),
        helped=fine_tuning.said(made["fine_tuning"][1]),
        undrawn=list(run.study.ranges)[2:],
        differences=made["differences"][0].head(MOST_PAIRS),
        hidden_pairs=max(0, len(made["differences"][0]) - MOST_PAIRS),
        states=tables.states(run),
        errors=tables.errors(run.rows),
        cells=_cell_lines(run),
        fields=_fields(run),
        axis_values=len(run.study.axes[run.study.memory_axis]),
        audit=tables.audit(run.rows),
        untouched=tables.parameters(run.rows, "untouched"),
        assigned=tables.parameters(run.rows, "assigned"),
        versions=versions,
        differing=sorted(set(versions.loc[versions["what"].duplicated(), "what"])),
        settings=_settings(run),
        hours=run.rows["run.seconds"].sum() / 3600,
        probing=tables.probing(run.rows),
        source=json.dumps(run.study.model_dump(mode="json", exclude_defaults=True), indent=2),
    )


def _measured(run: Run) -> str:
    """What memory is the spread of, in words."""
    if run.measure.steps:
        return "log2 of the steps to generalize"
    return f"{run.measure.noun} of the validation-selected predictor"


def points(value: float) -> str:
    return "-" if pd.isna(value) else f"{value:.1f}"


def _fields(run: Run) -> dict[str, str]:
    """Column of the cell table -> its head: what is searched or listed, lr and L2."""
    listed = [field for field in run.study.axes if field != run.study.memory_axis]
    fields = dict.fromkeys([*listed, *run.study.ranges, "optim.lr", "optim.l2"])
    heads = {field: style.SHORT.get(field, field) for field in fields}
    return {field: head for field, head in heads.items() if field in run.cells}


def _cell_lines(run: Run) -> list[dict[str, Any]]:
    """The cells, most memory first, with memory, mean, `interval` and `states` in words."""
    ordered = run.cells.sort_values("memory", ascending=False, kind="stable", na_position="last")
    lines: list[dict[str, Any]] = [dict(line) for line in ordered.to_dict("records")]  # type: ignore[arg-type]  # names are text
    for line in lines:
        counts = {state: line[state] for state in (*STATES, "missing") if line[state]}
        line["memory"] = style.least(line, points(line["memory"]))
        line["mean"] = style.least(line, points(line["mean"]))
        line["interval"] = "-" if pd.isna(line["low"]) else style.interval(line)
        line["states"] = ", ".join(f"{count} {state}" for state, count in counts.items())
    return lines


def _settings(run: Run) -> dict[str, str]:
    study = run.study
    written = {
        field: f"{style.number(r.low)} to {style.number(r.high)}{', log' if r.log else ''}"
        + (f", {r.points} points" if r.points else "")
        for field, r in study.ranges.items()
    }
    axes = {f: ", ".join(style.number(v) for v in values) for f, values in study.axes.items()}
    search = study.search
    level = "" if search.level is None else f" {run.measure.level.format(search.level)}"
    most = "" if search.stop_when is None else "at most "
    searched = {
        "search": f"{search.sampler}, {most}{search.draws} draws an arm, lag {search.lag}, "
        f"objective {search.objective}{level}, seed {search.seed}"
    }
    if search.stop_when is not None:
        searched["search ends early when"] = f"{search.stop_when}{_ended(run)}"
    measure = {} if study.measure == "test_accuracy" else {"measure": study.measure}
    return {
        "memory axis": study.memory_axis,
        **measure,
        "seeds": ", ".join(str(seed) for seed in range(study.seeds)),
        **{f"axis {field}": text for field, text in axes.items()},
        **{f"range {field}": text for field, text in written.items()},
        **(searched if search.draws else {}),
        **{field: style.number(value) for field, value in study.recipe.items()},
    }


def _ended(run: Run) -> str:
    """After how many draws the searches of the arms did end early."""
    each = [f"{arm} after {run.ended[id_]} draws".strip() for id_, arm in run.arms.items()
            if id_ in run.ended]  # fmt: skip
    return f" ({'; '.join(each) or 'it did not'})"


def _parquet(table: pd.DataFrame) -> bytes:
    stream = pa.BufferOutputStream()
    whole = pa.Table.from_pandas(table, preserve_index=False)
    pq.write_table(whole, stream, write_page_checksum=True, compression="zstd")
    return bytes(stream.getvalue().to_pybytes())


def _csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False, lineterminator="\n").encode()
