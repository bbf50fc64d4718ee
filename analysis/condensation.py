"""Which rows of a weight matrix have become one direction: their cosines after training."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from analysis import style
from analysis.curves import chosen, having
from analysis.differences import labels
from analysis.ood import mean_of
from analysis.readings import evenly
from analysis.tables import Run

CELLS, VALUES = 4, 5
"""Shown at most: as rows and columns of the figure."""
ALIKE = 0.7
"""|cosine| from which two rows count as one direction (arXiv 2405.05409)."""


def table(run: Run) -> pd.DataFrame:
    """The cosines of the first seed that has them, for each cell and value of the memory axis that
    is shown. Columns: cell (label), axis (the memory axis), value, seed, row and column (places
    in the order of clusters), cosine. Empty where no row has cosines."""
    axis, names = run.study.memory_axis, labels(run)
    if "cosines" not in run.rows:
        return pd.DataFrame()
    rows = run.rows.dropna(subset=["cosines"]).sort_values("seed", kind="stable")
    rows = rows.drop_duplicates(["cell", axis])
    there = set(rows["cell"])
    cells = chosen(run, [cell for cell in run.cells["cell"] if cell in there], CELLS)
    values = evenly(np.array(run.study.axes[axis], dtype=object), VALUES)
    found = []
    for cell in cells:
        for value in values:
            of_value = rows[(rows["cell"] == cell) & (rows[axis] == value)]
            if len(of_value):
                cosine_KK = ordered(unpacked(of_value["cosines"].iloc[0]))
                row_KK, column_KK = np.indices(cosine_KK.shape)
                places = {"row": row_KK.ravel(), "column": column_KK.ravel()}
                found.append(
                    pd.DataFrame({**places, "cosine": cosine_KK.ravel()}).assign(
                        cell=names[cell], axis=axis, value=value, seed=of_value["seed"].iloc[0]
                    )
                )
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def said(run: Run) -> list[str]:
    """Up to CELLS sentences, one a cell: the mean |cosine| of the rows of the first matrix behind
    the stem before and after training, for each value of the memory axis (probe condensation)."""
    axis, names = run.study.memory_axis, labels(run)
    rows = having(run.rows, "readings")
    sentences = []
    for cell in chosen(run, list(rows["cell"].unique()), CELLS):
        texts, where = [], ""
        for value in run.study.axes[axis]:
            of_value = rows[(rows["cell"] == cell) & (rows[axis] == value)]
            ends = [_sizes(readings) for readings in of_value["readings"]]
            ends = [found for found in ends if len(found)]
            if not ends:
                continue
            where = ends[0]["where"].iloc[0]
            first, last = (np.array([found["value"].iloc[i] for found in ends]) for i in (0, -1))
            mean, low, high = mean_of(last, most=1.0)
            between = "" if np.isnan(low) else f" (95% {low:.2f} to {high:.2f})"
            texts.append(
                f"{first.mean():.2f} to {mean:.2f}{between} at {axis} {style.number(value)}"
            )
        if texts:
            head = f"{names[cell]}: mean" if names[cell] else "Mean"
            sentences.append(
                f"{head} |cosine| of the rows of {where}, before and after training, over seeds: "
                f"{'; '.join(texts)}."
            )
    return sentences


def _sizes(readings: Any) -> pd.DataFrame:
    """Of one network: the readings of the first matrix behind the stem, by step."""
    found = pd.DataFrame(list(readings))
    found = found[(found["quantity"] == "mean_abs_cosine") & ~found["where"].str.match(r"stem\.")]
    return found[found["where"] == found["where"].iloc[0]].dropna() if len(found) else found


def unpacked(cosines: bytes) -> np.ndarray:
    """The column `cosines` of a row -> cosines [k, k]."""
    flat = np.frombuffer(cosines, dtype=np.int8) / 100
    size = round(len(flat) ** 0.5)
    return flat.reshape(size, size)


def ordered(cosine_KK: np.ndarray) -> np.ndarray:
    """With rows of one direction side by side: the leaves of a hierarchical clustering (average
    linkage of 1 - cosine), the most alike beside each other."""
    if len(cosine_KK) < 3:
        return cosine_KK
    distance_KK = np.clip(1 - cosine_KK, 0, None)
    np.fill_diagonal(distance_KK, 0)
    pairs = squareform(distance_KK, checks=False)
    order = leaves_list(linkage(pairs, "average", optimal_ordering=True))
    return cosine_KK[np.ix_(order, order)]


def draw(cosines: pd.DataFrame) -> Figure:
    """What `table` gives, if it has cosines: a row a cell, a column a value."""
    with matplotlib.rc_context(style.RC):
        return _draw(cosines)


def _draw(cosines: pd.DataFrame) -> Figure:
    cells, values = list(cosines["cell"].unique()), list(cosines["value"].unique())
    colours, norm = "RdBu_r", Normalize(-1, 1)
    columns = max(3, len(values))
    size = 7.0 / columns
    drawn = style.figure(7.6, (size + 0.65) * len(cells) + 0.2)
    grid = drawn.subplots(len(cells), columns, squeeze=False)
    for axis in grid.flat:
        axis.set_axis_off()
    for row, cell in zip(grid, cells, strict=True):
        for axis, value in zip(row, values, strict=False):
            of = cosines[(cosines["cell"] == cell) & (cosines["value"] == value)]
            if of.empty:
                continue
            cosine_KK = of.pivot(index="row", columns="column", values="cosine").to_numpy()
            axis.imshow(cosine_KK, cmap=colours, norm=norm, interpolation="nearest")
            name = f"{of['axis'].iloc[0]} {style.number(value)}"
            axis.set_title(f"{name}\n{_alike(cosine_KK)}", fontsize=8)
        if cell:
            style.head(row[0], cell, 2)
    bar = drawn.colorbar(
        ScalarMappable(norm, colours),
        ax=list(grid.flat),
        label="cosine",
        aspect=20,
        pad=0.02,
        shrink=0.8 / len(cells),
        anchor=(0, 1),
    )
    bar.outline.set_visible(False)
    return drawn


def _alike(cosine_KK: np.ndarray) -> str:
    size_P = np.abs(cosine_KK[np.triu_indices(len(cosine_KK), 1)])
    return f"{(size_P > ALIKE).mean():.0%} alike" if len(size_P) else ""
