"""Operations on stacks [R, ...], done one replica after the other into one piece of memory.

So a replica's result depends on its neighbours in no bit, wherever it lies: kernels for a whole
stack divide it among threads by its size, and round its last few numbers by another path; and
products see where in memory a matrix begins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

LINE = 64
"""Bytes of a line of memory: products of matrices that do not begin at a multiple of this differ
in their bits (oneMKL, "Conditional Numerical Reproducibility"), and a replica's place in the stack
would show."""


def empty(like: Tensor, count: int, shape: Sequence[int], stride: Sequence[int]) -> Tensor:
    """A stack [count, *shape], each row with these strides and at the begin of a line."""
    size = math.prod(shape)
    apart = size + -size % (LINE // like.element_size())
    return like.new_empty_strided((count, *shape), (apart, *stride))


def product(a_RMK: Tensor, b_RKN: Tensor) -> Tensor:
    """Matrix products [R, M, N], under autocast's rules: a Function does not apply them itself."""
    device = a_RMK.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        a_RMK, b_RKN = a_RMK.to(dtype), b_RKN.to(dtype)
    return _Product.apply(a_RMK, b_RKN)


def total(x_RJ: Tensor) -> Tensor:
    """x_RJ.sum(1)"""
    return _Sum.apply(x_RJ)


def gelu(x: Tensor) -> Tensor:
    """F.gelu(x)"""
    return _Gelu.apply(x)


def sigmoid(x: Tensor) -> Tensor:
    """torch.sigmoid(x)"""
    return _Sigmoid.apply(x)


def rows(table_RTE: Tensor, rows: Tensor) -> Tensor:
    """Rows [R, ...] of each replica's own table, [R, ..., E]; of all at once, for nothing is
    rounded.

    By F.embedding: indexing takes five times as long, and its gradient has no fixed order.
    """
    R, T = table_RTE.shape[:2]
    starts = torch.arange(0, R * T, T, device=rows.device).view(R, *[1] * (rows.dim() - 1))
    return F.embedding(rows + starts, table_RTE.reshape(R * T, -1))


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a_RMK: Tensor, b_RKN: Tensor) -> Tensor:
        ctx.save_for_backward(a_RMK, b_RKN)
        return _products(a_RMK, b_RKN)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dc_RMN: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a_RMK, b_RKN = ctx.saved_tensors
        needs_a, needs_b = ctx.needs_input_grad
        da_RMK = _products(dc_RMN, b_RKN.mT) if needs_a else None
        # As the transpose of [N, K], the layout of a weight that came as one.
        db_RKN = _products(dc_RMN.mT, a_RMK).mT if needs_b else None
        return da_RMK, db_RKN


def _products(a_RMK: Tensor, b_RKN: Tensor) -> Tensor:
    if a_RMK.device.type != "cpu":
        return torch.bmm(a_RMK, b_RKN)
    R, M, N = len(a_RMK), a_RMK.shape[1], b_RKN.shape[2]
    c_RMN = empty(a_RMK, R, (M, N), (N, 1))
    for a_MK, b_KN, c_MN in zip(_at_lines(a_RMK), _at_lines(b_RKN), c_RMN, strict=True):
        torch.mm(a_MK, b_KN, out=c_MN)
    return c_RMN


def _at_lines(x_RMK: Tensor) -> Iterable[Tensor]:
    """The matrices, or copies, each of which begins at a line and has no gaps."""
    begin = x_RMK.data_ptr() % LINE == x_RMK.stride(0) * x_RMK.element_size() % LINE == 0
    dense = x_RMK[0].is_contiguous() or x_RMK[0].mT.is_contiguous()
    return x_RMK if begin and dense else [x_MK.clone() for x_MK in x_RMK]


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_RJ: Tensor) -> Tensor:
        ctx.shape = x_RJ.shape
        y_R = x_RJ.new_empty(x_RJ[:, 0].shape)
        for x_J, y in zip(x_RJ, y_R, strict=True):
            torch.sum(x_J, 0, out=y)
        return y_R

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy_R: Tensor) -> Tensor:
        return dy_R[:, None].expand(ctx.shape)


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        y = torch.empty_like(x)
        for x_1, y_1 in zip(x, y, strict=True):
            torch.ops.aten.gelu.out(x_1, out=y_1)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        for dy_1, x_1, dx_1 in zip(dy, x, dx, strict=True):
            torch.ops.aten.gelu_backward.grad_input(dy_1, x_1, grad_input=dx_1)
        return dx


class _Sigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = torch.empty_like(x)
        for x_1, y_1 in zip(x, y, strict=True):
            torch.sigmoid(x_1, out=y_1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return dy * y * (1 - y)
