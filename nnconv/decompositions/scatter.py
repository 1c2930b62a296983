"""Ops that put elements at indices by others."""

from __future__ import annotations

from math import prod

import numpy as np

from nnconv.decompositions.extents import (
    as_int32,
    as_vector,
    extent,
    ints,
    joined,
    scalar,
)
from nnconv.decompositions.places import (
    count_of,
    counted,
    extents_of,
    linear,
    linear_along,
    spread_to,
    under_shape_of,
)
from nnconv.decompositions.unsigned import bits_of, from_bits, from_order, in_order
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.types import static_shape
from nnconv.ops import elementwise as e
from nnconv.ops import gather as g
from nnconv.ops import shape as s
from nnconv.ops.quantize import Bitcast, Cast
from nnconv.ops.segment import Segment
from nnconv.ops.slices import DynamicUpdateSlice, Slice


def scatter_nd(node: Node, b: Builder) -> list[Value] | None:
    """ScatterNd: rows combined by the place that each goes to."""
    op, x, indices, updates = node.op, *(node.operand(i) for i in range(3))
    assert isinstance(op, g.ScatterNd)
    depth = indices.shape[-1] if indices.shape else None
    if x.shape is None or not isinstance(depth, int) or not 0 < depth <= len(x.shape):
        return None
    if op.reduction is not g.Reduction.NONE and x.dtype not in _COMBINED[op.reduction]:
        return _in_wider(node, b, op.reduction)
    rest = static_shape(x.shape[depth:])
    if rest is None:
        width = as_vector(b, count_of(b, x, depth))
        rows, news = (
            b.add(s.Reshape(shape=None), [v, joined(b, [ints(b, [-1]), width])])
            for v in (x, updates)
        )
    elif prod(rest):
        rows, news = (b.add(s.Reshape(shape=(-1, prod(rest))), [v]) for v in (x, updates))
    else:
        return [x]
    places = linear(b, x, indices)
    if op.reduction is g.Reduction.ADD and _is_zero(x):
        sums = _segments(b, op.reduction, news, places, count_of(b, x, 0, depth))
        return [under_shape_of(b, sums, x)]
    result = _put_rows(b, rows, places, news, op.reduction, count_of(b, x, 0, depth))
    if result is None:
        return None
    return [under_shape_of(b, result, x)]


def _is_zero(x: Value) -> bool:
    """Whether there is nothing but zeros."""
    node = x.producer
    if node is not None and isinstance(node.op, s.Fill):
        x = node.operand(0)
    return x.data is not None and not x.data.any()


def scatter_elements(node: Node, b: Builder) -> list[Value] | None:
    """ScatterElements: elements in a row combined by the place that each goes to."""
    op, x, indices, updates = node.op, *(node.operand(i) for i in range(3))
    assert isinstance(op, g.ScatterElements)
    if x.shape is None or indices.shape is None:
        return None
    if op.reduction is not g.Reduction.NONE and x.dtype not in _COMBINED[op.reduction]:
        return _in_wider(node, b, op.reduction)
    if 0 in x.shape or 0 in indices.shape:
        return [x]
    places = _in_a_row(b, linear_along(b, x, indices, op.axis))
    rows, news = (b.add(s.Reshape(shape=(-1, 1)), [v]) for v in (x, updates))
    result = _put_rows(b, rows, places, news, op.reduction, count_of(b, x, 0))
    if result is None:
        return None
    return [under_shape_of(b, result, x)]


def scatter_bits(node: Node, b: Builder) -> list[Value] | None:
    """A reduction of uint64 as one of int64: sums and products wrap alike, others in order."""
    op, x, indices, updates = node.op, *(node.operand(i) for i in range(3))
    assert isinstance(op, g.ScatterNd | g.ScatterElements)
    if x.dtype is not DType.UINT64 or op.reduction is g.Reduction.NONE:
        return None
    ordered = op.reduction in (g.Reduction.MAX, g.Reduction.MIN)
    to, back = (in_order, from_order) if ordered else (bits_of, from_bits)
    return [back(b.add(op, [to(x, b), indices, to(updates, b)]), b)]


_SUMMED = frozenset({DType.FLOAT32, DType.INT32, DType.INT64})
_COMBINED = {
    g.Reduction.ADD: _SUMMED,
    g.Reduction.MUL: _SUMMED,
    g.Reduction.MIN: _SUMMED,
    g.Reduction.MAX: _SUMMED,
    g.Reduction.AND: frozenset(),
    g.Reduction.OR: frozenset(),
}
"""Types in which values that meet can be combined."""


def _in_wider(node: Node, b: Builder, reduction: g.Reduction) -> list[Value] | None:
    """A scatter in a type in which what meets can be combined.

    Integers wrap as they do in their own type.
    """
    x, indices, updates = (node.operand(i) for i in range(3))
    old, op = x.dtype, node.op
    wide = _WIDER.get(old)
    assert isinstance(op, g.ScatterNd | g.ScatterElements)
    if old is DType.BOOL or reduction in (g.Reduction.AND, g.Reduction.OR):
        wide, reduction = DType.INT32, _LOGICAL.get(reduction, reduction)
    if wide is None or wide not in _COMBINED[reduction]:
        return None
    data, news = (_plain(b, v, wide) for v in (x, updates))
    made = b.add(op.replace(reduction=reduction), [data, indices, news])
    result = b.add(Cast(dtype=old), [made])
    if not x.type.has_codes:
        return [result]
    return [b.add_typed(Bitcast(dtype=old), [result], [x.type])[0]]


