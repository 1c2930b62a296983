"""Reductions by pairs of halves, and by other reductions, for formats that have but few."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from nnconv.decompositions.constants import scalar
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import static_shape
from nnconv.ops import elementwise as e
from nnconv.ops import reduce as r
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Squeeze
from nnconv.ops.slices import Slice


def _extents(node: Node) -> tuple[int, ...] | None:
    """The extents along the axes of a reduction; None where they aren't all known, and above 0."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, r.Reduction)
    if op.axes is None or x.shape is None or not op.axes:
        return None
    extents = static_shape(tuple(x.shape[axis] for axis in op.axes))
    return None if extents is None or 0 in extents else extents


def sum_by_mean(node: Node, b: Builder) -> Sequence[Value] | None:
    """ReduceSum of floats: the mean times the count."""
    op, x, extents = node.op, node.operand(0), _extents(node)
    assert isinstance(op, r.ReduceSum)
    if extents is None or not x.dtype.is_float:
        return None
    mean = b.add(r.ReduceMean(axes=op.axes, keep_dims=op.keep_dims), [x])
    return [b.add(e.Mul(), [mean, scalar(b, prod(extents), x)])]


_LONG = 46340
"""Sums of so many rests, each below that number, fit int32."""


def mean_of_integers(node: Node, b: Builder) -> Sequence[Value] | None:
    """ReduceMean of int32, toward zero: the sum of the quotients by the count, and of the rests.

    No sum of these leaves int32.
    """
    op, x, extents = node.op, node.operand(0), _extents(node)
    assert isinstance(op, r.ReduceMean)
    if extents is None or x.dtype is not DType.INT32 or x.type.has_codes:
        return None
    count = prod(extents)
    if count > _LONG:
        return None

    def total(value: Value) -> Value:
        return b.add(r.ReduceSum(axes=op.axes, keep_dims=op.keep_dims), [value])

    def divided(value: Value) -> tuple[Value, Value]:
        quotient = b.add(e.FloorDiv(), [value, number])
        return quotient, b.add(e.Sub(), [value, b.add(e.Mul(), [quotient, number])])

    number, zero = scalar(b, count, x), scalar(b, 0, x)
    quotients, rests = divided(x)
    more, rest = divided(total(rests))
    whole = b.add(e.Add(), [total(quotients), more])
    sides = [b.add(kind(), [v, zero]) for kind, v in ((e.Less, whole), (e.Greater, rest))]
    up = b.add(Cast(dtype=x.dtype), [b.add(e.LogicalAnd(), sides)])
    return [b.add(e.Add(), [whole, up])]


def least_of_opposites(node: Node, b: Builder) -> Sequence[Value] | None:
    """ReduceMin: from the greatest of -x, of integers of -1 - x, which all have."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, r.ReduceMin)
    if x.type.has_codes or not (x.dtype.is_float or x.dtype.is_signed):
        return None

    def turned(value: Value) -> Value:
        if x.dtype.is_float:
            return b.add(e.Neg(), [value])
        return b.add(e.Sub(), [scalar(b, -1, x), value])

    greatest = r.ReduceMax(axes=op.axes, keep_dims=op.keep_dims, all_if_empty=op.all_if_empty)
    return [turned(b.add(greatest, [turned(x), *node.inputs[1:]]))]


_JOINED: dict[type[Op], Op] = {
    r.ReduceMax: e.Maximum(),
    r.ReduceSum: e.Add(),
    r.ReduceProd: e.Mul(),
}

_WIDE = (DType.INT32, DType.INT64)


def by_halves(node: Node, b: Builder) -> Sequence[Value] | None:
    """ReduceMax, and sums and products of integers: of both halves, until one element is left."""
    op, x, extents = node.op, node.operand(0), _extents(node)
    assert isinstance(op, r.Reduction)
    if extents is None or x.shape is None or x.type.has_codes:
        return None
    if x.dtype not in _WIDE and not (x.dtype.is_float and isinstance(op, r.ReduceMax)):
        return None
    assert op.axes is not None
    for axis, extent in zip(op.axes, extents, strict=True):
        x = _joined(x, axis, extent, _JOINED[type(op)], b)
    return [x if op.keep_dims else b.add(Squeeze(axes=op.axes), [x])]


def _joined(x: Value, axis: int, extent: int, joined: Op, b: Builder) -> Value:
    """All elements along an axis combined: halves with each other; what is over comes last."""
    rank = len(x.shape or ())

    def part(source: Value, start: int, end: int) -> Value:
        cut = Slice(
            starts=tuple(start if i == axis else 0 for i in range(rank)),
            ends=tuple(end if i == axis else None for i in range(rank)),
            strides=(1,) * rank,
        )
        return b.add(cut, [source])

    over: list[Value] = []
    left = extent
    while left > 1:
        half = left // 2
        if left % 2:
            over.append(part(x, left - 1, left))
        x = b.add(joined, [part(x, 0, half), part(x, half, 2 * half)])
        left = half
    for other in over:
        x = b.add(joined, [x, other])
    return x
