"""Diagonals of matrices: Where on a mask, so that NaN and infinity stay in their places."""

from __future__ import annotations

import numpy as np

from nnconv.formats.onnx.exact import select
from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.ops.shape import Extent, extent
from nnconv.formats.onnx.scatter import counted, rank_of
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.diagonal import MatrixDiag, MatrixSetDiag


def _mask(t: Target, rows: Extent, columns: Extent) -> str:
    """Where row and column are the same: a bool [rows, columns]."""
    down = t.reshape(counted(t, rows), [-1, 1])
    return t.node("Equal", [down, counted(t, columns)])


def export_matrix_diag(node: Node, t: Target) -> None:
    """MatrixDiag."""
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    count = extent(t, x, rank_of(t, x) - 1)
    rows = t.node("Unsqueeze", [t.stored(x), t.const([-2])])
    zero = t.const(np.zeros((), x.dtype.numpy))
    t.set_stored(y, select(t, _mask(t, count, count), rows, zero, dtype=x.dtype))


def export_matrix_set_diag(node: Node, t: Target) -> None:
    """MatrixSetDiag: the diagonal is spread over rows or columns, whichever are fewer."""
    x, diagonal = node.inputs
    y = node.outputs[0]
    assert x is not None
    assert diagonal is not None
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


EXPORTERS: dict[type[Op], Exporter] = {
    MatrixDiag: export_matrix_diag,
    MatrixSetDiag: export_matrix_set_diag,
}
