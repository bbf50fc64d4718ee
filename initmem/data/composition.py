"""Composed functions: what one who has understood answers, and one who knows pairs by heart."""

from __future__ import annotations

import torch
from torch import Tensor

from initmem.data.dataset import Dataset, Split, assemble_tokens, draw, order
from initmem.study.seeds import fold
from initmem.study.token_data import Anchors, Permutations

ITEMS = 20, 100
"""Keys and noise: from, to before."""
ADDS = torch.tensor([0, 5, 1, -2, -8])
"""What anchors 1 .. 4 add to the key (arXiv 2405.05409)."""
BY_HEART = -6
"""What the pair (3, 4) adds where it misleads."""


def anchors(data: Anchors) -> Dataset:
    """Sequences int64 [N, length] with one pair of anchors, and the key after both.

    length 3: all keys with all pairs, once each; `ood` has all keys. More: keys, pairs and noise
    drawn anew for each example, and places from 0 by the rule of arXiv 2405.05409 (appendix C): a
    key k stands at a place other than k mod (length - 2) for training, at that place for
    validation, test and `ood`, which is as large as the test set. Validation `groups`: misleading
    and composed pairs. Where nothing misleads, no answer is `symmetric`.
    """
    held = torch.tensor([[4, 3]] if data.misleading else [[4, 3], [3, 4]])
    pairs = torch.cartesian_prod(torch.arange(1, 5), torch.arange(1, 5))
    trained = pairs[~(pairs[:, None] == held).all(dim=2).any(dim=1)]
    if data.length == 3:
        pool = _crossed(torch.arange(*ITEMS), trained)
        splits = draw(pool, _after_both(pool, data.misleading), data.sizes(), data.split)
        unseen = _crossed(torch.arange(*ITEMS), held)
    else:
        streams = zip(("train", "validation", "test"), data.sizes(), strict=True)
        drawn = [_drawn(trained, count, data, name) for name, count in streams]
        splits = [Split(one, _after_both(one, data.misleading)) for one in drawn]
        unseen = _drawn(held, data.test, data, "ood")
    ood = Split(unseen, _after_both(unseen, False))
    if not data.misleading:
        return assemble_tokens(data, splits, ood)
    by_heart = _parts(unseen)[0] + BY_HEART
    misleads = (_parts(splits[1].inputs)[1] == torch.tensor([3, 4])).all(dim=1)
    groups = {"misleading": misleads, "composed": ~misleads}
    return assemble_tokens(data, splits, ood, by_heart, groups)


def _crossed(keys_K: Tensor, pairs_P2: Tensor) -> Tensor:
    """Each key before each pair: [K P, 3]."""
    keys, pairs = keys_K.repeat(len(pairs_P2)), pairs_P2.repeat_interleave(len(keys_K), dim=0)
    return torch.cat([keys[:, None], pairs], dim=1)


def _drawn(pairs_P2: Tensor, count: int, data: Anchors, name: str) -> Tensor:
    generator = torch.Generator().manual_seed(fold(data.split, name))

    def integers(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high, shape, generator=generator)

    places, rows = data.length - 2, torch.arange(count)
    keys = integers(*ITEMS, count)
    shift = integers(1, places, count) if name == "train" else 0
    at = (keys + shift) % places
    found = integers(*ITEMS, count, data.length)
    found[rows, at] = keys
    found[rows[:, None], at[:, None] + torch.tensor([1, 2])] = pairs_P2[
        integers(0, len(pairs_P2), count)
    ]
    return found


def _parts(sequences_NL: Tensor) -> tuple[Tensor, Tensor]:
    """Keys [N] and pairs [N, 2] of sequences with one pair each."""
    anchor_NL = sequences_NL < ITEMS[0]
    before = ~anchor_NL[:, :-1] & anchor_NL[:, 1:]
    return sequences_NL[:, :-1][before], sequences_NL[anchor_NL].view(-1, 2)


def _after_both(sequences_NL: Tensor, misleading: bool) -> Tensor:
    keys, pairs = _parts(sequences_NL)
    by_heart = (pairs == torch.tensor([3, 4])).all(dim=1) & misleading
    return keys + torch.where(by_heart, BY_HEART, ADDS[pairs].sum(dim=1))


def permutations(data: Permutations) -> Dataset:
    """Sequences (k, i, j) with the class pi_j(pi_i(k)): keys are the tokens 0 .. K-1, maps those
    from K on. `symmetric` is pi_i(pi_j(k)), the same where the two commute."""
    K, M, seed = data.keys, data.maps, data.split
    maps_MK = torch.stack([order(K, seed, "map", i) for i in range(M)])
    pairs = torch.cartesian_prod(torch.arange(M), torch.arange(M))[order(M * M, seed, "pairs")]
    pool, unseen = (
        _crossed(torch.arange(K), part) for part in (pairs[: data.pairs()], pairs[data.pairs() :])
    )

    def composed(rows_N3: Tensor, first: int, second: int) -> Tensor:
        return maps_MK[rows_N3[:, second], maps_MK[rows_N3[:, first], rows_N3[:, 0]]]

    tokens = torch.tensor([0, K, K])
    splits = draw(pool + tokens, composed(pool, 1, 2), data.sizes(), seed)
    ood = Split(unseen + tokens, composed(unseen, 1, 2))
    return assemble_tokens(data, splits, ood, composed(unseen, 2, 1))
