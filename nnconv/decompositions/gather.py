"""Ops that pick elements by index, or put them at indices, by others."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.batches import gather_of_batches
from nnconv.decompositions.comparing import one_hot_by_comparing
from nnconv.decompositions.constants import scalar as scalar_like
from nnconv.decompositions.extents import (
    as_int32,
    extent,
    ints,
    joined,
    saturated,
    scalar,
)
from nnconv.decompositions.places import (
    count_of,
    counted,
    extents_of,
    from_front,
    linear,
    linear_along,
    spread_to,
    stretch,
)
from nnconv.decompositions.scatter import (
    scatter_bits,
    scatter_elements,
    scatter_nd,
    tensor_scatter,
)
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import static_shape
from nnconv.ops import elementwise as e
from nnconv.ops import gather as g
from nnconv.ops import shape as s
from nnconv.ops.quantize import Bitcast, Cast
from nnconv.ops.slices import Reverse, Slice

# -------------------------------------------------------------------- picking


def gather_stretch(node: Node, b: Builder) -> list[Value] | None:
    """Gather of neighbours: a Slice."""
    op, x, indices = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, g.Gather)
    found = stretch(op, x, indices)
    if found is None or x.shape is None:
        return None
    rank = len(x.shape)
    cut = Slice(
        starts=tuple(found[0] if i == op.axis else None for i in range(rank)),
        ends=tuple(found[1] if i == op.axis else None for i in range(rank)),
        strides=(1,) * rank,
    )
    part = b.add(cut, [x])
    return [b.add(s.Squeeze(axes=(op.axis,)), [part]) if indices.shape == () else part]


def gather_from_front(node: Node, b: Builder) -> list[Value] | None:
    """Gather: with indices that count from the front."""
    op, x, indices = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, g.Gather)
    if not op.from_end or x.shape is None:
        return None
    places = from_front(b, indices, count_of(b, x, op.axis, op.axis + 1))
    return [b.add(op.replace(from_end=False), [x, places])]


def gather_by_int32(node: Node, b: Builder) -> list[Value] | None:
    """Gather with indices of fewer bits, which kernels may lack."""
    op, x, indices = node.op, node.operand(0), node.operand(1)
    if indices.dtype.bits >= DType.INT32.bits:
        return None
    return [b.add(op, [x, as_int32(b, indices)], quant=x.quant)]


def gather_nd_from_front(node: Node, b: Builder) -> list[Value] | None:
    """GatherNd: with indices that count from the front, and places of their own for batches."""
    op, x, indices = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, g.GatherNd)
    depth = indices.shape[-1] if indices.shape else None
    if x.shape is None or not isinstance(depth, int) or not (op.from_end or op.batch_dims):
        return None
    batch = op.batch_dims
    places = as_int32(b, indices)
    if depth and op.from_end:
        places = from_front(b, indices, extents_of(b, x, batch, batch + depth))
    if batch:
        lead = extents_of(b, indices, 0, len(indices.shape or ()) - 1)
        lead = joined(b, [lead, ints(b, [1])])
        columns = [_spread(b, counted(b, count_of(b, x, i, i + 1)), i, lead) for i in range(batch)]
        places = b.add(s.Concat(axis=len(indices.shape or ()) - 1), [*columns, places])
    return [b.add(g.GatherNd(), [x, places])]


def gather_nd_of_rows(node: Node, b: Builder) -> list[Value] | None:
    """GatherNd: Gather from the rows that the dimensions of the places make."""
    op, x, indices = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, g.GatherNd)
    depth = indices.shape[-1] if indices.shape else None
    result = node.outputs[0].shape
    if op.batch_dims or not isinstance(depth, int) or not depth or x.shape is None:
        return None
    lead, rest = static_shape(x.shape[:depth]), static_shape(x.shape[depth:])
    if rest is None or result is None or 0 in (*rest, *(lead or ())):
        return None
    if sum(not isinstance(extent, int) for extent in result) > 1:
        return None
    target = tuple(extent if isinstance(extent, int) else -1 for extent in result)
    count = -1 if lead is None else prod(lead)
    rows = b.add(s.Reshape(shape=(count, *rest)), [x], quant=x.quant)
    picked = b.add(g.Gather(axis=0), [rows, linear(b, x, indices)], quant=x.quant)
    return [b.add(s.Reshape(shape=target), [picked], quant=x.quant)]


def _spread(b: Builder, numbers: Value, axis: int, shape: Value) -> Value:
    """Numbers along an axis, the same everywhere else."""
    rank = (shape.shape or (0,))[0]
    assert isinstance(rank, int), "a shape's rank is known here"
    column = b.add(s.Reshape(shape=(*[1] * axis, -1, *[1] * (rank - 1 - axis))), [numbers])
    return spread_to(b, column, shape)


def gather_elements(node: Node, b: Builder) -> list[Value] | None:
    """GatherElements: Gather along the last dimension, or of all elements in a row."""
    op, x, indices = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, g.GatherElements)
    if x.shape is None or indices.shape is None:
        return None
    rank = len(x.shape)
    if op.axis == rank - 1 and None not in x.shape and x.shape[:-1] == indices.shape[:-1]:
        places = from_front(b, indices, extent(b, x, op.axis))
        return [b.add(g.Gather(axis=op.axis, batch_dims=rank - 1), [x, places])]
    flat = b.add(s.Reshape(shape=(-1,)), [x])
    return [b.add(g.Gather(axis=0), [flat, linear_along(b, x, indices, op.axis)])]


def compress(node: Node, b: Builder) -> list[Value] | None:
    """Compress: Gather of the slices that NonZero finds."""
    op, x, condition = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, g.Compress)
    if op.axis is None:
        x = b.add(s.Reshape(shape=(-1,)), [x])
    places = b.add(Cast(dtype=DType.INT32), [b.add(g.NonZero(), [condition])])
    places = b.add(s.Reshape(shape=(-1,)), [places])
    return [b.add(g.Gather(axis=op.axis or 0), [x, places])]


# -------------------------------------------------------------------- one-hot, sorting


def one_hot_from_front(node: Node, b: Builder) -> list[Value] | None:
    """OneHot: indices that count from the end brought to the front."""
    op, indices, on, off = node.op, *(node.operand(i) for i in range(3))
    assert isinstance(op, g.OneHot)
    if not op.from_end:
        return None
    depth = node.optional(3)
    places = saturated(b, indices)  # LiteRT cuts int64 down to 32 bits, places far away too
    count = scalar(b, op.depth) if op.depth is not None else as_int32(b, depth or indices)
    below = b.add(e.Less(), [places, scalar(b, 0)])
    places = b.add(e.Select(), [below, b.add(e.Add(), [places, count]), places])
    return [b.add(op.replace(from_end=False), [places, on, off, *node.inputs[3:]])]


def top_along_last(node: Node, b: Builder) -> list[Value] | None:
    """TopK along another dimension: turned to be the last."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, g.TopK)
    if x.shape is None or op.axis == len(x.shape) - 1:
        return None
    order = [i for i in range(len(x.shape)) if i != op.axis]
    perm = (*order, op.axis)
    back = tuple(perm.index(i) for i in range(len(perm)))
    turned = b.add(s.Transpose(perm=perm), [x])
    found = b.add_many(op.replace(axis=len(perm) - 1), [turned, *node.inputs[1:]])
    return [b.add(s.Transpose(perm=back), [v]) for v in found]