_WIDER = {
    DType.FLOAT16: DType.FLOAT32,
    DType.BFLOAT16: DType.FLOAT32,
    DType.FLOAT64: DType.FLOAT32,
    DType.INT8: DType.INT32,
    DType.UINT8: DType.INT32,
    DType.INT16: DType.INT32,
    DType.UINT16: DType.INT32,
    DType.UINT32: DType.INT64,
}
_LOGICAL = {
    g.Reduction.ADD: g.Reduction.MAX,
    g.Reduction.MUL: g.Reduction.MIN,
    g.Reduction.AND: g.Reduction.MIN,
    g.Reduction.OR: g.Reduction.MAX,
}
"""What a reduction of truths is among 0 and 1."""


def _plain(b: Builder, value: Value, dtype: DType) -> Value:
    """A value's stored numbers in another type."""
    if value.type.has_codes:
        value = b.add(Bitcast(dtype=value.dtype), [value])
    return b.add(Cast(dtype=dtype), [value])


def _put_rows(
    b: Builder, rows: Value, places: Value, news: Value, reduction: g.Reduction, count: Value
) -> Value | None:
    """Rows [count, width] with new ones [n, width] put at places [n].

    What isn't combined is picked from the last row that goes there.
    """
    if reduction is g.Reduction.NONE and places.data is not None and count.data is not None:
        return _at_known_places(b, rows, places.data, news, int(count.data.reshape(())))
    if reduction is g.Reduction.ADD:
        zeros = b.add(s.Fill(shape=None), [_number(b, 0, rows.dtype), _row_shape(b, rows, count)])
        column = b.add(s.Reshape(shape=(-1, 1)), [places])
        sums = b.add(g.ScatterNd(reduction=reduction), [zeros, column, news])
        return b.add(e.Add(), [rows, sums])
    if reduction is g.Reduction.MUL:
        if rows.dtype is DType.INT64:
            return _product_of_sorted(b, rows, places, news)
        return b.add(e.Mul(), [rows, _segments(b, reduction, news, places, count)])
    if rows.dtype is DType.INT64 and reduction is not g.Reduction.NONE:
        return _best_of_sorted(b, rows, places, news, reduction)
    last = None
    if reduction is g.Reduction.NONE or rows.dtype.is_float:
        order = counted(b, count_of(b, places, 0, 1))
        last = _segments(b, g.Reduction.MAX, order, places, count)
        is_hit = b.add(e.GreaterEqual(), [last, scalar(b, 0)])
        is_hit = b.add(s.Reshape(shape=(-1, 1)), [is_hit])
    if reduction is g.Reduction.NONE:
        assert last is not None
        if static_shape(news.shape) is None:  # there may be none, and something is picked anyway
            some = b.add(Slice(starts=(0, 0), ends=(1, None), strides=(1, 1)), [rows])
            news = b.add(s.Concat(axis=0), [news, some])
        chosen = b.add(g.Gather(axis=0), [news, b.add(e.Maximum(), [last, scalar(b, 0)])])
    else:
        met = _segments(b, reduction, news, places, count)
        both = e.Minimum() if reduction is g.Reduction.MIN else e.Maximum()
        chosen = b.add(both, [rows, met])
        if last is None:
            return chosen
    return b.add(e.Select(), [is_hit, chosen, rows])


def _in_a_row(b: Builder, places: Value) -> Value:
    if places.data is not None:
        return b.const(places.data.reshape(-1))
    return b.add(s.Reshape(shape=(-1,)), [places])


def _at_known_places(b: Builder, rows: Value, places: np.ndarray, news: Value, count: int) -> Value:
    """Rows picked from the old ones and the new ones behind them."""
    origins = np.arange(count, dtype=np.int32)
    origins[places] = np.arange(count, count + places.size)
    both = b.add(s.Concat(axis=0), [rows, news], quant=rows.quant)
    return b.add(g.Gather(axis=0), [both, b.const(origins)], quant=rows.quant)


def _best_of_sorted(
    b: Builder, rows: Value, places: Value, news: Value, reduction: g.Reduction
) -> Value:
    """The least or greatest of int64, which no kernel finds by segments: of their ranks."""
    largest = reduction is g.Reduction.MAX
    flat, count = b.add(s.Reshape(shape=(-1,)), [news]), count_of(b, news, 0, 2)
    number = int(count.data.reshape(())) if count.data is not None else None
    some = [] if number is not None else [count]
    order = g.TopK(axis=0, k=number, largest=largest)
    found, origin = b.add_many(order, [flat, *some])
    _, rank = b.add_many(order.replace(largest=False), [origin, *some])
    width = count_of(b, news, 1, 2)
    starts = b.add(s.Reshape(shape=(-1, 1)), [b.add(e.Mul(), [places, width])])
    own = b.add(s.Reshape(shape=(-1,)), [b.add(e.Add(), [starts, counted(b, width)])])
    best = _segments(b, g.Reduction.MIN, rank, own, count_of(b, rows, 0, 2))
    is_hit = b.add(e.Less(), [best, count])
    last = b.add(e.Sub(), [count, scalar(b, 1)])
    chosen = b.add(g.Gather(axis=0), [found, b.add(e.Minimum(), [best, last])])
    old = b.add(s.Reshape(shape=(-1,)), [rows])
    both = b.add(e.Maximum() if largest else e.Minimum(), [old, chosen])
    return b.add(e.Select(), [is_hit, both, old])


