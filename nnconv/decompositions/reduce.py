"""Reductions and indices of extremes by simpler ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.constants import scalar
from nnconv.decompositions.floats import of_integers
from nnconv.decompositions.halves import (
    by_halves,
    least_of_opposites,
    mean_of_integers,
    sum_by_mean,
)
from nnconv.decompositions.unsigned import in_order
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops import elementwise as e
from nnconv.ops import reduce as r
from nnconv.ops.quantize import Bitcast, Cast
from nnconv.ops.shape import Identity, Reshape, ShapeOf, Unsqueeze
from nnconv.ops.slices import Pad, Reverse, Slice


def _reduced(node: Node, kind: type[r.Reduction], data: Value, b: Builder) -> Value:
    """``data`` reduced in another way along the same axes."""
    op = node.op
    assert isinstance(op, r.Reduction)
    other = kind(axes=op.axes, keep_dims=op.keep_dims, all_if_empty=op.all_if_empty)
    return b.add(other, [data, *node.inputs[1:]])


def by_sum(*, before: type[Op] | None = None, after: type[Op] | None = None) -> Decomposition:
    """A sum of what ``before`` gives; then ``after``."""

    def decompose(node: Node, b: Builder) -> Sequence[Value] | None:
        x = node.operand(0)
        if before is not None:
            x = b.add(before(), [x])
        total = _reduced(node, r.ReduceSum, x, b)
        return [total if after is None else b.add(after(), [total])]

    return decompose


def l1_of_integers(node: Node, b: Builder) -> Sequence[Value] | None:
    """The sum of the greater of x and -x."""
    x = node.operand(0)
    if not x.dtype.is_integer or x.quant is not None:
        return None
    size = b.add(e.Maximum(), [x, b.add(e.Neg(), [x])]) if x.dtype.is_signed else x
    return [_reduced(node, r.ReduceSum, size, b)]


def squares_of_integers(node: Node, b: Builder) -> Sequence[Value] | None:
    """The sum of x * x."""
    x = node.operand(0)
    if not x.dtype.is_integer or x.quant is not None:
        return None
    return [_reduced(node, r.ReduceSum, b.add(e.Mul(), [x, x]), b)]


def along_all(node: Node, b: Builder) -> Sequence[Value] | None:
    """Along all dimensions where the operand that names them is known to be empty, or some."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, r.Reduction)
    axes = node.optional(1)
    if op.axes is not None or axes is None or not axes.type.is_static or x.type.rank is None:
        return None
    if axes.shape != (0,):
        some = op.replace(all_if_empty=False)
        return [b.add(some, list(node.inputs))] if op.all_if_empty else None
    chosen = tuple(range(x.type.rank)) if op.all_if_empty else ()
    return [b.add(op.replace(axes=chosen), [x])]


def log_sum_exp(node: Node, b: Builder) -> Sequence[Value] | None:
    """The greatest is taken off first, so that nothing overflows."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, r.Reduction)
    shape = static_shape(x.shape)
    if op.axes is None or (shape is not None and 0 in shape):
        powers = _reduced(node, r.ReduceSum, b.add(e.Exp(), [x]), b)
        return [b.add(e.Log(), [powers])]
    greatest = b.add(r.ReduceMax(axes=op.axes, keep_dims=True), [x])
    greatest = b.add(e.Clip(low=-3e38, high=3e38), [greatest])
    total = b.add(
        r.ReduceSum(axes=op.axes, keep_dims=True),
        [b.add(e.Exp(), [b.add(e.Sub(), [x, greatest])])],
    )
    result = b.add(e.Add(), [b.add(e.Log(), [total]), greatest])
    if op.keep_dims:
        return [result]
    return [_without(result, op.axes, b)]


def _without(value: Value, axes: Sequence[int], b: Builder) -> Value:
    """A value without dimensions of extent 1."""
    assert value.shape is not None
    rest = tuple(d for i, d in enumerate(value.shape) if i not in axes)
    fixed = tuple(d if isinstance(d, int) else -1 for d in rest)
    if fixed.count(-1) > 1:
        from nnconv.ops.shape import Squeeze

        return b.add(Squeeze(axes=tuple(axes)), [value])
    return b.add(Reshape(shape=fixed), [value])


_OF_ONE: dict[type[Op], type[Op]] = {
    r.ReduceL1: e.Abs,
    r.ReduceL2: e.Abs,
    r.ReduceSumSquare: e.Square,
    r.ReduceLogSum: e.Log,
}


def of_one(node: Node, b: Builder) -> Sequence[Value] | None:
    """What is done to each element where no dimension is reduced."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, r.Reduction)
    if op.axes != ():
        return None
    kind = _OF_ONE.get(type(op))
    if kind is not None:
        return [b.add(kind(), [x])]
    return [b.add_typed(Identity(), [x], [x.type])[0]]


