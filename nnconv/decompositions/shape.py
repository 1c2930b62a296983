"""Ops that cut or join elements, and ops on shapes, by others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.extents import as_int32, as_vector, open_shape, scalar
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import Shape, element_count, static_shape
from nnconv.ops import elementwise as e
from nnconv.ops import shape as s
from nnconv.ops.quantize import Cast
from nnconv.ops.reduce import ReduceProd


def split_unstacked(node: Node, b: Builder) -> list[Value] | None:
    """Unstack: Split, and Squeeze each part."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, s.Unstack)
    parts = b.add_many(s.Split(axis=op.axis, sizes=(1,) * op.count), [x])
    return [b.add(s.Squeeze(axes=(op.axis,)), [part]) for part in parts]


def concat_stacked(node: Node, b: Builder) -> list[Value] | None:
    """Stack: Unsqueeze each part, and Concat."""
    op = node.op
    assert isinstance(op, s.Stack)
    tall = [b.add(s.Unsqueeze(axes=(op.axis,)), [v]) for v in node.inputs if v is not None]
    return [b.add(s.Concat(axis=op.axis), tall, quant=node.outputs[0].quant)]


def _three(shape: Shape, axis: int) -> tuple[int, int, int] | None:
    """A shape with all before an axis, and all behind it, as one; None if that can't be told."""
    if shape is None:
        return None
    own = shape[axis]
    numbers = open_shape((element_count(shape[:axis]), own, element_count(shape[axis + 1 :])))
    return None if numbers is None else (numbers[0], numbers[1], numbers[2])


def join_in_three(node: Node, b: Builder) -> list[Value] | None:
    """Concat of many dimensions in three."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, s.Concat)
    parts = [v for v in node.inputs if v is not None]
    shapes = [_three(v.shape, op.axis) for v in parts]
    final = open_shape(y.shape)
    if final is None or len(final) <= 3 or None in shapes:
        return None
    flat = [
        b.add(s.Reshape(shape=shape), [v])
        for v, shape in zip(parts, shapes, strict=True)
        if shape is not None
    ]
    made = b.add(op.replace(axis=1), flat, quant=y.quant)
    return [b.add(s.Reshape(shape=final), [made])]


def split_in_three(node: Node, b: Builder) -> Sequence[Value] | None:
    """Split of many dimensions in three."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, s.Split)
    shape, finals = _three(x.shape, op.axis), [open_shape(v.shape) for v in node.outputs]
    if shape is None or None in finals or x.type.rank is None or x.type.rank <= 3:
        return None
    flat = b.add(s.Reshape(shape=shape), [x])
    parts = b.add_many(op.replace(axis=1), [flat])
    return [
        b.add(s.Reshape(shape=final), [part])
        for part, final in zip(parts, finals, strict=True)
        if final is not None
    ]


def multiply_extents(node: Node, b: Builder) -> list[Value] | None:
    """Size: the product of the extents."""
    x = node.operand(0)
    if static_shape(x.shape) is not None:
        return None
    extents = b.add(s.ShapeOf(dtype=node.outputs[0].dtype), [x])
    return [b.add(ReduceProd(axes=(0,), keep_dims=False), [extents])]


def broadcast_extents(node: Node, b: Builder) -> list[Value] | None:
    """BroadcastArgs: of each pair the one that isn't 1, the shorter shape behind ones."""
    shapes = [node.operand(i) for i in range(2)]
    counts = [None if v.shape is None else v.shape[0] for v in shapes]
    if not all(isinstance(count, int) for count in counts):
        return None
    dtype = node.outputs[0].dtype
    longest = max(count for count in counts if isinstance(count, int))
    raised = []
    for shape, count in zip(shapes, counts, strict=True):
        assert isinstance(count, int)
        lead = b.const(np.ones(longest - count, dtype.numpy))
        raised.append(b.add(s.Concat(axis=0), [lead, shape]) if count < longest else shape)
    is_one = b.add(e.Equal(), [raised[0], b.const(np.ones(1, dtype.numpy))])
    return [b.add(e.Select(), [is_one, raised[1], raised[0]])]


def range_from_zero(node: Node, b: Builder) -> list[Value] | None:
    """Range by one of int32 from 0 in steps of 1: these times the step, plus the start."""
    start, limit, step = (node.operand(i) for i in range(3))
    dtype = node.outputs[0].dtype
    begins, single = _is_all(start, 0), _is_all(step, 1)
    if begins and single and dtype is DType.INT32:
        return None
    if dtype.is_integer:
        first, end, stride = (as_int32(b, v) for v in (start, limit, step))
        count = end if begins else b.add(e.Sub(), [end, first])
        if not single:
            count = b.add(e.Neg(), [b.add(e.FloorDiv(), [b.add(e.Neg(), [count]), stride])])
    else:
        span = limit if begins else b.add(e.Sub(), [limit, start])
        steps = span if single else b.add(e.Div(), [span, step])
        count = b.add(Cast(dtype=DType.INT32), [b.add(e.Ceil(), [steps])])
    places = b.add(s.Range(), [scalar(b, 0), count, scalar(b, 1)])
    result = places if dtype is DType.INT32 else b.add(Cast(dtype=dtype), [places])
    if not single:
        result = b.add(e.Mul(), [result, as_vector(b, step)])
    return [result if begins else b.add(e.Add(), [result, as_vector(b, start)])]


def _is_all(value: Value, number: int) -> bool:
    return value.data is not None and bool((value.data == number).all())


def repeat_value(node: Node, b: Builder) -> list[Value] | None:
    """Fill with what is computed at run time, or has no such op: BroadcastTo."""
    op, value = node.op, node.operand(0)
    assert isinstance(op, s.Fill)
    one = value if value.shape == () else b.add(s.Reshape(shape=()), [value])
    return [b.add(s.BroadcastTo(shape=op.shape), [one, *node.inputs[1:]], quant=value.quant)]


def tile_to_given(node: Node, b: Builder) -> list[Value] | None:
    """BroadcastTo a shape that is computed at run time: Tile as often as that says."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, s.BroadcastTo)
    own = static_shape(x.shape)
    if op.shape is not None or own is None or y.shape is None:
        return None
    lead = len(y.shape) - len(own)
    if lead:
        x = b.add(s.Reshape(shape=(1,) * lead + own), [x])
    given = node.operand(1)
    grows = np.asarray([True] * lead + [extent == 1 for extent in own])
    if not grows.all():
        given = b.add(e.Select(), [b.const(grows), given, b.const(np.ones(1, given.dtype.numpy))])
    return list(b.add_typed(s.Tile(repeats=None), [x, given], [y.type]))


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    s.BroadcastTo: (tile_to_given,),
    s.BroadcastArgs: (broadcast_extents,),
    s.Range: (range_from_zero,),
    s.Unstack: (split_unstacked,),
    s.Stack: (concat_stacked,),
    s.Concat: (join_in_three,),
    s.Split: (split_in_three,),
    s.Size: (multiply_extents,),
    s.Fill: (repeat_value,),
}
