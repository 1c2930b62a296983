"""Elementwise mathematics, of which TFLite has the sign alone: the rest is decomposed."""

from __future__ import annotations

from nnconv.formats.tflite.exporter import (
    FLOAT32,
    Exporter,
    Target,
    export_in_floats,
    export_lacking,
)
from nnconv.ir.dtype import INTEGERS, DType
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops import numeric as n

_SIGNS = FLOAT32 | {DType.INT32, DType.FLOAT64}


def export_sign(node: Node, t: Target) -> None:
    """SIGN."""
    t.require(node, plain=_SIGNS)
    t.emit("SIGN", [t.tensor(node.inputs[0])], node.outputs[0])


def export_truncated_mod(node: Node, t: Target) -> None:
    """The modulus with the dividend's sign, which TFLite lacks."""
    t.require(node, plain=FLOAT32 | INTEGERS)
    raise t.refused("TFLite has no modulus with the dividend's sign")


EXPORTERS: dict[type[Op], Exporter] = {
    **dict.fromkeys(
        (
            n.Tan,
            n.Asin,
            n.Acos,
            n.Atan,
            n.Sinh,
            n.Cosh,
            n.Asinh,
            n.Acosh,
            n.Atanh,
            n.Erf,
            n.Reciprocal,
            n.IsNan,
            n.MeanOf,
        ),
        export_in_floats,
    ),
    **dict.fromkeys(
        (
            n.IsInf,
            n.BitwiseNot,
            n.BitwiseAnd,
            n.BitwiseOr,
            n.ShiftLeft,
            n.ShiftRight,
            n.MaxOf,
            n.MinOf,
            n.ClipBetween,
        ),
        export_lacking,
    ),
    n.PlainSign: export_sign,
    n.TruncatedMod: export_truncated_mod,
}
