"""Elementwise mathematics: ONNX has each op, but not at every opset, nor for every type."""

from __future__ import annotations

from functools import reduce

import numpy as np

from nnconv.formats.onnx import exact
from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.single import one_node
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops import numeric as n

FUNCTIONS: dict[type[Op], tuple[str, int]] = {
    n.Tan: ("Tan", 22),
    n.Asin: ("Asin", 22),
    n.Acos: ("Acos", 22),
    n.Atan: ("Atan", 22),
    n.Sinh: ("Sinh", 22),
    n.Cosh: ("Cosh", 22),
    n.Asinh: ("Asinh", 22),
    n.Acosh: ("Acosh", 22),
    n.Atanh: ("Atanh", 22),
    n.Erf: ("Erf", 13),
    n.Reciprocal: ("Reciprocal", 13),
    n.PlainSign: ("Sign", 13),
}
"""Functions that are one node, with the opset from which they take bfloat16."""

EXTREMES: dict[type[Op], str] = {n.MaxOf: "Max", n.MinOf: "Min"}


def _operands(node: Node) -> list[Value]:
    return [v for v in node.inputs if v is not None]


def export_function(node: Node, t: Target) -> None:
    """One node on real values."""
    name, narrow = FUNCTIONS[type(node.op)]
    t.set_real(node.outputs[0], one_node(t, name, _operands(node)[0], narrow=narrow))


def export_is_nan(node: Node, t: Target) -> None:
    """IsNaN: onnxruntime has no kernel for bfloat16 before opset 20."""
    x = _operands(node)[0]
    name = t.stored(x)
    if t.opset < 20 and x.dtype is DType.BFLOAT16:
        name = t.cast(name, DType.FLOAT32)
    t.set_stored(node.outputs[0], t.node("IsNaN", [name]))


def export_is_inf(node: Node, t: Target) -> None:
    """IsInf: of float32 and float64 alone before opset 20."""
    op, x = node.op, _operands(node)[0]
    assert isinstance(op, n.IsInf)
    name = t.stored(x)
    if t.opset < 20 and x.dtype in (DType.FLOAT16, DType.BFLOAT16):
        name = t.cast(name, DType.FLOAT32)
    signs = {
        "detect_positive": None if op.positive else 0,
        "detect_negative": None if op.negative else 0,
    }
    t.set_stored(node.outputs[0], t.node("IsInf", [name], **signs))


# -------------------------------------------------------------------- bits


def export_bitwise_not(node: Node, t: Target) -> None:
    """BitwiseNot; before opset 18 what is left to the number of all bits, or -1 - x."""
    x, y = _operands(node)[0], node.outputs[0]
    if t.opset >= 18:
        t.set_stored(y, t.node("BitwiseNot", [t.stored(x)]))
        return
    everything = -1 if x.dtype.is_signed else x.dtype.int_range[1]
    full = t.const(np.asarray(everything, x.dtype.numpy))
    t.set_stored(y, exact.arithmetic(t, "Sub", [full, t.stored(x)], x.dtype))


def export_bitwise(node: Node, t: Target) -> None:
    """BitwiseAnd, BitwiseOr."""
    (a, b), y = _operands(node), node.outputs[0]
    kind = "Or" if isinstance(node.op, n.BitwiseOr) else "And"
    t.set_stored(y, exact.bitwise(t, kind, t.stored(a), t.stored(b), dtype=a.dtype))


def export_shift(node: Node, t: Target) -> None:
    """ShiftLeft, ShiftRight."""
    (a, b), y = _operands(node), node.outputs[0]
    left, names = isinstance(node.op, n.ShiftLeft), (t.stored(a), t.stored(b))
    direction = "LEFT" if left else "RIGHT"
    if t.plain and (not a.dtype.is_signed or t.opset >= 28):
        t.set_stored(y, t.node("BitShift", list(names), direction=direction))
    elif left:
        t.set_stored(y, exact.shift_left(t, *names, dtype=a.dtype))
    else:
        t.set_stored(y, exact.shift_out(t, *names, dtype=a.dtype))


# -------------------------------------------------------------------- several operands


def export_truncated_mod(node: Node, t: Target) -> None:
    """TruncatedMod: Mod with fmod, which onnxruntime computes in float64 for integers."""
    (a, b), y = _operands(node), node.outputs[0]
    t.set_stored(y, t.node("Mod", [t.stored(a), t.stored(b)], fmod=1))


def export_extreme(node: Node, t: Target) -> None:
    """MaxOf, MinOf."""
    y, values = node.outputs[0], _operands(node)
    names = [t.real(v) for v in values]
    kind = EXTREMES[type(node.op)]
    if y.dtype.is_integer and y.quant is None:
        t.set_stored(y, exact.extreme(t, kind, names, y.dtype))
    else:
        t.set_real(y, t.node(kind, names))


def export_mean(node: Node, t: Target) -> None:
    """MeanOf."""
    t.set_real(node.outputs[0], t.node("Mean", [t.real(v) for v in node.inputs]))


def export_clip(node: Node, t: Target) -> None:
    """ClipBetween."""
    x, y = node.operand(0), node.outputs[0]
    bounds = [t.real(v) for v in node.inputs[1:]]
    if x.dtype.is_integer and x.quant is None and exact.lacks_extremes(x.dtype) and not t.plain:
        kinds = zip(("Max", "Min"), bounds, strict=False)
        steps = [(kind, bound) for kind, bound in kinds if bound]
        name = reduce(
            lambda done, step: exact.extreme(t, step[0], [done, step[1]], x.dtype),
            steps,
            t.stored(x),
        )
        t.set_stored(y, name)
        return
    t.set_real(y, t.node("Clip", [t.real(x), *bounds]))


EXPORTERS: dict[type[Op], Exporter] = {
    **dict.fromkeys(FUNCTIONS, export_function),
    **dict.fromkeys(EXTREMES, export_extreme),
    **dict.fromkeys((n.BitwiseAnd, n.BitwiseOr), export_bitwise),
    **dict.fromkeys((n.ShiftLeft, n.ShiftRight), export_shift),
    n.IsNan: export_is_nan,
    n.IsInf: export_is_inf,
    n.BitwiseNot: export_bitwise_not,
    n.TruncatedMod: export_truncated_mod,
    n.MeanOf: export_mean,
    n.ClipBetween: export_clip,
}
