"""python -m analysis RUN: the report of a run folder."""

from __future__ import annotations

import click

from analysis import answer, forgetting_clock, report, tables
from analysis.command import Analysis
from initmem.records.files import files_at
from initmem.study.address import below
from initmem.study.spec import one_line


@click.command(cls=Analysis, epilog="Example: python -m analysis runs/digits")
@click.argument("run", metavar="RUN")
@forgetting_clock.MORE
def main(run: str, more: tuple[str, ...]) -> None:
    """Write RUN/report/: report.html, cells.parquet, cells.csv and the figures.

    RUN is the folder of a study's run, finished or not.
    """
    read = tables.read(run)
    said = report.write(read, files_at(run), forgetting_clock.chosen(more))
    click.echo(said)
    if len(read.rows) < read.planned:
        click.echo(answer.progress(read))
    click.echo(one_line(f"report: {below(run, 'report/report.html')}"))


if __name__ == "__main__":
    main(prog_name="python -m analysis")