def of_nothing(node: Node, b: Builder) -> Sequence[Value] | None:
    """The extreme, product or mean of no elements, made from their sum, which is 0."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, r.Reduction)
    if isinstance(op, r.ReduceSum):
        return None
    along = None if x.shape is None else op.axes or range(len(x.shape))
    if x.shape is None or along is None or not any(x.shape[a] == 0 for a in along):
        return None
    if x.quant is not None or x.dtype is DType.BOOL:
        return None
    total = _reduced(node, r.ReduceSum, x, b)
    if isinstance(op, r.ReduceProd):
        return [b.add(e.Add(), [total, scalar(b, 1, x)])]
    if not x.dtype.is_float:
        low, high = x.dtype.int_range
        number = {r.ReduceMax: low, r.ReduceMin: high}.get(type(op), 0)
        return [b.add(e.Add(), [total, scalar(b, number, x)])]
    if isinstance(op, r.ReduceMean):
        return [b.add(e.Log(), [b.add(e.Sub(), [total, scalar(b, 1, x)])])]
    least = b.add(e.Log(), [total])  # kernels keep sums finite, but not logarithms
    return [least if isinstance(op, r.ReduceMax) else b.add(e.Neg(), [least])]


def in_fewer_dimensions(node: Node, b: Builder) -> Sequence[Value] | None:
    """Neighbouring dimensions that are all reduced, or all kept, made one."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, r.Reduction)
    shape, result = static_shape(x.shape), static_shape(node.outputs[0].shape)
    if op.axes is None or shape is None or result is None:
        return None
    merged: list[int] = []
    axes: list[int] = []
    for i, extent in enumerate(shape):
        reduced = i in op.axes
        if merged and reduced == ((i - 1) in op.axes):
            merged[-1] *= extent
        else:
            if reduced:
                axes.append(len(merged))
            merged.append(extent)
    if len(merged) == len(shape):
        return None
    flat = b.add(Reshape(shape=tuple(merged)), [x], quant=x.quant)
    quant = node.outputs[0].quant
    reduced_flat = b.add(op.replace(axes=tuple(axes), keep_dims=False), [flat], quant=quant)
    return [b.add(Reshape(shape=result), [reduced_flat], quant=quant)]


# -------------------------------------------------------------------- indices


def arg_of_codes(node: Node, b: Builder) -> Sequence[Value] | None:
    """Codes as plain numbers, whose order is the same."""
    op, x = node.op, node.operand(0)
    if x.quant is None:
        return None
    (plain,) = b.add_typed(Bitcast(dtype=x.dtype), [x], [TensorType(x.dtype, x.shape)])
    return [b.add(op, [plain])]


