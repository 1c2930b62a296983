"""Ops on windows and grids over every dimension."""

from __future__ import annotations

from nnconv.formats.tflite._gen.schema import ReduceWindowFunction
from nnconv.formats.tflite.exporter import Exporter, Target
from nnconv.formats.tflite.exports.shape import as_scalar
from nnconv.formats.tflite.types import USUAL_TYPES
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.gather import Reduction
from nnconv.ops.window import Dilate, ReduceWindow

_FUNCTIONS = {
    Reduction.ADD: ReduceWindowFunction.ADD,
    Reduction.MUL: ReduceWindowFunction.MUL,
    Reduction.MIN: ReduceWindowFunction.MINIMUM,
    Reduction.MAX: ReduceWindowFunction.MAXIMUM,
    Reduction.AND: ReduceWindowFunction.ALL,
    Reduction.OR: ReduceWindowFunction.ANY,
}
_COMBINED = frozenset({DType.INT8, DType.INT32, DType.INT64, DType.FLOAT32})
_CODES = frozenset({DType.INT8})


def export_reduce_window(node: Node, t: Target) -> None:
    """REDUCE_WINDOW; that of truths takes the bitwise function for a sum."""
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, ReduceWindow)
    logical = op.reduction in (Reduction.AND, Reduction.OR)
    if logical:
        t.require(node, plain=frozenset({DType.BOOL}))
    else:
        t.require(node, plain=_COMBINED, codes=_CODES)
    sizes = [t.ints(n, DType.INT64) for n in (op.window, op.stride, op.dilation)]
    fields = {"reduce_function": int(_FUNCTIONS[op.reduction])}
    operands = [t.tensor(x), as_scalar(t, node.inputs[1]), *sizes]
    t.emit("REDUCE_WINDOW", operands, y, options2=("ReduceWindowOptions", fields))


_SPREAD = USUAL_TYPES | {DType.COMPLEX64}


def export_dilate(node: Node, t: Target) -> None:
    """DILATE."""
    op, y = node.op, node.outputs[0]
    x, value, given = node.operand(0), node.optional(1), node.optional(2)
    assert isinstance(op, Dilate)
    t.require(node, plain=_SPREAD, codes=_SPREAD, operands=(0, 1))
    if op.dilations is None:
        assert given is not None, "the verifier wants factors"
        factors = t.index(given)
    else:
        factors = t.ints(op.dilations)
    operands = [t.tensor(x), factors, as_scalar(t, value)]
    t.emit("DILATE", operands, y, options2=("DilateOptions", {}))


EXPORTERS: dict[type[Op], Exporter] = {
    ReduceWindow: export_reduce_window,
    Dilate: export_dilate,
}
