"""Ops that cut or join elements, and ops on shapes, by others."""

from __future__ import annotations

from collections.abc import Sequence

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.extents import open_shape
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import Shape, element_count, static_shape
from nnconv.ops import shape as s
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


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    s.Unstack: (split_unstacked,),
    s.Stack: (concat_stacked,),
    s.Concat: (join_in_three,),
    s.Split: (split_in_three,),
    s.Size: (multiply_extents,),
}
