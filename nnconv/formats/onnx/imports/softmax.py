"""Softmax and its kind."""

from __future__ import annotations

from nnconv.formats.onnx.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.op import Op
from nnconv.ops.norm import Hardmax, LogSoftmax, Softmax
from nnconv.ops.shape import Reshape, ShapeOf

KINDS: dict[str, type[Softmax | LogSoftmax | Hardmax]] = {
    "Softmax": Softmax,
    "LogSoftmax": LogSoftmax,
    "Hardmax": Hardmax,
}


def import_softmax(s: Source) -> None:
    """Softmax, LogSoftmax, Hardmax: before opset 13 along all dimensions from ``axis`` on."""
    x, kind = s.operand(0), KINDS[s.node.op_type]
    rank = s.rank(x)
    if s.version >= 13:
        s.emit(kind(axis=s.axis(s.int("axis", -1), rank) if rank else 0), [x])
        return
    axis = s.int("axis", 1)
    axis = axis if axis == rank else s.axis(axis, rank)
    assert x.shape is not None
    wide = [i for i in range(axis, rank) if x.shape[i] != 1]
    if axis < rank and len(wide) <= 1:
        s.emit(kind(axis=wide[0] if wide else axis), [x])
        return
    _emit_flat(s, kind(axis=1), x, axis)


def _emit_flat(s: Source, op: Op, x: Value, axis: int) -> None:
    """An op along the rows of a matrix of the dimensions before ``axis`` and those from it on."""
    assert x.shape is not None
    (rows,) = s.standard("Flatten", [x], {"axis": axis})
    result = s.add(op, [rows])
    fixed = tuple(dim if isinstance(dim, int) else -1 for dim in x.shape)
    if fixed.count(-1) <= 1:
        s.emit(Reshape(shape=fixed), [result])
    else:
        extents = s.add(ShapeOf(dtype=DType.INT64), [x])
        s.emit(Reshape(shape=None), [result, extents])


IMPORTERS: dict[str, Importer] = dict.fromkeys(KINDS, import_softmax)
