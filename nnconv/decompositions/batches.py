"""Gathers with batch dimensions as plain ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnconv.decompositions.constants import MOST_ELEMENTS
from nnconv.decompositions.extents import as_int32
from nnconv.decompositions.places import count_of, counted
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.types import static_shape
from nnconv.ops.elementwise import Add, Mul
from nnconv.ops.gather import Gather
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Reshape, Transpose


def _turned(op: Gather, x: Value, indices: Value, b: Builder) -> list[Value]:
    """The axis brought behind the batch dimensions, what comes between them put back."""
    assert x.shape is not None
    assert indices.shape is not None
    rank, batch, axis = len(x.shape), op.batch_dims, op.axis
    perm = (*range(batch), axis, *range(batch, axis), *range(axis + 1, rank))
    turned = b.add(Transpose(perm=perm), [x], quant=x.quant)
    found = b.add(op.replace(axis=batch), [turned, indices], quant=x.quant)
    count, between = len(indices.shape) - batch, axis - batch
    last = batch + count + between
    order = (*range(batch), *range(batch + count, last), *range(batch, batch + count))
    whole = rank - 1 + count
    return [b.add(Transpose(perm=(*order, *range(last, whole))), [found], quant=x.quant)]


def gather_of_batches(node: Node, b: Builder) -> Sequence[Value] | None:
    """All slices of all batches in a row, the places of each batch behind those of the last."""
    op, x, indices = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, Gather)
    shape, places = static_shape(x.shape), static_shape(indices.shape)
    batch = op.batch_dims
    if not batch or op.from_end or x.shape is None or indices.shape is None:
        return None
    if op.axis != batch:
        return _turned(op, x, indices, b)
    if shape is None or places is None:
        return _of_open_extents(op, x, indices, b)
    count, extent, rest = math.prod(shape[:batch]), shape[batch], shape[batch + 1 :]
    if count * extent > MOST_ELEMENTS or 0 in shape or 0 in places:
        return None
    rows = b.add(Reshape(shape=(count * extent, *rest)), [x], quant=x.quant)
    if indices.dtype is not DType.INT32:
        indices = b.add(Cast(dtype=DType.INT32), [indices])
    each = b.add(Reshape(shape=(count, math.prod(places[batch:]))), [indices])
    starts = b.const(np.arange(0, count * extent, extent, dtype=np.int32).reshape(-1, 1))
    flat = b.add(Reshape(shape=(-1,)), [b.add(Add(), [each, starts])])
    found = b.add(Gather(axis=0), [rows, flat], quant=x.quant)
    return [b.add(Reshape(shape=(*shape[:batch], *places[batch:], *rest)), [found], quant=x.quant)]


def _of_open_extents(op: Gather, x: Value, indices: Value, b: Builder) -> list[Value] | None:
    """The same where a run tells how many batches there are, or how many slices each has."""
    assert x.shape is not None
    assert indices.shape is not None
    batch = op.batch_dims
    rest, behind = static_shape(x.shape[batch + 1 :]), static_shape(indices.shape[batch:])
    if rest is None or behind is None or 0 in (*rest, *behind):
        return None
    pairs = zip(x.shape[:batch], indices.shape[:batch], strict=True)
    known = [next((dim for dim in pair if isinstance(dim, int)), -1) for pair in pairs]
    if known.count(-1) > 1 or 0 in known:
        return None
    rows = b.add(Reshape(shape=(-1, *rest)), [x], quant=x.quant)
    each = b.add(Reshape(shape=(-1, math.prod(behind))), [as_int32(b, indices)])
    batches = counted(b, count_of(b, x, 0, batch))
    starts = b.add(Mul(), [batches, count_of(b, x, batch, batch + 1)])
    column = b.add(Reshape(shape=(-1, 1)), [starts])
    flat = b.add(Reshape(shape=(-1,)), [b.add(Add(), [each, column])])
    found = b.add(Gather(axis=0), [rows, flat], quant=x.quant)
    return [b.add(Reshape(shape=(*known, *behind, *rest)), [found], quant=x.quant)]
