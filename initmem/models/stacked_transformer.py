"""The Transformer of `transformer.py` for R replicas at once, at a fraction of its arithmetic.

It answers at its last position alone, so the last block has one query, one MLP input and one
output per sequence. The input of the first block at a position depends on the token there and on
nothing else, so its keys, values and scores are tables over tokens, computed once and gathered.
Both are exact: logits and gradients are the module's up to rounding.

Activations are [R, L, B, ...]: a softmax or a sum over the few positions then runs along long
rows, and the last position is one piece of memory per replica.

On a CPU, vectorized loops and threads divide a tensor by its size, and elements at the end of a
share are rounded otherwise than those amid it. What could differ so (products, GELU, sigmoid,
softmax, sums over positions) runs one replica at a time: its bits do not depend on the others.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from initmem.models import per_replica

Parameters = dict[str, Tensor]
Fields = dict[str, Any]
"""Of the section in `study/model_section.py`."""

ACTIVATIONS = {"relu": torch.relu, "gelu": per_replica.gelu}


def transformer(parameters: Parameters, tokens_RBL: Tensor, fields: Fields) -> Tensor:
    """Logits_RCB, a transposed view of [R, B, C].

    parameters: the module's, by name, each [R, *shape]. Sizes follow from them.
    """
    tokens_RLB = tokens_RBL.transpose(1, 2)
    embeddings_RVD = parameters["stem.tokens.weight"]
    L, B = tokens_RLB.shape[1:]
    R, V, D = embeddings_RVD.shape
    depth = fields["depth"]
    if fields["positions"] == "learned":
        positions_RL1D = parameters["stem.positions.weight"][:, :, None]
    else:
        positions_RL1D = embeddings_RVD.new_zeros(R, L, 1, D)
    tabled = _tabled(V, L, B)
    if not tabled:
        x_RLBD = per_replica.rows(embeddings_RVD, tokens_RLB) + positions_RL1D
    for layer in range(depth):
        block = _within(parameters, f"body.{layer}.")
        queries = 1 if layer == depth - 1 else L  # of positions, counted from the last
        if layer == 0 and tabled:
            x_RTD = (embeddings_RVD[:, None] + positions_RL1D).flatten(1, 2)
            starts_L1 = torch.arange(0, L * V, V, device=tokens_RLB.device)[:, None]
            rows_RLB = tokens_RLB + starts_L1
            y_RQBI = _attend_by_table(block, x_RTD, rows_RLB, fields, queries)
            x_RQBD = per_replica.rows(x_RTD, rows_RLB[:, L - queries :])
        else:
            y_RQBI = _attend(block, x_RLBD, fields, queries)
            x_RQBD = x_RLBD[:, L - queries :]
        x_RQBD = x_RQBD + _linear(y_RQBI, block["out.weight"])
        x_RQBD = _normed(x_RQBD, block, "norm1.", fields, at="post")
        up_RQBE = _linear(_normed(x_RQBD, block, "norm2.", fields, at="pre"), block["up.weight"])
        hidden_RQBE = ACTIVATIONS[fields["activation"]](up_RQBE)
        x_RLBD = x_RQBD + _linear(hidden_RQBE, block["down.weight"])
        x_RLBD = _normed(x_RLBD, block, "norm2.", fields, at="post")
    x_R1BD = _normed(x_RLBD, parameters, f"body.{depth}.", fields, at="pre")
    return _linear(x_R1BD, parameters["head.weight"])[:, 0].mT


def _tabled(vocabulary: int, length: int, batch: int) -> bool:
    """Whether tables cost less than the batch. Of one replica's shape alone: its bits follow.

    The table of scores grows with vocabulary**2; at width 128 it breaks even near 64 * batch.
    """
    return length * vocabulary < batch and vocabulary**2 < 64 * batch


def _attend_by_table(
    block: Parameters, x_RTD: Tensor, rows_RLB: Tensor, fields: Fields, queries: int
) -> Tensor:
    """`_attend` where the input at position l of sequence b is row rows_RLB[:, l, b] of x_RTD."""
    R, L, _ = rows_RLB.shape
    T, heads = x_RTD.shape[1], fields["heads"]
    first = (L - queries) * T // L  # row of the first position that asks
    q_RSI, k_RTI, v_RTI, gate_RSI = _projections(block, x_RTD, x_RTD[:, first:], fields)
    # G: replicas and heads. Contiguous also for one replica: the layout too decides bits.
    q_GSK, k_GTK = (
        x.unflatten(-1, (heads, -1)).transpose(1, 2).flatten(0, 1).contiguous()
        for x in (q_RSI, k_RTI)
    )
    scores_GST = per_replica.product(_scaled(q_GSK), k_GTK.mT).to(x_RTD.dtype)
    scores_RPH = scores_GST.view(R, heads, -1).mT  # P: pairs, query major
    v_RLBI = per_replica.rows(v_RTI.to(x_RTD.dtype), rows_RLB)
    v_RLBHK = v_RLBI.unflatten(-1, (heads, -1))
    answers = []
    for place in range(L - queries, L):
        pairs_RJB = (rows_RLB[:, place, None] - first) * T + rows_RLB[:, : place + 1]
        scores_RJBH = per_replica.rows(scores_RPH, pairs_RJB)
        answers.append(_mix(scores_RJBH, v_RLBHK[:, : place + 1]))
    y_RQBI = torch.stack(answers, 1)
    if gate_RSI is None:
        return y_RQBI
    return y_RQBI * per_replica.rows(gate_RSI, rows_RLB[:, L - queries :] - first)


def _attend(block: Parameters, x_RLBD: Tensor, fields: Fields, queries: int) -> Tensor:
    """Causal attention of the last positions, y_RQBI, before its output matrix."""
    L, heads = x_RLBD.shape[1], fields["heads"]
    q_RQBI, k_RLBI, v_RLBI, gate_RQBI = _projections(
        block, x_RLBD, x_RLBD[:, L - queries :], fields
    )
    q_RQBHK = _scaled(q_RQBI.unflatten(-1, (heads, -1)))
    k_RLBHK = k_RLBI.unflatten(-1, (heads, -1))
    v_RLBHK = v_RLBI.unflatten(-1, (heads, -1))
    answers = []
    for query, place in enumerate(range(L - queries, L)):
        scores_RJBH = (q_RQBHK[:, query, None] * k_RLBHK[:, : place + 1]).sum(-1)
        answers.append(_mix(scores_RJBH, v_RLBHK[:, : place + 1]))
    y_RQBI = torch.stack(answers, 1)
    return y_RQBI if gate_RQBI is None else y_RQBI * gate_RQBI


def _projections(
    block: Parameters, x: Tensor, asking: Tensor, fields: Fields
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Queries of `asking`, keys and values of x, each [R, ..., I], and the gate of `asking`."""
    inner = block["out.weight"].shape[-1]
    q_RID, kv_REd = block["qkv.weight"].split([inner, 2 * inner], 1)
    k, v = _linear(_normed(x, block, "norm1.", fields, at="pre"), kv_REd).split(inner, -1)
    asking = _normed(asking, block, "norm1.", fields, at="pre")
    gate = per_replica.sigmoid(_linear(asking, block["gate.weight"])) if fields["gated"] else None
    return _linear(asking, q_RID), k, v, gate


