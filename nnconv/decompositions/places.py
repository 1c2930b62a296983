"""Indices: where they come from, as numbers from the front, as one number a place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from operator import mul

import numpy as np

from nnconv.decompositions.bounds import bounds_of
from nnconv.decompositions.extents import as_int32, ints, scalar, shape_of
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Value
from nnconv.ir.types import static_shape
from nnconv.ops import elementwise as e
from nnconv.ops import gather as g
from nnconv.ops import shape as s
from nnconv.ops.reduce import ReduceProd, ReduceSum


def never_negative(value: Value) -> bool:
    """Whether integers can be told not to be negative from how they are made."""
    return bounds_of(value).low >= 0


def from_front(b: Builder, indices: Value, extents: Value) -> Value:
    """int32 indices with those that count from the end brought to the front.

    ``extents`` broadcast with them.
    """
    places = as_int32(b, indices)
    if not b.means.sums and bounds_of(places).size == _WIDEST:
        # small numbers can be added up as floats: what is out of reach means nothing
        least = b.add(e.Sub(), [b.const(np.zeros((), np.int32)), extents])
        most = b.add(e.Sub(), [extents, b.const(np.ones((), np.int32))])
        places = b.add(e.Minimum(), [b.add(e.Maximum(), [places, least]), most])
    if never_negative(indices):
        return places
    if extents.data is None:  # there may be nothing to pick from, which LiteRT would divide by
        extents = b.add(e.Maximum(), [extents, b.const(np.ones((), np.int32))])
    return b.add(e.FloorMod(), [places, extents])


_WIDEST = 1 << 31


def extents_of(b: Builder, x: Value, start: int, end: int) -> Value:
    """Some of the extents of x."""
    dims = static_shape(None if x.shape is None else x.shape[start:end])
    if dims is not None:
        return ints(b, dims)
    return b.add(s.ShapeOf(dims=tuple(range(start, end))), [x])


def count_of(b: Builder, x: Value, start: int, end: int | None = None) -> Value:
    """The product of some extents of x, a scalar."""
    last = len(x.shape or ()) if end is None else end
    dims = static_shape(None if x.shape is None else x.shape[start:last])
    if dims is not None:
        return scalar(b, prod(dims))
    return b.add(ReduceProd(axes=(0,), keep_dims=False), [extents_of(b, x, start, last)])


def counted(b: Builder, count: Value) -> Value:
    """0, 1, ... below a scalar."""
    if count.data is not None:
        return ints(b, range(int(count.data.reshape(()))))
    return b.add(s.Range(), [scalar(b, 0), count, scalar(b, 1)])


def spread_to(b: Builder, x: Value, shape: Value) -> Value:
    """A value repeated up to a shape."""
    if shape.data is None:
        return b.add(s.BroadcastTo(shape=None), [x, shape], quant=x.quant)
    return b.add(s.BroadcastTo(shape=tuple(shape.data.tolist())), [x], quant=x.quant)


def linear(b: Builder, x: Value, indices: Value) -> Value:
    """Places [..., K] in the first K dimensions of x as one number each, row-major: [places]."""
    depth = (indices.shape or (0,))[-1]
    assert isinstance(depth, int), "the caller looks at the depth"
    dims = static_shape(None if x.shape is None else x.shape[:depth])
    if indices.data is not None and dims is not None:
        each = np.moveaxis(indices.data.astype(np.int64).reshape(-1, depth) % dims, 1, 0)
        return ints(b, np.ravel_multi_index(tuple(each), dims).tolist())
    places = from_front(b, indices, extents_of(b, x, 0, depth))
    if depth == 1:
        return b.add(s.Reshape(shape=(-1,)), [places])
    strides = [count_of(b, x, k + 1, depth) for k in range(depth)]
    known = [v.data for v in strides]
    if all(data is not None for data in known):
        steps = ints(b, [int(data) for data in known if data is not None])
    else:
        steps = b.add(s.Stack(axis=0), strides)
    rank = len(indices.shape or ())
    sums = b.add(ReduceSum(axes=(rank - 1,), keep_dims=False), [b.add(e.Mul(), [places, steps])])
    return b.add(s.Reshape(shape=(-1,)), [sums])


def linear_along(b: Builder, x: Value, indices: Value, axis: int) -> Value:
    """Where [..., indices[...], ...] is in x as one number each, in the indices' shape."""
    rank = len(x.shape or ())
    places = from_front(b, indices, extents_of(b, x, axis, axis + 1))
    own, dims = static_shape(x.shape), static_shape(indices.shape)
    if own is not None and dims is not None:
        steps = [*accumulate(reversed(own[1:]), mul, initial=1)][::-1]
        total = np.zeros((1,) * rank, np.int64)
        for i, n in enumerate(dims):
            if i != axis:
                total = total + (np.arange(n) * steps[i]).reshape(-1, *[1] * (rank - 1 - i))
        if indices.data is not None:
            known = indices.data.astype(np.int64) % own[axis] * steps[axis] + total
            return b.const(known.astype(np.int32))
        if steps[axis] != 1:
            places = b.add(e.Mul(), [places, scalar(b, steps[axis])])
        if total.any():
            places = b.add(e.Add(), [places, b.const(total.astype(np.int32))])
        return places
    found = b.add(e.Mul(), [places, count_of(b, x, axis + 1)])
    for i in range(rank):
        if i == axis:
            continue
        along = counted(b, count_of(b, indices, i, i + 1))
        steps_along = b.add(e.Mul(), [along, count_of(b, x, i + 1)])
        column = b.add(s.Reshape(shape=(-1, *[1] * (rank - 1 - i))), [steps_along])
        found = b.add(e.Add(), [found, column])
    return found


def under_shape_of(b: Builder, value: Value, like: Value) -> Value:
    """A value's elements under the shape of another."""
    dims = like.shape
    if dims is not None and sum(not isinstance(d, int) for d in dims) <= 1:
        numbers: Sequence[int] = [d if isinstance(d, int) else -1 for d in dims]
        if -1 not in numbers or 0 not in numbers:
            return b.add(s.Reshape(shape=tuple(numbers)), [value])
    return b.add(s.Reshape(shape=None), [value, shape_of(b, like)])


def stretch(op: g.Gather, x: Value, indices: Value) -> tuple[int, int] | None:
    """Start and end of the neighbours that a Gather picks in order; None if it does otherwise.

    A row picked from the first dimension is none: there Gather is as quick as anything.
    """
    data = indices.data
    if data is None or data.ndim > 1 or not data.size or op.batch_dims or not x.type.is_static:
        return None
    extent = (x.shape or ())[op.axis]
    picks = data.reshape(-1).astype(np.int64)
    if not isinstance(extent, int) or (data.ndim == 0 and op.axis == 0):
        return None
    picks = picks + extent * (picks < 0)
    first, last = int(picks[0]), int(picks[-1])
    if first < 0 or last >= extent or (np.diff(picks) != 1).any():
        return None
    return first, last + 1
