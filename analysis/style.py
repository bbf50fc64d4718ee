"""How numbers read and how figures look: one hand for all of them.

Colours are perceptually uniform and colour-blind safe, and darker is more; the lightest end is
cut off so that it stands out from the paper.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from initmem.study.spec import word

INK, PALE = "#222222", "#8a8a8a"
HATCHES = {"undertrained": "/", "diverged": "\\", "failed": ".", "missing": "-"}
"""A hatch each, so that a cell with two states shows both."""
DENSITY = 6
SHAPES = {"remembers": "o", "erased": "s", "undecided": "D"}
"""Of marks, by the verdict on the cell."""
TICKS = 5
"""Most on a log axis, unless it has less than two decades to show."""
CROWDED = 100
"""Cells a panel above which marks are small."""

SHORT = {
    "optim.lr": "lr",
    "optim.l2": "L2",
    "optim.weight_decay": "weight decay",
    "data.rho": "rho",
    "data.cosine": "teacher's cosine",
}
LONG = {
    "optim.lr": "learning rate",
    "optim.l2": "L2 penalty",
    "optim.weight_decay": "weight decay",
    "init.scale": "init scale",
    "init.gamma": "gamma",
    "random_labels.strength": "strength of suppression",
}

RC: Any = {
    "font.size": 9,
    "axes.labelsize": 9,
    "axes.titlesize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": PALE,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": PALE,
    "ytick.color": PALE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "hatch.linewidth": 0.9,
    "legend.frameon": False,
    "pdf.fonttype": 42,
}


def number(value: Any) -> str:
    """Three digits, as a person writes them: 0.06, 1e-3, 1000; a dash where there is none."""
    if isinstance(value, str | bool):
        return word(value)
    if pd.isna(value):
        return "-"
    if value == 0:
        return "0"
    if 1e-2 <= abs(value) < 1e6:
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def censored(cells: Any) -> Any:
    """Whether the memory of a cell, or of each of a table, is a lower bound, or unknown for what
    is one."""
    return cells["censored"] > 0 if "censored" in cells else cells["n"] < 0


def least(cell: Any, text: str) -> str:
    """The text of a cell's memory or mean, marked if that is a lower bound; - has none."""
    return f"≥{text}" if censored(cell) and text != "-" else text


def interval(cell: Any) -> str:
    """The 95% interval of a cell's memory in words."""
    upper = "or more" if np.isinf(cell["high"]) else f"to {cell['high']:.1f}"
    return f"{cell['low']:.1f} {upper}"


def chance(p: float) -> str:
    """A p-value: two digits, and no more zeros than anybody reads."""
    if pd.isna(p):
        return "-"
    return "< 1e-4" if p < 1e-4 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


def listed(values: Mapping[Any, Any]) -> str:
    """`lr 0.01, L2 1e-4, optim.batch null`"""
    return ", ".join(
        f"{SHORT.get(field, field)} {word(v) if v is None else number(v)}"
        for field, v in values.items()
    )


def colours(name: str) -> Colormap:
    return ListedColormap(matplotlib.colormaps[name](np.linspace(0.1, 1, 256)), name)


MEMORY, ACCURACY, SETTING = colours("viridis_r"), colours("cividis_r"), colours("viridis_r")


def figure(width: float, height: float) -> Figure:
    """Inches. Without pyplot, so that drawing leaves no state behind."""
    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made


