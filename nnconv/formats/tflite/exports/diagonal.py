"""Diagonals and triangles of matrices."""

from __future__ import annotations

from nnconv.formats.tflite.exporter import Exporter, Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops import diagonal as d

_DIAGONAL = frozenset(
    {DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.UINT32}
)
"""Types of which kernels write all bytes."""

NAMES: dict[type[Op], tuple[str, str]] = {
    d.MatrixDiag: ("MATRIX_DIAG", "MatrixDiagOptions"),
    d.MatrixSetDiag: ("MATRIX_SET_DIAG", "MatrixSetDiagOptions"),
}


def export_diagonal(node: Node, t: Target) -> None:
    """MATRIX_DIAG, MATRIX_SET_DIAG."""
    name, table = NAMES[type(node.op)]
    t.require(node, plain=_DIAGONAL, codes=_DIAGONAL)
    t.emit(name, [t.tensor(v) for v in node.inputs], node.outputs[0], (table, {}))


def export_lacking(node: Node, t: Target) -> None:
    """What is decomposed in whatever type it has."""
    raise t.refused(f"TFLite has no {node.op.name}")


EXPORTERS: dict[type[Op], Exporter] = {
    **dict.fromkeys(NAMES, export_diagonal),
    d.Trilu: export_lacking,
    d.EyeLike: export_lacking,
}
