"""Diagonals and triangles of matrices by masks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.constants import MOST_ELEMENTS, scalar
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops import diagonal as d
from nnconv.ops import elementwise as e
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Identity, Range, Reshape, ShapeOf, Unsqueeze


def counted(x: Value, axis: int, shape: tuple[int, ...], b: Builder) -> Value:
    """0, 1, ... as int32 along a dimension of x, in a shape of which one extent is -1."""
    assert x.shape is not None
    extent = x.shape[axis]
    if isinstance(extent, int) and extent <= MOST_ELEMENTS:
        return b.const(np.arange(extent, dtype=np.int32).reshape(shape))
    size = b.add(ShapeOf(dtype=DType.INT32, dims=(axis,)), [x])
    limit = b.add(Reshape(shape=()), [size])
    start, step = (b.const(np.asarray(number, np.int32)) for number in (0, 1))
    return b.add(Reshape(shape=shape), [b.add(Range(), [start, limit, step])])


def _place(x: Value, b: Builder) -> Value | None:
    """On which diagonal each element is: its column less its row; None if there are too many."""
    rank = len(x.shape or ())
    columns, rows = counted(x, rank - 1, (-1,), b), counted(x, rank - 2, (-1, 1), b)
    if columns.data is None or rows.data is None:
        return b.add(e.Sub(), [columns, rows])
    if columns.data.size * rows.data.size > MOST_ELEMENTS:
        return None
    return b.const(columns.data - rows.data)


def trilu(node: Node, b: Builder) -> Sequence[Value] | None:
    """Zeros where the place is on the other side of the diagonal."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, d.Trilu)
    if x.shape is None or x.quant is not None:
        return None
    if 0 in x.shape[-2:]:
        return [b.add_typed(Identity(), [x], [x.type])[0]]
    place = _place(x, b)
    if place is None:
        return None
    compare = e.GreaterEqual() if op.upper else e.LessEqual()
    if op.k is not None and place.data is not None:
        data = place.data >= op.k if op.upper else place.data <= op.k
        kept = b.const(data)
    else:
        kept = b.add(compare, [place, _shift(op, node, b)])
    return [b.add(e.Select(), [kept, x, scalar(b, 0, x)])]


def _shift(op: d.Trilu, node: Node, b: Builder) -> Value:
    if op.k is not None:
        return b.const(np.asarray(op.k, np.int32))
    k = node.operand(1)
    flat = k if k.shape == () else b.add(Reshape(shape=()), [k])
    return flat if flat.dtype is DType.INT32 else b.add(Cast(dtype=DType.INT32), [flat])


def eye_like(node: Node, b: Builder) -> Sequence[Value] | None:
    """Whether the place is on the diagonal; a constant where the shape is known."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, d.EyeLike)
    if x.shape is None:
        return None
    place = _place(x, b)
    if place is None:
        return None
    if place.data is not None:
        data = (place.data == op.k).astype(op.dtype.numpy)
        return [b.const(data, node.outputs[0].name, dtype=op.dtype)]
    same = b.add(e.Equal(), [place, b.const(np.asarray(op.k, np.int32))])
    return [same if op.dtype is DType.BOOL else b.add(Cast(dtype=op.dtype), [same])]


def matrix_diag(node: Node, b: Builder) -> Sequence[Value] | None:
    """The vector as rows, where the place is on the diagonal."""
    x, y = node.operand(0), node.outputs[0]
    if x.shape is None or not isinstance(x.shape[-1], int):
        return None
    rows = b.add(Unsqueeze(axes=(len(x.shape) - 1,)), [x])
    mask = b.const(np.eye(x.shape[-1], dtype=bool))
    nothing = b.const(np.zeros((), y.dtype.numpy), quant=x.quant)
    return [b.add(e.Select(), [mask, rows, nothing], quant=x.quant)]


def matrix_set_diag(node: Node, b: Builder) -> Sequence[Value] | None:
    """The diagonal as rows or columns, whichever are fewer, where the place is on it."""
    x, diagonal = (node.operand(i) for i in range(2))
    if x.shape is None:
        return None
    rows, columns = x.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        return None
    rank = len(x.shape)
    spread = b.add(Unsqueeze(axes=(rank - 1 if rows <= columns else rank - 2,)), [diagonal])
    mask = b.const(np.eye(rows, columns, dtype=bool))
    return [b.add(e.Select(), [mask, spread, x], quant=x.quant)]


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    d.Trilu: (trilu,),
    d.EyeLike: (eye_like,),
    d.MatrixDiag: (matrix_diag,),
    d.MatrixSetDiag: (matrix_set_diag,),
}