def panels(
    labels: list[str], height: float, foot: float, x: str, y: str, alike: bool = True
) -> tuple[Figure, list[Axes]]:
    """A panel a label, two a row, on the same axes, x and y; `foot` is the room for a legend.
    Panels that are not `alike` have a horizontal axis each."""
    columns = min(2, len(labels))
    rows = -(-len(labels) // columns)
    drawn = figure(7.6, (height if columns > 1 else height + 0.6) * rows + 0.3 + foot)
    grid = drawn.subplots(rows, columns, squeeze=False, sharex=alike, sharey=True)
    for i, panel in enumerate(grid.flat):
        panel.set_visible(i < len(labels))
        lowest = not alike or i + columns >= len(labels)
        panel.tick_params(labelbottom=lowest)
        panel.set_xlabel(LONG.get(x, x) if lowest else "")
    drawn.supylabel(y, fontsize=9)
    for panel, label in zip(grid.flat, labels, strict=False):
        title = textwrap.fill(label, 80 // columns, break_long_words=False)
        panel.set_title(title, loc="left", fontweight="bold")
    return drawn, list(grid.flat[: len(labels)])


def head(axes: Axes, label: str, lines: int) -> None:
    """A label above the title of a panel, which has so many lines; the panels below it have it in
    common. As a title, it takes height in the layout and no width."""
    axes.set_title(label + "\n" * (lines + 1), loc="left", fontweight="bold")


def bar(drawn: Figure, axes: list[Axes], norm: Normalize, label: str) -> None:
    """The colours of SETTING, to the right of the panels."""
    rows = -(-len(axes) // 2)
    made = drawn.colorbar(
        ScalarMappable(norm, SETTING), ax=axes, label=label, aspect=24 * rows, pad=0.02
    )
    if isinstance(norm, LogNorm):
        span(made.ax.yaxis, float(norm.vmin or 0), float(norm.vmax or 0), True)
        made.ax.set_ylim(norm.vmin, norm.vmax)
    made.outline.set_visible(False)


def encoded(drawn: Figure) -> dict[str, bytes]:
    """Suffix -> the file: png and pdf, the same bytes for the same figure."""
    metadata: dict[str, dict[str, Any]] = {
        "png": {"Software": None},
        "pdf": {"CreationDate": None},
    }
    dpi = min(200.0, 60_000 / drawn.get_figheight())  # Agg draws up to 65,536 pixels
    files = {}
    for suffix, more in metadata.items():
        stream = io.BytesIO()
        drawn.savefig(stream, format=suffix, dpi=dpi, metadata=more)
        files[suffix] = stream.getvalue()
    return files


def mark(
    axes: Axes,
    at: tuple[float, float],
    line: Any,
    colour: Any,
    text: str = "",
    small: bool = False,
    hatch: str = "",
) -> None:
    """One cell: a mark in its colour with its number inside, its shape the verdict; an open disc
    if it has none. A hatched rim (the whole disc, if open) says that replicas of it are lost.
    `line` has a verdict and a count for each of HATCHES; `hatch` is one more. Its size is in
    points: 20, or 11 without a number, or 6 if small, too small for hatches."""
    shape = SHAPES.get(line["verdict"], "o")
    size = (20 if text else 6 if small else 11) * {"s": 0.9, "D": 0.85}.get(shape, 1.0)
    lost = hatch * DENSITY + "".join(h * DENSITY for state, h in HATCHES.items() if line[state])
    place: dict[str, Any] = {"zorder": 3, "clip_on": False, "linewidths": 0.7, "edgecolors": INK}
    if (lost and not small) or colour is None:
        outer = size if small else max(size + 9, 18) if colour is not None else 15
        axes.scatter(*at, s=outer**2, marker=shape, facecolors="white", hatch=lost or None,
                     **place)  # fmt: skip
    if colour is not None:
        axes.scatter(*at, s=size**2, marker=shape, color=colour, **place | {"edgecolors": "white"})
        light = np.dot(matplotlib.colors.to_rgb(colour), (0.299, 0.587, 0.114)) > 0.55
        axes.annotate(
            text, at, ha="center", va="center", fontsize=7, color=INK if light else "white",
            zorder=3, annotation_clip=False,
        )  # fmt: skip


def legend_height(points: pd.DataFrame) -> float:
    """Inches that `state_legend` takes."""
    shapes = [name for name in SHAPES if (points["verdict"] == name).any()]
    hatches = [state for state in HATCHES if points[state].any()]
    return 0.3 * -(-len(shapes + hatches) // 4)


def state_legend(drawn: Figure, points: pd.DataFrame, more: Sequence[Patch] = ()) -> None:
    """Which hatch is which state, below the figure, for the states that occur, and `more`."""
    names = {"missing": "not trained yet"}
    shapes: list[Any] = [
        Line2D([], [], ls="", marker=shape, ms=8, color=PALE, label=verdict)
        for verdict, shape in SHAPES.items()
        if (points["verdict"] == verdict).any()
    ]
    patches = [
        Patch(
            fc="white", ec=INK, lw=0.7, hatch=HATCHES[s] * DENSITY,
            label=f"some replicas {names.get(s, s)}",
        )
        for s in HATCHES
        if points[s].any()
    ]  # fmt: skip
    if handles := [*shapes, *patches, *more]:
        drawn.legend(
            handles=handles, loc="outside lower center", ncols=4, handlelength=2.2,
            handleheight=1.4, fontsize=8,
        )  # fmt: skip


def _ticks(low: float, high: float, bottom: float, top: float) -> list[float]:
    """Of a log axis from bottom to top, whose data lie from low to high: the densest of three
    patterns with up to TICKS, but at least two among the data."""
    decades = range(int(np.floor(np.log10(bottom))), int(np.ceil(np.log10(top))) + 1)
    sparse: list[float] = []
    for steps in ((1,), (1, 2, 5), (1, 2, 3, 4, 6)):
        places = [k * 10.0**d for d in decades[:: len(decades) // 8 + 1] for k in steps]
        places = [place for place in places if bottom <= place <= top]
        if len(places) > TICKS and sum(low <= place <= high for place in sparse) >= 2:
            break
        sparse = places
    return sparse


def span(axis: Axis, low: float, high: float, log: bool, zero: float | None = None) -> None:
    """Limits a little outside low and high, and ticks as `number` writes them. `zero` is where
    on a log axis, below low, a value of 0 stands."""
    axes, name = axis.axes, axis.axis_name  # type: ignore[attr-defined]  # not in the stubs
    if not log:
        spare = 0.09 * (high - low)
        if spare < 1e-6:  # one value, or several that no axis tells apart
            spare = max(abs(high), 1.0) * 0.1
        getattr(axes, f"set_{name}lim")(low - spare, high + spare)
        return
    getattr(axes, f"set_{name}scale")("log")
    least = low if zero is None else zero
    spare = (high / least) ** 0.09 if high > least else 2.0
    getattr(axes, f"set_{name}lim")(least / spare, high * spare)
    bottom = least / spare if zero is None else low / 1.01
    places = _ticks(low, high, bottom, high * spare)
    texts = [number(place) for place in places]
    if zero is not None:
        places, texts = [zero, *places], ["0", *texts]
    axis.set_major_locator(FixedLocator(places))
    axis.set_major_formatter(FixedFormatter(texts))
    axis.set_minor_locator(NullLocator())
