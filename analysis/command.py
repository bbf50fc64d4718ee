"""What the commands of the analysis share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from matplotlib.figure import Figure

from analysis import style
from initmem.study.spec import UserError


class Analysis(click.Command):
    """What a user can mend is said on stderr, and the exit status is 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            click.echo(str(error), err=True)
            sys.exit(2)


def drawable(path: str | None) -> None:
    """Raises UserError where no figure can be written to the path, or its folder is not there."""
    if path and Path(path).suffix not in (".png", ".pdf"):
        raise UserError(f"{path}: figure: must end in .png or .pdf")
    if path and not Path(path).parent.is_dir():
        raise UserError(f"{path}: figure: {Path(path).parent} is no folder")


def save(drawn: Figure, path: str) -> None:
    Path(path).write_bytes(style.encoded(drawn)[Path(path).suffix[1:]])