def top_by_int32(node: Node, b: Builder) -> list[Value] | None:
    """TopK whose indices are int64, where they are int32 only: these, cast."""
    op = node.op
    assert isinstance(op, g.TopK)
    if op.index_dtype is DType.INT32 or not op.largest:
        return None
    found, places = b.add_many(op.replace(index_dtype=DType.INT32), node.inputs)
    return [found, b.add(Cast(dtype=op.index_dtype), [places])]


def of_equals_the_other(node: Node, b: Builder) -> list[Value] | None:
    """TopK that has the last of equals first: the one that has the first, backward; or reversed."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, g.TopK)
    if op.last_first == b.means.last_first or x.shape is None:
        return None
    backward = b.add(Reverse(axes=(op.axis,)), [x])
    turned = op.replace(last_first=not op.last_first)
    found, places = b.add_many(turned, [backward, *node.inputs[1:]])
    if isinstance(length := x.shape[op.axis], int):
        end = scalar_like(b, length - 1, places)
    else:
        count = extent(b, x, op.axis)
        if count.dtype is not places.dtype:
            count = b.add(Cast(dtype=places.dtype), [count])
        end = b.add(e.Sub(), [count, scalar_like(b, 1, places)])
    return [found, b.add(e.Sub(), [end, places])]


def least(node: Node, b: Builder) -> list[Value] | None:
    """The least along the last dimension: the greatest of the numbers turned round."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, g.TopK)
    if op.largest or x.shape is None or op.axis != len(x.shape) - 1:
        return None
    keys = b.add(Bitcast(dtype=x.dtype), [x]) if x.type.has_codes else x
    if keys.dtype.is_integer and keys.dtype.bits < 32:
        keys = b.add(Cast(dtype=DType.INT32), [keys])
    if keys.dtype.is_float:
        keys = b.add(e.Neg(), [keys])
    else:
        keys = b.add(e.Sub(), [scalar_like(b, -1, keys), keys])
    found, places = b.add_many(op.replace(largest=True), [keys, *node.inputs[1:]])
    if keys.dtype is x.dtype and x.dtype.is_float:
        return [b.add(e.Neg(), [found]), places]
    if keys.dtype is x.dtype and not x.type.has_codes:
        return [b.add(e.Sub(), [scalar_like(b, -1, keys), found]), places]
    return [b.add(g.GatherElements(axis=op.axis), [x, places]), places]


def top_of_bits(node: Node, b: Builder) -> list[Value] | None:
    """TopK of uint64: as int64 that are ordered alike."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, g.TopK)
    if x.dtype is not DType.UINT64 or x.type.has_codes:
        return None
    middle = b.const(np.asarray(-(1 << 63), np.int64))
    keys = b.add(e.Add(), [b.add(Bitcast(dtype=DType.INT64), [x]), middle])
    found, places = b.add_many(op, [keys, *node.inputs[1:]])
    return [b.add(Bitcast(dtype=x.dtype), [b.add(e.Add(), [found, middle])]), places]


# -------------------------------------------------------------------- repetitions


def unique_slices(node: Node, b: Builder) -> Sequence[Value] | None:
    """UniqueSlices: each slice compared with all."""
    from nnconv.decompositions.unique import unique_by_comparing, unique_elements

    op = node.op
    assert isinstance(op, g.UniqueSlices)
    return unique_elements(node, b) if op.axis is None else unique_by_comparing(node, b)


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    g.Gather: (gather_by_int32, gather_stretch, gather_from_front, gather_of_batches),
    g.GatherNd: (gather_nd_from_front, gather_nd_of_rows),
    g.GatherElements: (gather_elements,),
    g.Compress: (compress,),
    g.ScatterNd: (scatter_bits, scatter_nd),
    g.ScatterElements: (scatter_bits, scatter_elements),
    g.TensorScatter: (tensor_scatter,),
    g.OneHot: (one_hot_from_front, one_hot_by_comparing),
    g.TopK: (top_of_bits, top_along_last, least, top_by_int32, of_equals_the_other),
    g.UniqueSlices: (unique_slices,),
}