def _scaled(q: Tensor) -> Tensor:
    return q * q.shape[-1] ** -0.5


def _mix(scores_RJBH: Tensor, v_RJBHK: Tensor) -> Tensor:
    """Values weighted by the softmax of scores over J, [R, B, D]."""
    weights_RJBH = torch.stack([torch.softmax(scores_JBH, 0) for scores_JBH in scores_RJBH])
    return per_replica.total(weights_RJBH.to(v_RJBHK.dtype)[..., None] * v_RJBHK).flatten(-2)


def _linear(x: Tensor, weight_RED: Tensor) -> Tensor:
    """[R, ..., D] times each replica's own matrix, [R, ..., E]."""
    return per_replica.product(x.flatten(1, -2), weight_RED.mT).unflatten(1, x.shape[1:-1])


def _normed(x: Tensor, parameters: Parameters, prefix: str, fields: Fields, at: str) -> Tensor:
    """x, normed where norms are at this place."""
    if fields["norm"] == "none" or fields["norm_at"] != at:
        return x
    weight_RD, eps = parameters[prefix + "weight"], fields["norm_eps"]
    shape = (len(weight_RD), *[1] * (x.dim() - 2), -1)
    if fields["norm"] == "rms":
        return F.rms_norm(x, x.shape[-1:], eps=eps) * weight_RD.view(shape)
    normed = F.layer_norm(x, x.shape[-1:], eps=1e-5 if eps is None else eps)
    return normed * weight_RD.view(shape) + parameters[prefix + "bias"].view(shape)


def _within(parameters: Parameters, prefix: str) -> Parameters:
    return {n.removeprefix(prefix): p for n, p in parameters.items() if n.startswith(prefix)}
