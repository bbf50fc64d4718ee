"""python -m analysis.differences RUN: which cells remember more than which, seed by seed."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import click
import pandas as pd

from analysis import style, tables
from analysis.command import Analysis
from analysis.tables import Run
from initmem.memory.difference import difference
from initmem.study.spec import UserError

MOST = 12
"""Cells up to which every pair is compared."""


def table(run: Run) -> pd.DataFrame:
    """A line for each pair of cells of a study with up to MOST, the least p first.
    Columns: more and less (labels of the cells), difference (of their memory, in the unit of the
    measure), low and high (95%, of one pair), p (times the number of pairs), seeds, best and worst
    (values of the memory axis that it is taken between). Empty where no pair has two seeds in
    common; without pairs one of whose memories is but a lower bound."""
    if not 2 <= len(run.cells) <= MOST:
        return pd.DataFrame()
    names = labels(run)
    rows: dict[str, Any] = {name: g.to_dict("records") for name, g in run.rows.groupby("cell")}  # type: ignore[misc]  # names are text
    pairs = list(combinations(run.cells["cell"], 2))
    lines = []
    for one, other in pairs:
        found = difference(rows[one], rows[other], run.study.measure)
        if found is None:
            continue
        more, less = (one, other) if found.mean >= 0 else (other, one)
        sign = 1 if found.mean >= 0 else -1
        low, high = sorted((sign * found.low, sign * found.high))
        lines.append(
            {
                "more": names[more],
                "less": names[less],
                "difference": abs(found.mean),
                "low": low,
                "high": high,
                "p": min(1.0, found.p * len(pairs)),
                "seeds": found.seeds,
                "best": found.best,
                "worst": found.worst,
            }
        )
    made = pd.DataFrame(lines)
    return made if made.empty else made.sort_values("p", kind="stable", ignore_index=True)


def labels(run: Run) -> dict[str, str]:
    """Cell -> what tells it from others: its arm and its point."""
    found = {}
    for line in run.cells.to_dict("records"):
        point = style.listed({field: line[field] for field in run.study.ranges})
        found[line["cell"]] = ", ".join(filter(None, [run.arms[line["arm"]], point]))
    return found


@click.command(cls=Analysis, epilog="Example: python -m analysis.differences runs/decay_window")
@click.argument("run", metavar="RUN")
def main(run: str) -> None:
    """Say which cells of a study remember more than which."""
    found = table(tables.read(run))
    if found.empty:
        raise UserError(f"{run}: differences: needs 2 to {MOST} cells, with two seeds in common")
    for line in found.to_dict("records"):
        ends = f"({line['low']:.1f} to {line['high']:.1f})"
        said = f"{line['difference']:5.1f} {ends:15} p {style.chance(line['p']):7}"
        click.echo(f"{said} {line['more']}  >  {line['less']}")


if __name__ == "__main__":
    main(prog_name="python -m analysis.differences")
