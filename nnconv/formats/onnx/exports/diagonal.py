"""Diagonals of matrices: Where on a mask, so that NaN and infinity stay in their places."""

from __future__ import annotations

import numpy as np

from nnconv.formats.onnx.exact import select
from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.exports.shape import Extent, extent
from nnconv.formats.onnx.scatter import counted, rank_of
from nnconv.formats.onnx.types import DATA_TYPES
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops.diagonal import EyeLike, MatrixDiag, MatrixSetDiag, Trilu

_NO_TRILU = {
    DType.INT8: DType.INT32,
    DType.UINT8: DType.INT32,
    DType.INT16: DType.INT32,
    DType.UINT16: DType.INT32,
    DType.UINT32: DType.INT64,
    DType.UINT64: DType.INT64,  # Cast keeps all bits
    DType.BFLOAT16: DType.FLOAT32,
}
"""Types without a kernel of Trilu, and the type to go through."""

_EYES = frozenset({DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64, DType.UINT64})
"""Types with a kernel of EyeLike."""


def _mask(t: Target, rows: Extent, columns: Extent) -> str:
    """Where row and column are the same: a bool [rows, columns]."""
    down = t.reshape(counted(t, rows), [-1, 1])
    return t.node("Equal", [down, counted(t, columns)])


def export_matrix_diag(node: Node, t: Target) -> None:
    """MatrixDiag."""
    x, y = node.operand(0), node.outputs[0]
    count = extent(t, x, rank_of(t, x) - 1)
    rows = t.node("Unsqueeze", [t.stored(x), t.const([-2])])
    zero = t.const(np.zeros((), x.dtype.numpy))
    t.set_stored(y, select(t, _mask(t, count, count), rows, zero, dtype=x.dtype))


def export_matrix_set_diag(node: Node, t: Target) -> None:
    """MatrixSetDiag: the diagonal is spread over rows or columns, whichever are fewer."""
    x, diagonal = (node.operand(i) for i in range(2))
    y = node.outputs[0]
    rank = rank_of(t, x)
    rows, columns = extent(t, x, rank - 2), extent(t, x, rank - 1)
    name = t.stored(diagonal)
    if isinstance(rows, int) and isinstance(columns, int):
        spread = t.node("Unsqueeze", [name, t.const([-1 if rows <= columns else -2])])
    else:  # an entry for each row, the last one for those without; the mask leaves them out
        last = t.node("Sub", [extent_of_last(t, name), t.const([1])])
        picks = t.node("Min", [counted(t, rows), last])
        spread = t.node("Unsqueeze", [t.node("Gather", [name, picks], axis=-1), t.const([-1])])
    t.set_stored(y, select(t, _mask(t, rows, columns), spread, t.stored(x), dtype=x.dtype))


def extent_of_last(t: Target, name: str) -> str:
    """The extent of the last dimension of an ONNX value, as a rank-1 tensor of one element."""
    return t.node("Gather", [t.node("Shape", [name]), t.const([-1])])


def export_trilu(node: Node, t: Target) -> None:
    """Trilu; before opset 14 Where on a mask."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, Trilu)
    if t.opset < 14:
        zero = t.const(np.zeros((), x.dtype.numpy))
        t.set_stored(y, select(t, _triangle(op, node, x, t), t.stored(x), zero, dtype=x.dtype))
        return
    shift = [t.int64(node.inputs[1])] if op.k is None else [t.const(np.int64(op.k))]
    wide = x.dtype if t.plain else _NO_TRILU.get(x.dtype, x.dtype)
    name = t.stored(x) if wide is x.dtype else t.cast(t.stored(x), wide)
    inputs = [name] if op.k == 0 else [name, *shift]
    result = t.node("Trilu", inputs, upper=None if op.upper else 0)
    t.set_stored(y, result if wide is x.dtype else t.cast(result, x.dtype))


def _triangle(op: Trilu, node: Node, x: Value, t: Target) -> str:
    """Which places of x's matrices are kept: a bool [rows, columns]."""
    rank = rank_of(t, x)
    down = t.reshape(counted(t, extent(t, x, rank - 2)), [-1, 1])
    start = t.const(np.int64(op.k)) if op.k is not None else t.int64(node.inputs[1])
    edge = t.node("Add", [down, start])
    across = counted(t, extent(t, x, rank - 1))
    return t.node("GreaterOrEqual" if op.upper else "LessOrEqual", [across, edge])


def export_eye_like(node: Node, t: Target) -> None:
    """EyeLike."""
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, EyeLike)
    kind = op.dtype if t.plain or op.dtype in _EYES else DType.INT32
    result = t.node("EyeLike", [t.stored(x)], dtype=int(DATA_TYPES[kind]), k=op.k or None)
    t.set_stored(y, result if kind is op.dtype else t.cast(result, op.dtype))


EXPORTERS: dict[type[Op], Exporter] = {
    MatrixDiag: export_matrix_diag,
    MatrixSetDiag: export_matrix_set_diag,
    Trilu: export_trilu,
    EyeLike: export_eye_like,
}
