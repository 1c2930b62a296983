"""The angle of a point, from the ops that ONNX has: Atan, but no Atan2."""

from __future__ import annotations

import math

from nnconv.formats.onnx.exporter import Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value


def angle(t: Target, y: str, x: str, *, like: Value) -> str:
    """The angle of (x, y) in radians: Atan of the quotient, turned by pi into the left half plane.

    Right for signed zeros, infinities and NaN too. ``like`` is a value of the operands' float type.
    """
    zero, pi = t.floats(0.0, like), t.floats(math.pi, like)

    def is_negative(name: str) -> str:  # -0.0 too, whose reciprocal is -inf
        inverse = t.node("Less", [t.node("Reciprocal", [name]), zero])
        return t.node("Or", [t.node("Less", [name, zero]), inverse])

    quotient = t.node("Div", [y, x])
    limits = [t.floats(-1.0, like), t.floats(1.0, like)]
    # 0 / 0 counts as 0, inf / inf as 1; NaN stays NaN
    corner = t.node("Mul", [t.node("Clip", [name, *limits]) for name in (y, x)])
    slope = t.node("Where", [t.node("IsNaN", [quotient]), corner, quotient])
    turn = t.node("Where", [is_negative(y), t.node("Neg", [pi]), pi])
    # -0.0 + 0 would lose its sign: where nothing is turned, nothing is added
    right = _arc_tangent(t, slope, like)
    return t.node("Where", [is_negative(x), t.node("Add", [right, turn]), right])


def _arc_tangent(t: Target, slope: str, like: Value) -> str:
    """Atan; in float64, which runtimes lack, float32's corrected by the angle that is left."""
    if like.dtype is not DType.FLOAT64:
        return t.node("Atan", [slope])
    limits = [t.floats(-1e300, like), t.floats(1e300, like)]
    tangent = t.node("Clip", [slope, *limits])
    rough = t.cast(t.node("Atan", [t.cast(tangent, DType.FLOAT32)]), DType.FLOAT64)
    sine, cosine = t.node("Sin", [rough]), t.node("Cos", [rough])
    across = t.node("Sub", [t.node("Mul", [tangent, cosine]), sine])
    along = t.node("Add", [cosine, t.node("Mul", [tangent, sine])])
    return t.node("Add", [rough, t.node("Div", [across, along])])