def arg_without_dimension(node: Node, b: Builder) -> Sequence[Value] | None:
    """The dimension is put in again."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, r.ArgExtreme)
    if not op.keep_dims:
        return None
    return [b.add(Unsqueeze(axes=(op.axis,)), [b.add(op.replace(keep_dims=False), [x])])]


def arg_from_behind(node: Node, b: Builder) -> Sequence[Value] | None:
    """The last of equals is the first of them in reverse order."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, r.ArgExtreme)
    if not op.last or x.shape is None:
        return None
    back = b.add(Reverse(axes=(op.axis,)), [x])
    place = b.add(op.replace(last=False), [back])
    extent = x.shape[op.axis]
    if isinstance(extent, int):
        last = b.const(np.asarray(extent - 1, op.dtype.numpy))
    else:
        count = b.add(ShapeOf(dtype=op.dtype, dims=(op.axis,)), [x])
        last = b.add(e.Sub(), [count, b.const(np.asarray([1], op.dtype.numpy))])
    return [b.add(e.Sub(), [last, place])]


def arg_of_greatest(node: Node, b: Builder) -> Sequence[Value] | None:
    """The first place that equals the extreme; for numbers that no index op compares."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, r.ArgExtreme)
    if x.dtype is DType.UINT64:
        wide = in_order(x, b)
    elif x.dtype in (DType.INT64, DType.UINT32):
        wide = x if x.dtype is DType.INT64 else b.add(Cast(dtype=DType.INT64), [x])
    else:
        return None
    kind = r.ReduceMax if isinstance(op, r.ArgMax) else r.ReduceMin
    extreme = b.add(kind(axes=(op.axis,), keep_dims=True), [wide])
    places = b.add(Cast(dtype=DType.INT32), [b.add(e.Equal(), [wide, extreme])])
    return [b.add(r.ArgMax(axis=op.axis, dtype=op.dtype, keep_dims=op.keep_dims), [places])]


def arg_of_opposite(node: Node, b: Builder) -> Sequence[Value] | None:
    """The place of the least: that of the greatest of -x, of integers of -1 - x, which all have."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, r.ArgMin)
    if x.type.has_codes:
        return None
    if not x.dtype.is_float and not x.dtype.is_signed:
        return [b.add(op, [b.add(Cast(dtype=DType.INT32), [x])])] if x.dtype.bits < 32 else None
    turned = b.add(e.Neg(), [x]) if x.dtype.is_float else b.add(e.Sub(), [scalar(b, -1, x), x])
    kind = r.ArgMax(axis=op.axis, dtype=op.dtype, keep_dims=op.keep_dims, last=op.last)
    return [b.add(kind, [turned])]


def arg_in_floats(node: Node, b: Builder) -> Sequence[Value] | None:
    """Integers as floats, in halves: the greatest low one, of those whose high one is greatest."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, r.ArgMax)
    if x.type.has_codes or not x.dtype.is_integer or x.dtype.bits > 32 or op.last:
        return None
    as_float = Cast(dtype=DType.FLOAT32)
    if x.dtype.bits <= 16:
        return [b.add(op, [b.add(as_float, [x])])]
    if x.dtype is not DType.INT32:
        return None
    half = scalar(b, 1 << 16, x)
    high = b.add(e.FloorDiv(), [x, half])
    low = b.add(as_float, [b.add(e.Sub(), [x, b.add(e.Mul(), [high, half])])])
    high = b.add(as_float, [high])
    greatest = b.add(r.ReduceMax(axes=(op.axis,), keep_dims=True), [high])
    out = b.const(np.full((1,) * (x.type.rank or 0), -1, np.float32))
    low = b.add(e.Select(), [b.add(e.Equal(), [high, greatest]), low, out])
    return [b.add(op, [low])]


def any_by_all(node: Node, b: Builder) -> Sequence[Value] | None:
    """Not all are false."""
    false = b.add(e.LogicalNot(), [node.operand(0)])
    return [b.add(e.LogicalNot(), [_reduced(node, r.ReduceAll, false, b)])]


# -------------------------------------------------------------------- running products


def running_by_doubling(node: Node, b: Builder) -> Sequence[Value] | None:
    """Sums or products of 1, 2, 4 ... neighbours, each from two of the half length."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, r.CumSum)
    if x.shape is None:
        return None
    if op.axis is None:
        return _running_along_any(node, b)
    extent = x.shape[op.axis]
    if not isinstance(extent, int):
        return None
    joined, free = (e.Mul(), 1.0) if isinstance(op, r.CumProd) else (e.Add(), 0.0)
    result = _moved(x, op.axis, 1, b, back=op.reverse, free=free) if op.exclusive else x
    step = 1
    while step < extent:
        other = _moved(result, op.axis, step, b, back=op.reverse, free=free)
        result = b.add(joined, [result, other])
        step *= 2
    return [result if result is not x else b.add_typed(Identity(), [x], [x.type])[0]]


