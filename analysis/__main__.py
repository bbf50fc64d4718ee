"""python -m analysis RUN: the report of a run folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from analysis import answer, report, tables
from initmem.study.spec import UserError


@click.command(epilog="Example: python -m analysis runs/digits")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
def main(run: Path) -> None:
    """Write RUN/report/: report.html, cells.parquet, cells.csv and the figures.

    RUN is the folder of a study's run, finished or not.
    """
    try:
        read = tables.read(run)
        said = report.write(read, run / "report")
    except UserError as error:
        _stop(str(error))
    except OSError as error:
        _stop(f"{error.filename or run}: report: cannot be written: {error.strerror}")
    click.echo(said)
    if len(read.rows) < read.planned:
        click.echo(answer.progress(read))
    click.echo(f"report: {os.path.join(run, 'report', 'report.html')}")


def _stop(text: str) -> None:
    click.echo(text, err=True)
    sys.exit(2)


if __name__ == "__main__":
    main(prog_name="python -m analysis")