def _product_of_sorted(b: Builder, rows: Value, places: Value, news: Value) -> Value | None:
    """Products of int64, which no kernel finds by segments.

    Sorted by place, each element is multiplied by the one before, then by that two before, four
    before, and so on, as long as that goes to the same place: the last one there has them all.
    """
    dims = static_shape(news.shape)
    if dims is None:
        return None
    if 0 in dims:
        return rows
    count, width = prod(dims), count_of(b, news, 1, 2)
    starts = b.add(s.Reshape(shape=(-1, 1)), [b.add(e.Mul(), [places, width])])
    own = b.add(s.Reshape(shape=(-1,)), [b.add(e.Add(), [starts, counted(b, width)])])
    own, origin = b.add_many(g.TopK(axis=0, k=count, largest=False), [own])
    flat = b.add(s.Reshape(shape=(-1,)), [news])
    total = b.add(g.Gather(axis=0), [flat, origin])

    def part(value: Value, start: int, end: int) -> Value:
        return b.add(Slice(starts=(start,), ends=(end,), strides=(1,)), [value])

    one, step = _number(b, 1, rows.dtype), 1
    while step < count:
        is_same = b.add(e.Equal(), [part(own, step, count), part(own, 0, count - step)])
        factor = b.add(e.Select(), [is_same, part(total, 0, count - step), one])
        later = b.add(e.Mul(), [part(total, step, count), factor])
        total = b.add(s.Concat(axis=0), [part(total, 0, step), later])
        step *= 2
    order = counted(b, scalar(b, count))
    last = _segments(b, g.Reduction.MAX, order, own, count_of(b, rows, 0, 2))
    is_hit = b.add(e.GreaterEqual(), [last, scalar(b, 0)])
    found = b.add(g.Gather(axis=0), [total, b.add(e.Maximum(), [last, scalar(b, 0)])])
    old = b.add(s.Reshape(shape=(-1,)), [rows])
    return b.add(e.Mul(), [old, b.add(e.Select(), [is_hit, found, one])])


def _number(b: Builder, number: float, dtype: DType) -> Value:
    return b.const(np.asarray(number, dtype.numpy))


def _row_shape(b: Builder, rows: Value, count: Value) -> Value:
    return joined(b, [as_vector(b, count), extent(b, rows, 1)])


def _segments(
    b: Builder, reduction: g.Reduction, data: Value, places: Value, count: Value
) -> Value:
    if count.data is not None:
        number = int(count.data.reshape(()))
        return b.add(Segment(reduction=reduction, num_segments=number), [data, places])
    return b.add(Segment(reduction=reduction, num_segments=None), [data, places, count])


def tensor_scatter(node: Node, b: Builder) -> list[Value] | None:
    """TensorScatter: each batch overwritten by itself, or ScatterElements."""
    op, x, update = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, g.TensorScatter)
    starts = node.optional(2)
    if x.shape is None or update.shape is None:
        return None
    rank, batch = len(x.shape), x.shape[0]
    if not op.circular and (starts is None or batch == 1):
        own = ints(b, [0]) if starts is None else as_vector(b, as_int32(b, starts))
        pieces = [ints(b, [0] * op.axis), own, ints(b, [0] * (rank - 1 - op.axis))]
        return [b.add(DynamicUpdateSlice(), [x, update, joined(b, pieces)])]
    places = counted(b, count_of(b, update, op.axis, op.axis + 1))
    if starts is not None:
        column = b.add(s.Reshape(shape=(-1, *[1] * op.axis)), [as_int32(b, starts)])
        places = b.add(e.Add(), [column, places])
    if op.circular:
        places = b.add(e.FloorMod(), [places, extent(b, x, op.axis)])
    lead = static_shape(places.shape)
    if lead is None:
        if starts is None:
            return None
        lengths = [ints(b, [-1, *[1] * (op.axis - 1)]), extent(b, update, op.axis)]
        shape = joined(b, [*lengths, ints(b, [1] * (rank - 1 - op.axis))])
        places = b.add(s.Reshape(shape=None), [places, shape])
    else:
        lead = (1,) * (op.axis + 1 - len(lead)) + lead
        places = b.add(s.Reshape(shape=(*lead, *[1] * (rank - 1 - op.axis))), [places])
    places = spread_to(b, places, extents_of(b, update, 0, rank))
    return [b.add(g.ScatterElements(axis=op.axis), [x, places, update])]
