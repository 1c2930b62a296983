"""Elementwise ops: most are told by a table."""

from __future__ import annotations

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops import elementwise as e

REAL: dict[type[Op], str] = {
    e.Abs: "Abs",
    e.Neg: "Neg",
    e.Sign: "Sign",
    e.Sqrt: "Sqrt",
    e.Exp: "Exp",
    e.Log: "Log",
    e.Sin: "Sin",
    e.Cos: "Cos",
    e.Floor: "Floor",
    e.Ceil: "Ceil",
    e.Round: "Round",
    e.Tanh: "Tanh",
    e.Sigmoid: "Sigmoid",
    e.Pow: "Pow",
}
"""Ops that ONNX has under another name, on real values."""

ARITHMETIC: dict[type[Op], str] = {e.Add: "Add", e.Sub: "Sub", e.Mul: "Mul", e.Div: "Div"}


def export_real(node: Node, t: Target) -> None:
    """One ONNX node on real values."""
    result = t.node(REAL[type(node.op)], [t.real(v) for v in node.inputs])
    t.set_real(node.outputs[0], result)


def export_arithmetic(node: Node, t: Target) -> None:
    """Add, Sub, Mul, Div and their activation."""
    op = node.op
    assert isinstance(op, e.Add | e.Sub | e.Mul | e.Div)
    result = t.node(ARITHMETIC[type(op)], [t.real(v) for v in node.inputs])
    t.set_real(node.outputs[0], result, op.activation)


def export_clip(node: Node, t: Target) -> None:
    """Clip: Relu where it is one; on 8-bit codes of unchanged parameters a Clip of the codes (x0.22)."""
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, e.Clip) and x is not None
    if t.is_quantized(y) and x.type == y.type and y.dtype.bits == 8:
        quant, dtype = t.inner_quant(y), t.inner_type(y)
        t.set_codes(y, t.clip_codes(t.codes(x), quant, dtype, (op.low, op.high)))
        return
    if (op.low, op.high) == (0.0, float("inf")):
        t.set_real(y, t.node("Relu", [t.real(x)]))
        return
    t.set_real(y, t.node("Clip", [t.real(x), t.floats(op.low, x), t.floats(op.high, x)]))


def export_square(node: Node, t: Target) -> None:
    """Square: x * x (Pow takes twice as long)."""
    x = t.real(node.inputs[0])
    t.set_real(node.outputs[0], t.node("Mul", [x, x]))


EXPORTERS: dict[type[Op], Exporter] = {
    **dict.fromkeys(REAL, export_real),
    **dict.fromkeys(ARITHMETIC, export_arithmetic),
    e.Clip: export_clip,
    e.Square: export_square,
}
