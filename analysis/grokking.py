"""python -m analysis.grokking RUN: how soon do networks generalize, and how many times sooner?"""

from __future__ import annotations

from typing import Any

import click
import numpy as np
import pandas as pd

from analysis import curves, generalization, tables
from analysis.command import Analysis, drawable, save
from analysis.style import number
from analysis.survival import LEVEL
from analysis.tables import Run
from initmem.study.spec import UserError

FEW = 3
"""Cells that have a sentence each; of more, it is counted which value is soonest."""
LISTED = 4
"""Values up to which a sentence names all."""


def texts(run: Run, table: pd.DataFrame) -> pd.DataFrame:
    """`generalization.table` as it is read, for terminal and page. Without the column of cells
    where there is one cell, of counts that are 0, and of shares where all ask for one."""
    share = _percent(table["share"].iloc[0]) if table["share"].nunique() == 1 else "the share"
    beside = table["other_share"]
    other = _percent(beside.iloc[0]) if beside.nunique() == 1 else "the other"
    lines = pd.DataFrame(
        {"cell": table["label"], run.study.memory_axis: table["value"].map(number)}
    )
    if share == "the share":
        lines["share"] = table["share"].map(_percent)
    for count in ("n", "generalized", "censored", *generalization.APART):
        if count not in generalization.APART or table[count].any():
            lines[count] = table[count].astype(str)
    lines["steps to fit"] = table["fitted"].map(_steps)
    each: list[Any] = table.to_dict("records")
    lines[f"steps to {share}"] = [_known(line["median"], line["at_least"]) for line in each]
    covered = table["coverage"].dropna().unique()
    alike = f"{100 * covered[0]:.4g}% interval" if len(covered) == 1 else "interval"
    lines[alike] = [_interval(line, len(covered) > 1) for line in each]
    lines["range"] = [_range(line) for line in each]
    lines[f"steps to {other}"] = [
        _known(line["other_median"], line["other_at_least"]) for line in each
    ]
    return lines if table["cell"].nunique() > 1 else lines.drop(columns="cell")


def compared(ratios: pd.DataFrame) -> pd.DataFrame:
    """`generalization.ratios` as it is read, without those of which neither median is known."""
    ratios = ratios.dropna(subset=["ratio"])
    each: list[Any] = ratios.to_dict("records")
    lines = pd.DataFrame(
        {
            "field": ratios["field"],
            "at": ratios["shared"],
            "reference": ratios["reference"],
            "value": ratios["other"],
            "reference / value": [f"{x['bound']} {x['ratio']:.3g}".strip() for x in each],
            "95% interval": [_ends(line["low"], line["high"]) for line in each],
            "seeds": ratios["seeds"].astype(str),
        }
    )
    return lines if ratios["shared"].any() else lines.drop(columns="at")


def said(run: Run, table: pd.DataFrame, ratios: pd.DataFrame) -> list[str]:
    """Sentences: the medians over the memory axis with their ratios to the first value; then what
    they must not be read as."""
    if ratios.empty:
        share = _percent(table["share"].iloc[0])
        return [
            f"Steps to {share} are not known: training ended at a smaller share "
            "(optim.stop_validation)."
        ]
    over_axis = ratios[ratios["field"] == run.study.memory_axis]
    lines = table.set_index(["cell", "value"])
    shown = [
        _sentence(str(cell), group, lines)
        for cell, group in over_axis.groupby("shared", sort=False)
    ]
    return [*(shown if len(shown) <= FEW else [_soonest(run, table)]), *_notes(run, table)]


def _sentence(shared: str, ratios: pd.DataFrame, lines: pd.DataFrame) -> str:
    first = ratios.iloc[0]
    reference = lines.loc[(first["reference_cell"], first["reference_value"])]
    others = ratios
    if len(ratios) > LISTED:
        medians = [
            lines.loc[(line["cell"], line["value"]), "median"] for _, line in ratios.iterrows()
        ]
        soonest = int(np.argmin(pd.Series(medians).fillna(np.inf)))
        others = ratios.iloc[[soonest]]
    said = [
        f"{_group(lines.loc[(line['cell'], line['value'])], str(line['other']))}{_times(line)}"
        for _, line in others.iterrows()
    ]
    head = f"{shared}: median" if shared else "Median"
    at = f"{first['field']} {first['reference']}"
    many = f" (the soonest of {len(ratios) + 1} values)" if len(ratios) > LISTED else ""
    share = _percent(reference["share"])
    each = ("; " if len(said) > 1 else ", ").join([_group(reference, at), *said])
    return f"{head} steps to {share}: {each}{many}."


def _group(line: pd.Series, at: str = "") -> str:
    place = f" at {at}" if at else ""
    some = f", {_range(line, 'range ')}" if line["generalized"] else ""
    median = _known(line["median"], line["at_least"])
    return f"{median}{place} ({line['generalized']} of {line['n']}{some})"


