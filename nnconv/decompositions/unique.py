"""The different elements or slices of a tensor, by ops that formats have."""

from __future__ import annotations

import numpy as np

from nnconv.decompositions.extents import extent, scalar
from nnconv.decompositions.places import count_of, counted
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ops import elementwise as e
from nnconv.ops import gather as g
from nnconv.ops import shape as s
from nnconv.ops.quantize import Cast
from nnconv.ops.reduce import CumSum, ReduceMax, ReduceMin, ReduceSum
from nnconv.ops.segment import Segment


def _groups(b: Builder, places: Value, count: Value) -> tuple[Value, Value]:
    """The first member of each group, and how many it has, from each member's group."""
    order = counted(b, count_of(b, places, 0, 1))
    ones = b.add(s.Fill(shape=None), [scalar(b, 1), extent(b, places, 0)])
    first = b.add(Segment(reduction=g.Reduction.MIN, num_segments=None), [order, places, count])
    counts = b.add(Segment(reduction=g.Reduction.ADD, num_segments=None), [ones, places, count])
    return first, counts


def _wide(b: Builder, *values: Value) -> list[Value]:
    return [b.add(Cast(dtype=DType.INT64), [v]) for v in values]


def unique_elements(node: Node, b: Builder) -> list[Value] | None:
    """Of elements: Unique, and the places of its results once they are sorted."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, g.UniqueSlices)
    flat = b.add(s.Reshape(shape=(-1,)), [x])
    values, places = b.add_many(g.Unique(), [flat])
    count = b.add(s.ShapeOf(dims=(0,)), [values])
    first, counts = _groups(b, places, b.add(s.Reshape(shape=()), [count]))
    if not op.sorted:
        return [values, *_wide(b, first, places, counts)]
    values, order = _rising(b, values, count)
    _, rank = _rising(b, order, count)
    places, first, counts = (
        b.add(g.Gather(axis=0), pair) for pair in ((rank, places), (first, order), (counts, order))
    )
    return [values, *_wide(b, first, places, counts)]


def _rising(b: Builder, x: Value, count: Value) -> tuple[Value, Value]:
    """All elements of a vector in rising order, and where each stood."""
    found, order = b.add_many(g.TopK(axis=0, k=None, largest=False), [x, count])
    return found, order


def unique_by_comparing(node: Node, b: Builder) -> list[Value] | None:
    """Of slices: each compared with all the others.

    A slice's place is the number of different ones before it: that are less, or stand before it.
    """
    op, x = node.op, node.operand(0)
    assert isinstance(op, g.UniqueSlices)
    assert op.axis is not None
    if x.shape is None:
        return None
    rank = len(x.shape)
    turned = x
    if op.axis:
        rest = [i for i in range(rank) if i != op.axis]
        turned = b.add(s.Transpose(perm=(op.axis, *rest)), [x])
    n = extent(b, x, op.axis)
    rows = b.add(s.Reshape(shape=None), [turned, _pair(b, n)])
    # [n, n, width]: slice i against slice j
    one, other = (b.add(s.Unsqueeze(axes=(axis,)), [rows]) for axis in (1, 0))
    differs = b.add(Cast(dtype=DType.INT32), [b.add(e.NotEqual(), [one, other])])
    apart = b.add(ReduceMax(axes=(2,), keep_dims=False), [differs])
    same = b.add(e.Sub(), [scalar(b, 1), apart])
    order = counted(b, b.add(s.Reshape(shape=()), [n]))
    far = b.add(e.Mul(), [apart, n])
    first_like = b.add(ReduceMin(axes=(1,), keep_dims=False), [b.add(e.Add(), [far, order])])
    is_first = b.add(Cast(dtype=DType.INT32), [b.add(e.Equal(), [first_like, order])])
    if op.sorted:
        before = b.add(CumSum(axis=2, exclusive=True), [differs])
        decides = b.add(e.Equal(), [before, scalar(b, 0)])
        greater = b.add(e.LogicalAnd(), [decides, b.add(e.Greater(), [one, other])])
        above = b.add(Cast(dtype=DType.INT32), [greater])
        above = b.add(ReduceMax(axes=(2,), keep_dims=False), [above])
        places = b.add(ReduceSum(axes=(1,), keep_dims=False), [b.add(e.Mul(), [above, is_first])])
    else:
        ahead = b.add(CumSum(axis=0, exclusive=True), [is_first])
        places = b.add(g.Gather(axis=0), [ahead, first_like])
    del same
    count = b.add(ReduceSum(axes=(0,), keep_dims=False), [is_first])
    first, counts = _groups(b, places, count)
    values = b.add(g.Gather(axis=op.axis), [x, first])
    return [values, *_wide(b, first, places, counts)]


def _pair(b: Builder, n: Value) -> Value:
    """[n, -1]."""
    if n.data is not None:
        return b.const(np.asarray([int(n.data[0]), -1], np.int32))
    return b.add(s.Concat(axis=0), [n, b.const(np.asarray([-1], np.int32))])