def _moved(x: Value, axis: int, step: int, b: Builder, *, back: bool, free: float) -> Value:
    """Elements moved ``step`` places on along an axis (or back), a number in the free places."""
    assert x.shape is not None
    extent, rank = x.shape[axis], len(x.shape)
    assert isinstance(extent, int)
    step = min(step, extent)

    def at_axis(number: int | None, other: int | None) -> tuple[int | None, ...]:
        return tuple(number if i == axis else other for i in range(rank))

    starts, ends = (step, extent) if back else (0, extent - step)
    part = b.add(
        Slice(starts=at_axis(starts, 0), ends=at_axis(ends, None), strides=(1,) * rank), [x]
    )
    before, after = (0, step) if back else (step, 0)
    pads = [tuple(n if i == axis else 0 for i in range(rank)) for n in (before, after)]
    return b.add(Pad(before=pads[0], after=pads[1], value=free), [part])


def _running_along_any(node: Node, b: Builder) -> Sequence[Value] | None:
    """The running sums or products along each axis, of which the one that is wanted is chosen."""
    op, x, axis = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, r.CumSum)
    assert x.shape is not None
    rank = len(x.shape)
    chosen: Value | None = None
    for place in range(rank):
        along = b.add(op.replace(axis=place), [x])
        if chosen is None:
            chosen = along
            continue
        matches = [
            b.add(e.Equal(), [axis, b.const(np.asarray(number, axis.dtype.numpy))])
            for number in (place, place - rank)
        ]
        here = b.add(e.LogicalOr(), matches)
        chosen = b.add(e.Select(), [here, along, chosen])
    return None if chosen is None else [chosen]


_BASIC: Sequence[Callable[[Node, Builder], Sequence[Value] | None]] = (
    along_all,
    of_one,
    of_nothing,
    in_fewer_dimensions,
)

_ARG = (arg_of_codes, arg_without_dimension, arg_from_behind, arg_of_greatest)

DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    r.ReduceMean: (*_BASIC, mean_of_integers),
    r.ReduceProd: (*_BASIC, by_halves),
    r.ReduceSum: (*_BASIC, sum_by_mean, by_halves),
    r.ReduceMax: (*_BASIC, by_halves),
    r.ReduceMin: (*_BASIC, least_of_opposites),
    r.ReduceAny: (of_one, in_fewer_dimensions, any_by_all),
    r.ReduceAll: (of_one, in_fewer_dimensions),
    r.ReduceL1: (along_all, of_one, l1_of_integers, by_sum(before=e.Abs)),
    r.ReduceL2: (along_all, of_one, of_integers, by_sum(before=e.Square, after=e.Sqrt)),
    r.ReduceSumSquare: (along_all, of_one, squares_of_integers, by_sum(before=e.Square)),
    r.ReduceLogSum: (along_all, of_one, of_integers, by_sum(after=e.Log)),
    r.ReduceLogSumExp: (along_all, of_one, of_integers, log_sum_exp),
    r.ArgMax: (*_ARG, arg_in_floats),
    r.ArgMin: (*_ARG, arg_of_opposite),
    r.CumProd: (running_by_doubling,),
    r.CumSum: (running_by_doubling,),
}