def _times(line: pd.Series) -> str:
    ratio, low, high, bound = line["ratio"], line["low"], line["high"], line["bound"]
    if pd.isna(ratio):
        return ""
    word = "fewer"
    if ratio < 1:
        word = "more"
        bound = {"at least": "at most", "at most": "at least"}.get(bound, "")
        ratio, low, high = 1 / ratio, 1 / high, 1 / low if low > 0 else np.inf
    text = f": {bound + ' ' if bound else ''}{ratio:.3g} times {word}"
    if pd.isna(low):
        return f"{text} (n = {line['seeds']} seed, no interval)"
    apart = ", not told apart" if low <= 1 <= high else ""
    return f"{text} (95% bootstrap interval {_ends(low, high)}, n = {line['seeds']} seeds){apart}"


def _ends(low: float, high: float) -> str:
    if pd.isna(low):
        return "-"
    if np.isinf(high):
        return f"{low:.3g} or more" if low else "open"
    return f"{low:.3g} to {high:.3g}" if low else f"{high:.3g} or less"


def _soonest(run: Run, table: pd.DataFrame) -> str:
    share, cells = _percent(table["share"].iloc[0]), table["cell"].nunique()
    known = table.dropna(subset=["median"])
    late = cells - known["cell"].nunique()
    if known.empty:
        return f"In none of {cells} cells half of the networks generalize to {share} at any value."
    first = known.loc[known.groupby("cell", sort=False)["median"].idxmin()]
    counts = first["value"].map(number).value_counts()
    each = ", ".join(f"{value} in {count}" for value, count in counts.items())
    none = f"; in {late} fewer than half generalize at any value" if late else ""
    axis = run.study.memory_axis
    return f"Soonest to {share}, by the median, is {axis} {each} of {cells} cells{none}."


def _notes(run: Run, table: pd.DataFrame) -> list[str]:
    notes = []
    few = table[table["coverage"].isna() & (table["n"] > 0)]["n"]
    if len(few):
        notes.append(f"No interval of {LEVEL:.0%} exists for the median of {few.max()} times.")
    axis = run.study.memory_axis
    for _, lines in table.groupby("cell", sort=False):
        if swapped := _swapped(lines):
            share, other = (_percent(lines[name].iloc[0]) for name in ("share", "other_share"))
            where = f"{lines['label'].iloc[0]}: " if lines["label"].iloc[0] else ""
            one, two = swapped
            notes.append(
                f"{where}{share} and {other} order {axis} differently: {one} is sooner than {two} "
                f"to {share}, and later to {other}."
            )
    return notes


def _swapped(lines: pd.DataFrame) -> tuple[str, str] | None:
    """Two values of which the one sooner to the share is later to the other share."""
    found: list[Any] = lines.dropna(subset=["at_least", "other_at_least"]).to_dict("records")
    for one in found:
        for two in found:
            a, b = (np.nan_to_num(line["median"], nan=np.inf) for line in (one, two))
            c, d = (np.nan_to_num(line["other_median"], nan=np.inf) for line in (one, two))
            if a < b and c > d:
                return number(one["value"]), number(two["value"])
    return None


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _steps(steps: float) -> str:
    return "-" if pd.isna(steps) else f"{steps:,.0f}"


def _known(median: float, least: float) -> str:
    return f"> {_steps(least)}" if pd.isna(median) and pd.notna(least) else _steps(median)


def _interval(line: Any, coverage: bool) -> str:
    if pd.isna(line["coverage"]):
        return "-"
    ends = f"{_steps(line['low'])} or more"
    if np.isfinite(line["high"]):
        ends = f"{_steps(line['low'])} to {_steps(line['high'])}"
    return f"{ends} ({100 * line['coverage']:.4g}%)" if coverage else ends


def _range(line: Any, word: str = "") -> str:
    """From the first to the last; where some are censored, from the first on."""
    if not line["generalized"]:
        return "-"
    first, last = line["first"], line["last"]
    return (
        f"from {_steps(first)}" if np.isinf(last) else f"{word}{_steps(first)} to {_steps(last)}"
    )


def made(run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`generalization.table` and `generalization.ratios`; both empty where no row is of data that
    are generalized as a whole."""
    table = generalization.table(run)
    return table, generalization.ratios(run) if len(table) else pd.DataFrame()


@click.command(cls=Analysis, epilog="Example: python -m analysis.grokking runs/radial")
@click.argument("run", metavar="RUN")
@click.option("--figure", metavar="FILE", help="Draw the curves into a .png or .pdf.")
def main(run: str, figure: str | None) -> None:
    """Say after how many steps the networks of a study generalize."""
    drawable(figure)
    read = tables.read(run)
    table, ratios = made(read)
    if table.empty:
        raise UserError(
            f"{run}: grokking: the study has no data of tokens that are right as a whole"
        )
    click.echo(texts(read, table).to_string(index=False))
    if len(ratios) and len(beside := compared(ratios)):
        click.echo(f"\n{beside.to_string(index=False)}")
    click.echo("\n" + "\n".join(said(read, table, ratios)))
    if figure:
        save(curves.draw(*curves.table(read)), figure)


if __name__ == "__main__":
    main(prog_name="python -m analysis.grokking")
