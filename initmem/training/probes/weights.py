"""What shape the weight matrices have: their spectra, and whether their rows condense."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from initmem.models.taps import taps
from initmem.training.probes.looking import Values, first, matrices, outputs

if TYPE_CHECKING:
    from initmem.training.replica import Training

ALIKE = 0.7
"""|cosine| above which two rows count as one direction, as in arXiv 2405.05409; the code of arXiv
2501.08537 groups at 0.4."""
SHOWN = 64
"""Rows whose cosines are kept."""


@torch.no_grad()
def rank(training: Training) -> Values:
    """effective_rank, participation_ratio and stable_rank of each weight matrix, see `ranks`, and
    the effective_rank of the pre-activations at each tap, as a matrix [N, d] of the hidden vectors
    of the first 512 validation examples."""
    values = {}
    for name, matrix in matrices(training.network).items():
        for quantity, value in ranks(singular_values(matrix)).items():
            values[quantity, name] = value
    with outputs(taps(training.network, "pre")) as hidden:
        training.forward(first(training.data.validation).inputs)
    for name, h in hidden.items():
        spectrum = singular_values(h.flatten(0, -2))
        values["effective_rank", name] = ranks(spectrum)["effective_rank"]
    return values


def singular_values(matrix: Tensor) -> Tensor:
    """Float64, from the largest; nan where the matrix is not finite."""
    if not matrix.isfinite().all():
        return torch.full((min(matrix.shape),), math.nan)
    return torch.linalg.svdvals(matrix.double())


def ranks(s: Tensor) -> dict[str, float]:
    """Of singular values s. effective_rank: exp(-sum p log p) with p = s / sum s (Roy and Vetterli
    2007); participation_ratio: (sum s)^2 / sum s^2 (arXiv 2605.04396); stable_rank: sum s^2 over
    the largest s^2. Each is r where r singular values are equal and the others 0, and nan of a
    matrix of zeros."""
    entropy = torch.special.entr(s / s.sum()).sum()
    return {
        "effective_rank": entropy.exp().item(),
        "participation_ratio": (s.sum().square() / s.square().sum()).item(),
        "stable_rank": (s.square().sum() / s.max().square()).item(),
    }


def condensation(training: Training) -> Values:
    """Over pairs of rows of each weight matrix, but for rows of zeros: mean_abs_cosine, the mean
    of |cosine|, and share_alike, the share with |cosine| above 0.7. arXiv 2405.05409 groups rows
    at 0.7, the code of 2501.08537 at 0.4. nan where there is no pair."""
    values = {}
    for name, matrix in matrices(training.network).items():
        there = matrix[matrix.any(dim=1)]
        one, other = torch.triu_indices(len(there), len(there), 1, device=matrix.device)
        sizes = cosines(there)[one, other].abs()
        alike = (sizes > ALIKE).double().where(sizes.isfinite(), sizes)
        values["mean_abs_cosine", name] = sizes.mean().item()
        values["share_alike", name] = alike.mean().item()
    return values


def cosines(matrix: Tensor) -> Tensor:
    """Of each row [O, D] with each, float64 [O, O]; 0 for a row of zeros."""
    rows = matrix.double()
    rows = rows / rows.norm(dim=1, keepdim=True).where(rows.any(dim=1, keepdim=True), 1.0)
    return rows @ rows.T


def packed_cosines(network: nn.Module) -> bytes:
    """The cosines of the first k <= 64 rows of the first hidden weight matrix, k x k bytes, row by
    row: int8, 100 times the cosine. That is the first layer that is no embedding; of a decoder the
    queries of the first block."""
    embeddings = {n for n, m in network.named_modules() if isinstance(m, nn.Embedding)}
    first_hidden = next(
        matrix
        for name, matrix in matrices(network).items()
        if name.removesuffix(".weight") not in embeddings
    )
    hundredths = (100 * cosines(first_hidden[:SHOWN])).round()
    return bytes(hundredths.to(torch.int8).cpu().numpy())
