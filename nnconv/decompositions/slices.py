"""Ops that cut or turn round, by others."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.extents import FAR, as_int32, ints, joined, saturated
from nnconv.decompositions.extents import extent as extent_of
from nnconv.decompositions.pad import PAD
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import normalize_axis, static_shape
from nnconv.ops import elementwise as e
from nnconv.ops import slices as o
from nnconv.ops.gather import Gather
from nnconv.ops.shape import Concat, Reshape, Transpose


def reverse_behind(node: Node, b: Builder) -> list[Value] | None:
    """Slice with strides of -1: a forward Slice of the same elements, and Reverse."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, o.Slice)
    if op.starts is None or op.ends is None or op.strides is None or -1 not in op.strides:
        return None
    starts, ends = list(op.starts), list(op.ends)
    axes = tuple(i for i, stride in enumerate(op.strides) if stride == -1)
    for axis in axes:
        starts[axis], ends[axis] = _forward(starts[axis], ends[axis])
    strides = tuple(1 if stride == -1 else stride for stride in op.strides)
    if any(
        (start or 0, end, by) != (0, None, 1)
        for start, end, by in zip(starts, ends, strides, strict=True)
    ):
        x = b.add(o.Slice(starts=tuple(starts), ends=tuple(ends), strides=strides), [x])
    return [b.add(o.Reverse(axes=axes), [x])]


def _forward(start: int | None, end: int | None) -> tuple[int | None, int | None]:
    """Bounds of stride 1 around what ``start:end:-1`` picks."""
    low = None if end is None else end + 1 if end != -1 else _NOTHING
    high = None if start is None or start == -1 else start + 1
    return low, high


_NOTHING = (1 << 31) - 1
"""A start behind all elements."""


def reverse_in_turn(node: Node, b: Builder) -> list[Value] | None:
    """Reverse of dimensions apart: one for each stretch of neighbours."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, o.Reverse)
    runs = groupby(enumerate(sorted(set(op.axes))), lambda pair: pair[1] - pair[0])
    groups = [tuple(axis for _, axis in run) for _, run in runs]
    if len(groups) < 2:
        return None
    for axes in groups:
        x = b.add(o.Reverse(axes=axes), [x])
    return [x]


def update_by_choice(node: Node, b: Builder) -> list[Value] | None:
    """DynamicUpdateSlice of known extents: each element is chosen from x or from the update.

    Along each dimension the update's elements are gathered to where they belong, the nearest ones
    standing for those beyond its edges.
    """
    x, update, starts = (node.operand(i) for i in range(3))
    extents, sizes = static_shape(x.shape), static_shape(update.shape)
    if not extents or sizes is None or 0 in sizes:
        return None
    starts = saturated(b, starts)
    inside = None
    for axis, (extent, size) in enumerate(zip(extents, sizes, strict=True)):
        start = b.add(Gather(axis=0), [starts, b.const(np.asarray([axis], np.int32))])
        start = b.add(e.Maximum(), [start, b.const(np.zeros(1, np.int32))])
        start = b.add(e.Minimum(), [start, b.const(np.full(1, extent - size, np.int32))])
        places = b.add(e.Sub(), [b.const(np.arange(extent, dtype=np.int32)), start])
        low, high = b.const(np.zeros(1, np.int32)), b.const(np.full(1, size - 1, np.int32))
        within = b.add(e.Maximum(), [b.add(e.Minimum(), [places, high]), low])
        update = b.add(Gather(axis=axis), [update, within])
        shape = [1] * len(extents)
        shape[axis] = extent
        here = b.add(Reshape(shape=tuple(shape)), [b.add(e.Equal(), [places, within])])
        inside = here if inside is None else b.add(e.LogicalAnd(), [inside, here])
    return [b.add(e.Select(), [inside, update, x])]


def reverse_by_gather(node: Node, b: Builder) -> list[Value] | None:
    """ReverseSequence of known extents: a Gather of the places that the lengths tell."""
    op, x, lengths = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, o.ReverseSequence)
    shape = static_shape(x.shape)
    if shape is None or 0 in shape:
        return None
    rank = len(shape)
    axis, batch = (normalize_axis(n, rank) for n in (op.axis, op.batch_axis))
    perm = (batch, axis, *(i for i in range(rank) if i not in (axis, batch)))
    count, extent = shape[batch], shape[axis]
    places = b.const(np.arange(extent, dtype=np.int32).reshape(1, extent))
    column = b.add(Reshape(shape=(count, 1)), [saturated(b, lengths)])
    last = b.add(e.Sub(), [column, b.const(np.ones((1, 1), np.int32))])
    turned = b.add(e.Sub(), [last, places])
    origins = b.add(e.Select(), [b.add(e.Less(), [places, column]), turned, places])
    rows = b.add(Transpose(perm=perm), [x], quant=x.quant)
    found = b.add(Gather(axis=1, batch_dims=1), [rows, origins], quant=x.quant)
    back = tuple(perm.index(i) for i in range(rank))
    return [b.add(Transpose(perm=back), [found], quant=x.quant)]


def update_rows(node: Node, b: Builder) -> list[Value] | None:
    """DynamicUpdateSlice of whole rows: those before it, it, and those behind it, joined."""
    x, update, starts = (node.operand(i) for i in range(3))
    rank, rows = x.type.rank, update.shape[0] if update.shape else None
    if not rank or not isinstance(rows, int) or not _is_first_alone(starts):
        return None
    last = b.add(e.Sub(), [extent_of(b, x, 0), ints(b, [rows])])
    first = b.add(Gather(axis=0), [as_int32(b, starts), ints(b, [0])])
    first = b.add(e.Maximum(), [b.add(e.Minimum(), [first, last]), ints(b, [0])])
    rest = [FAR] * (rank - 1)
    head, behind = joined(b, [first, ints(b, rest)]), b.add(e.Add(), [first, ints(b, [rows])])
    tail = joined(b, [behind, ints(b, [0] * (rank - 1))])
    strides, nothing = (1,) * rank, (0,) * rank
    parts = [
        b.add(o.Slice(starts=nothing, ends=None, strides=strides), [x, None, head], quant=x.quant),
        update,
        b.add(o.Slice(starts=None, ends=(None,) * rank, strides=strides), [x, tail], quant=x.quant),
    ]
    return [b.add(Concat(axis=0), parts, quant=x.quant)]


def _is_first_alone(starts: Value) -> bool:
    """Whether places are surely 0 but in the first dimension."""
    if starts.data is None:
        made = starts.producer
        factors = [] if made is None or not isinstance(made.op, e.Mul) else made.inputs
        return any(
            v is not None and v.data is not None and v.shape == starts.shape and _is_first_alone(v)
            for v in factors
        )
    return not starts.data.reshape(-1)[1:].any()


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    o.Slice: (reverse_behind,),
    o.Reverse: (reverse_in_turn,),
    o.ReverseSequence: (reverse_by_gather,),
    o.DynamicUpdateSlice: (update_by_choice, update_rows),
    o.Pad: PAD,
}
