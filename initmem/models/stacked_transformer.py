"""The Transformer of `transformer.py` for R replicas at once, at a fraction of its arithmetic.

It answers at its last position alone, so the last block has one query, one MLP input and one
output per sequence. The input of the first block at a position depends on the token there and on
nothing else, so its keys, values and scores are tables over tokens, computed once and gathered.
Both are exact: logits and gradients are the module's up to rounding.

Activations are [R, L, B, ...]: a softmax or a sum over the few positions then runs along long
rows, and the last position is one piece of memory per replica.

On a CPU, vectorized loops and threads divide a tensor by its size, and elements at the end of a
share are rounded otherwise than those amid it. What could differ so (products, GELU, softmax,
sums over positions) runs one replica at a time: its bits do not depend on the others.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from initmem.models import per_replica

Parameters = dict[str, Tensor]


def transformer(parameters: Parameters, tokens_RBL: Tensor, heads: int) -> Tensor:
    """Logits_RCB, a transposed view of [R, B, C].

    parameters: the module's, by name, each [R, *shape]. Depth and norm follow from the names.
    """
    tokens_RLB = tokens_RBL.transpose(1, 2)
    embeddings_RVD = parameters["stem.tokens.weight"]
    positions_RL1D = parameters["stem.positions.weight"][:, :, None]
    L, B = tokens_RLB.shape[1:]
    V = embeddings_RVD.shape[1]
    depth = sum(name.endswith(".qkv.weight") for name in parameters)
    tabled = _tabled(V, L, B)
    if not tabled:
        x_RLBD = _rows(embeddings_RVD, tokens_RLB) + positions_RL1D
    for layer in range(depth):
        block = _within(parameters, f"body.{layer}.")
        queries = 1 if layer == depth - 1 else L  # of positions, counted from the last
        if layer == 0 and tabled:
            x_RTD = (embeddings_RVD[:, None] + positions_RL1D).flatten(1, 2)
            starts_L1 = torch.arange(0, L * V, V, device=tokens_RLB.device)[:, None]
            rows_RLB = tokens_RLB + starts_L1
            y_RQBD = _attend_by_table(block, x_RTD, rows_RLB, heads, queries)
            x_RQBD = _rows(x_RTD, rows_RLB[:, L - queries :])
        else:
            y_RQBD = _attend(block, x_RLBD, heads, queries)
            x_RQBD = x_RLBD[:, L - queries :]
        x_RQBD = x_RQBD + _linear(y_RQBD, block["out.weight"])
        hidden_RQBE = per_replica.gelu(
            _linear(_normed(x_RQBD, block, "norm2."), block["up.weight"])
        )
        x_RLBD = x_RQBD + _linear(hidden_RQBE, block["down.weight"])
    x_R1BD = _normed(x_RLBD, parameters, f"body.{depth}.")
    return _linear(x_R1BD, parameters["head.weight"])[:, 0].mT


def _tabled(vocabulary: int, length: int, batch: int) -> bool:
    """Whether tables cost less than the batch. Of one replica's shape alone: its bits follow.

    The table of scores grows with vocabulary**2; at width 128 it breaks even near 64 * batch.
    """
    return length * vocabulary < batch and vocabulary**2 < 64 * batch


def _attend_by_table(
    block: Parameters, x_RTD: Tensor, rows_RLB: Tensor, heads: int, queries: int
) -> Tensor:
    """`_attend` where the input at position l of sequence b is row rows_RLB[:, l, b] of x_RTD."""
    R, L, _ = rows_RLB.shape
    T = x_RTD.shape[1]
    first = (L - queries) * T // L  # row of the first position that asks
    q_RSD, k_RTD, v_RTD = _projections(block, x_RTD, x_RTD[:, first:])
    # G: replicas and heads. Contiguous also for one replica: the layout too decides bits.
    q_GSK, k_GTK = (
        x.unflatten(-1, (heads, -1)).transpose(1, 2).flatten(0, 1).contiguous()
        for x in (q_RSD, k_RTD)
    )
    scores_GST = per_replica.product(_scaled(q_GSK), k_GTK.mT).to(x_RTD.dtype)
    scores_RPH = scores_GST.view(R, heads, -1).mT  # P: pairs, query major
    v_RLBHK = _rows(v_RTD.to(x_RTD.dtype), rows_RLB).unflatten(-1, (heads, -1))
    answers = []
    for place in range(L - queries, L):
        pairs_RJB = (rows_RLB[:, place, None] - first) * T + rows_RLB[:, : place + 1]
        answers.append(_mix(_rows(scores_RPH, pairs_RJB), v_RLBHK[:, : place + 1]))
    return torch.stack(answers, 1)


def _attend(block: Parameters, x_RLBD: Tensor, heads: int, queries: int) -> Tensor:
    """Causal attention of the last positions, y_RQBD, before its output matrix."""
    L = x_RLBD.shape[1]
    q_RQBD, k_RLBD, v_RLBD = _projections(block, x_RLBD, x_RLBD[:, L - queries :])
    q_RQBHK = _scaled(q_RQBD.unflatten(-1, (heads, -1)))
    k_RLBHK = k_RLBD.unflatten(-1, (heads, -1))
    v_RLBHK = v_RLBD.unflatten(-1, (heads, -1))
    answers = []
    for query, place in enumerate(range(L - queries, L)):
        scores_RJBH = (q_RQBHK[:, query, None] * k_RLBHK[:, : place + 1]).sum(-1)
        answers.append(_mix(scores_RJBH, v_RLBHK[:, : place + 1]))
    return torch.stack(answers, 1)


def _projections(block: Parameters, x: Tensor, asking: Tensor) -> list[Tensor]:
    """Queries of `asking`, keys and values of x, each [R, ..., D]."""
    D = x.shape[-1]
    q_RDD, kv_REd = block["qkv.weight"].split([D, 2 * D], 1)
    kv = _linear(_normed(x, block, "norm1."), kv_REd)
    return [_linear(_normed(asking, block, "norm1."), q_RDD), *kv.split(D, -1)]


def _scaled(q: Tensor) -> Tensor:
    return q * q.shape[-1] ** -0.5


def _mix(scores_RJBH: Tensor, v_RJBHK: Tensor) -> Tensor:
    """Values weighted by the softmax of scores over J, [R, B, D]."""
    weights_RJBH = torch.stack([torch.softmax(scores_JBH, 0) for scores_JBH in scores_RJBH])
    return per_replica.total(weights_RJBH.to(v_RJBHK.dtype)[..., None] * v_RJBHK).flatten(-2)


def _rows(table_RTE: Tensor, rows: Tensor) -> Tensor:
    """Rows [R, ...] of each replica's own table, [R, ..., E].

    By F.embedding: indexing takes five times as long, and its gradient has no fixed order.
    """
    R, T = table_RTE.shape[:2]
    starts = torch.arange(0, R * T, T, device=rows.device).view(R, *[1] * (rows.dim() - 1))
    return F.embedding(rows + starts, table_RTE.reshape(R * T, -1))


def _linear(x: Tensor, weight_RED: Tensor) -> Tensor:
    """[R, ..., D] times each replica's own matrix, [R, ..., E]."""
    return per_replica.product(x.flatten(1, -2), weight_RED.mT).unflatten(1, x.shape[1:-1])


def _normed(x: Tensor, parameters: Parameters, prefix: str) -> Tensor:
    """LayerNorm if there is a bias, RMSNorm if only a weight, else x itself."""
    weight_RD, bias_RD = (parameters.get(prefix + name) for name in ("weight", "bias"))
    if weight_RD is None:
        return x
    shape = (len(weight_RD), *[1] * (x.dim() - 2), -1)
    if bias_RD is None:
        return F.rms_norm(x, x.shape[-1:]) * weight_RD.view(shape)
    return F.layer_norm(x, x.shape[-1:]) * weight_RD.view(shape) + bias_RD.view(shape)


def _within(parameters: Parameters, prefix: str) -> Parameters:
    return {n.removeprefix(prefix): p for n, p in parameters.items() if n.startswith(prefix)}
