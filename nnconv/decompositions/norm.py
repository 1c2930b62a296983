"""Normalizations along an axis, by sums, roots and quotients."""

from __future__ import annotations

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.diagonal import counted
from nnconv.decompositions.floats import of_half_floats
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Layout, Op
from nnconv.ir.types import element_count
from nnconv.ops import elementwise as e
from nnconv.ops import norm as n
from nnconv.ops.pool import AveragePool2D
from nnconv.ops.quantize import Cast
from nnconv.ops.reduce import ArgMax, ReduceMax, ReduceSum
from nnconv.ops.shape import Reshape, ShapeOf, Transpose
from nnconv.ops.spatial import Padding

LEAST_NORM = 1e-19
"""Below it squares vanish in float32: a norm so small is taken to be that of zeros."""


def _number(b: Builder, number: float, like: Value) -> Value:
    return b.const(np.asarray(number, like.dtype.numpy))


def by_sum(node: Node, b: Builder) -> list[Value] | None:
    """LpNormalization: zeros stay zeros."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, n.LpNormalization)
    over = ReduceSum(axes=(op.axis,), keep_dims=True)
    if op.p == 2:
        norm = b.add(e.Sqrt(), [b.add(over, [b.add(e.Mul(), [x, x])])])
    else:
        norm = b.add(over, [b.add(e.Abs(), [x])])
    some = b.add(e.Maximum(), [norm, _number(b, LEAST_NORM, x)])
    return [b.add(e.Div(), [x, some])]


def by_pool(node: Node, b: Builder) -> list[Value] | None:
    """LocalResponseNormalization: the sum of neighbours is a multiple of a mean over channels."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, n.LocalResponseNormalization)
    if x.shape is None or not 0 <= op.axis < len(x.shape) or not x.dtype.is_float:
        return None
    if not isinstance(x.shape[op.axis], int):
        return None
    rank = len(x.shape)
    there = (*(i for i in range(rank) if i != op.axis), op.axis)
    turned = op.axis != rank - 1
    data = b.add(Transpose(perm=there), [x]) if turned else x
    extents = [x.shape[i] for i in there]
    channels = x.shape[op.axis]
    area = element_count(tuple(extents[1:-1]))
    assert isinstance(channels, int)
    squares = b.add(e.Mul(), [data, data])
    flat = b.add(Reshape(shape=(-1, 1 if area is None else area, channels, 1)), [squares])
    size = 2 * op.radius + op.behind + 1
    mean = AveragePool2D(
        layout=Layout.NHWC,
        window=(1, size),
        stride=(1, 1),
        padding=Padding((0, op.radius), (0, op.radius + op.behind)),
        count_padding=True,
    )
    total = _like(b.add(mean, [flat]), data, b)
    scaled = b.add(e.Mul(), [total, _number(b, op.alpha * size, x)])
    base = b.add(e.Add(), [scaled, _number(b, op.bias, x)])
    result = b.add(e.Mul(), [data, _inverse_power(base, op.beta, b)])
    if turned:
        result = b.add(Transpose(perm=tuple(there.index(i) for i in range(rank))), [result])
    return [result]


def _like(value: Value, other: Value, b: Builder) -> Value:
    """A value in the shape of another."""
    assert other.shape is not None
    whole = tuple(dim if isinstance(dim, int) else -1 for dim in other.shape)
    if whole.count(-1) <= 1:
        return b.add(Reshape(shape=whole), [value])
    result = b.add(Reshape(shape=None), [value, b.add(ShapeOf(), [other])])
    result.type = result.type.with_shape(other.shape)
    return result


def _inverse_power(base: Value, beta: float, b: Builder) -> Value:
    """``base`` to the power of -beta; by roots for the usual ones."""
    if beta == 1:
        return b.add(e.Div(), [_number(b, 1, base), base])
    if beta not in (0.5, 0.75):
        return b.add(e.Pow(), [base, _number(b, -beta, base)])
    root = b.add(e.Rsqrt(), [base])
    return root if beta == 0.5 else b.add(e.Mul(), [root, b.add(e.Sqrt(), [root])])


def softmax(node: Node, b: Builder) -> list[Value] | None:
    """Softmax by powers and their sum: along other dimensions than the last a fifth of the time."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, n.Softmax)
    if x.type.rank == 0:
        return [b.add(e.Exp(), [b.add(e.Sub(), [x, x])])]
    powers = b.add(e.Exp(), [_less_greatest(_scaled(x, op.beta, b), op.axis, b)])
    total = b.add(ReduceSum(axes=(op.axis,), keep_dims=True), [powers])
    return [b.add(e.Div(), [powers, total])]


def log_softmax(node: Node, b: Builder) -> list[Value] | None:
    """LogSoftmax by powers, their sum and its logarithm."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, n.LogSoftmax)
    if x.type.rank == 0:
        return [b.add(e.Sub(), [x, x])]
    moved = _less_greatest(_scaled(x, op.beta, b), op.axis, b)
    powers = b.add(e.Exp(), [moved])
    total = b.add(ReduceSum(axes=(op.axis,), keep_dims=True), [powers])
    return [b.add(e.Sub(), [moved, b.add(e.Log(), [total])])]


def _scaled(x: Value, factor: float, b: Builder) -> Value:
    return x if factor == 1 else b.add(e.Mul(), [x, _number(b, factor, x)])


def _less_greatest(x: Value, axis: int, b: Builder) -> Value:
    greatest = b.add(ReduceMax(axes=(axis,), keep_dims=True), [x])
    return b.add(e.Sub(), [x, greatest])


def hardmax(node: Node, b: Builder) -> list[Value] | None:
    """Hardmax: whether the place is that of the greatest."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, n.Hardmax)
    if x.type.rank == 0:
        return [b.add(e.Exp(), [b.add(e.Sub(), [x, x])])]
    if x.shape is None:
        return None
    place = b.add(ArgMax(axis=op.axis, keep_dims=True), [x])
    shape = tuple(-1 if i == op.axis else 1 for i in range(len(x.shape)))
    numbers = counted(x, op.axis, shape, b)
    return [b.add(Cast(dtype=x.dtype), [b.add(e.Equal(), [place, numbers])])]


def l2_by_sum(node: Node, b: Builder) -> list[Value] | None:
    """L2Normalization: the norm is at least epsilon."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, n.L2Normalization)
    squares = b.add(e.Mul(), [x, x])
    total = b.add(ReduceSum(axes=(op.axis,), keep_dims=True), [squares])
    norm = b.add(e.Sqrt(), [b.add(e.Maximum(), [total, _number(b, op.epsilon**2, x)])])
    return [b.add(e.Div(activation=op.activation), [x, norm])]


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    n.LpNormalization: (of_half_floats, by_sum),
    n.Softmax: (softmax,),
    n.LogSoftmax: (log_softmax,),
    n.Hardmax: (hardmax,),
    n.L2Normalization: (of_half_floats, l2_by_sum),
    n.LocalResponseNormalization: (by_pool,),
}
