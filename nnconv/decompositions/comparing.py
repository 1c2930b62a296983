"""Ops that find places, by comparing indices with all places that there are."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from nnconv.decompositions.constants import MOST_ELEMENTS, scalar
from nnconv.decompositions.extents import as_int32, saturated
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.types import static_shape
from nnconv.ops import elementwise as e
from nnconv.ops import gather as g
from nnconv.ops import reduce as r
from nnconv.ops.matmul import MatMul
from nnconv.ops.quantize import Cast
from nnconv.ops.segment import Segment
from nnconv.ops.shape import Reshape, Unsqueeze


def one_hot_by_comparing(node: Node, b: Builder) -> Sequence[Value] | None:
    """OneHot of a known depth: chosen where a place is the index."""
    op, indices, on, off = node.op, *(node.operand(i) for i in range(3))
    assert isinstance(op, g.OneHot)
    if op.from_end or op.depth is None or op.depth > MOST_ELEMENTS or indices.shape is None:
        return None
    column = (-1, *(1 for _ in indices.shape[op.axis :]))
    places = b.const(np.arange(op.depth, dtype=np.int32).reshape(column))
    wanted = b.add(Unsqueeze(axes=(op.axis,)), [saturated(b, indices)])
    is_there = b.add(e.Equal(), [wanted, places])
    return [b.add(e.Select(), [is_there, on, off], quant=node.outputs[0].quant)]


_NEUTRAL = {g.Reduction.ADD: 0, g.Reduction.MUL: 1}
_REDUCED: dict[g.Reduction, type[r.Reduction]] = {
    g.Reduction.ADD: r.ReduceSum,
    g.Reduction.MUL: r.ReduceProd,
    g.Reduction.MAX: r.ReduceMax,
    g.Reduction.MIN: r.ReduceMin,
}
_MOST_SPREAD = 1 << 20
"""Sums of floats that would need more elements than these are products of matrices."""


def segments_by_comparing(node: Node, b: Builder) -> Sequence[Value] | None:
    """Segment of known extents: of all slices those of a segment, combined."""
    op, data, ids = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, Segment)
    shape, places = static_shape(data.shape), static_shape(ids.shape)
    count = op.num_segments
    if count is None or shape is None or not places or data.type.has_codes:
        return None
    total, rest = prod(places), shape[len(places) :]
    width = prod(rest)
    if not count or not total or not width or count * total > MOST_ELEMENTS:
        return None
    flat = b.add(Reshape(shape=(1, total)), [as_int32(b, ids)])
    column = b.const(np.arange(count, dtype=np.int32).reshape(count, 1))
    belongs = b.add(e.Equal(), [column, flat])
    large = count * total * width > _MOST_SPREAD
    if large and op.reduction is g.Reduction.ADD and data.dtype.is_float:
        rows = b.add(Reshape(shape=(total, width)), [data])
        sums = b.add(MatMul(), [b.add(Cast(dtype=data.dtype), [belongs]), rows])
        return [b.add(Reshape(shape=(count, *rest)), [sums])]
    if count * total * width > MOST_ELEMENTS:
        return None
    rows = b.add(Reshape(shape=(1, total, width)), [data])
    chosen = b.add(Reshape(shape=(count, total, 1)), [belongs])
    parts = b.add(e.Select(), [chosen, rows, scalar(b, _start(op.reduction, data.dtype), data)])
    joined = b.add(_REDUCED[op.reduction](axes=(1,)), [parts])
    return [b.add(Reshape(shape=(count, *rest)), [joined])]


def _start(reduction: g.Reduction, dtype: DType) -> float:
    """What a segment without slices is."""
    if reduction in _NEUTRAL:
        return _NEUTRAL[reduction]
    if dtype.is_float:
        most = float(np.finfo(dtype.numpy).max)
        return -most if reduction is g.Reduction.MAX else most
    return dtype.int_range[0 if reduction is g.Reduction.MAX else 1]
