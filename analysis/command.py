"""What the commands of the analysis share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from matplotlib.figure import Figure

from analysis import style
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
