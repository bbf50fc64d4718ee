"""What the commands of the analysis share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from matplotlib.figure import Figure

from analysis import style, tables
from analysis.tables import Run
from initmem.study.spec import UserError, told


class Analysis(click.Command):
    """A command that reads runs."""

    def invoke(self, ctx: click.Context) -> Any:
        with told():
            return super().invoke(ctx)


def drawable(path: str | None) -> None:
    """Raises UserError where no figure can be written to the path, or its folder is not there."""
    if path and Path(path).suffix not in (".png", ".pdf"):
        raise UserError(f"{path}: figure: must end in .png or .pdf")
    if path and not Path(path).parent.is_dir():
        raise UserError(f"{path}: figure: {Path(path).parent} is no folder")


def save(drawn: Figure, path: str) -> None:
    Path(path).write_bytes(style.encoded(drawn)[Path(path).suffix[1:]])


FIGURES = click.option(
    "--figures", metavar="FOLDER", help="Draw the figures into a folder, as png."
)


def show(run: str, figures: str | None, view: Callable[[Run], dict[str, Any]], needs: str) -> None:
    """Print the table and the sentences of a section of the page, and draw its figures.

    view: of a run, its table, said and figures. Raises UserError where there is no such folder,
    or the table is empty, for the study is none with `needs`.
    """
    if figures and not Path(figures).is_dir():
        raise UserError(f"{figures}: figures: is no folder")
    seen = view(tables.read(run))
    if seen["table"].empty:
        raise UserError(f"{run}: analysis: needs a study with {needs}")
    click.echo(seen["table"].to_string(index=False))
    click.echo("\n" + "\n".join(seen["said"]))
    for name, drawn in seen["figures"].items() if figures else ():
        save(drawn, str(Path(figures or "") / f"{name}.png"))
