"""Elementwise mathematics that only some formats have as one op: angles, bits, tests, extremes."""

from __future__ import annotations

from typing import ClassVar

from nnconv.ir.dtype import FLOATS, INTEGERS, NUMBERS, DType
from nnconv.ir.op import (
    LayoutKind,
    Op,
    Operand,
    Perm,
    Permuted,
    QuantRule,
    Types,
    op_class,
    operand_type,
    require_one_type,
)
from nnconv.ir.types import TensorType, broadcast_shapes
from nnconv.ops.elementwise import Binary, Unary


class Tan(Unary):
    """Tangent of radians. ONNX Tan."""


class Asin(Unary):
    """Angle whose sine is x, in -pi/2 ... pi/2. ONNX Asin."""


class Acos(Unary):
    """Angle whose cosine is x, in 0 ... pi. ONNX Acos."""


class Atan(Unary):
    """Angle whose tangent is x, in -pi/2 ... pi/2. ONNX Atan."""


class Sinh(Unary):
    """Hyperbolic sine. ONNX Sinh."""


class Cosh(Unary):
    """Hyperbolic cosine. ONNX Cosh."""


class Asinh(Unary):
    """What has x as its hyperbolic sine. ONNX Asinh."""


class Acosh(Unary):
    """What has x as its hyperbolic cosine. ONNX Acosh."""


class Atanh(Unary):
    """What has x as its hyperbolic tangent. ONNX Atanh."""


class Erf(Unary):
    """The error function: 2 / sqrt(pi) times the integral of e**-t**2 over 0 ... x. ONNX Erf."""


class Reciprocal(Unary):
    """1 / x. ONNX Reciprocal."""


class PlainSign(Unary):
    """-1, 0 or 1; what NaN gives isn't told. ONNX Sign (in onnxruntime 0)."""


class IsNan(Unary):
    """Whether x is no number. ONNX IsNaN."""

    operands = (Operand("x", FLOATS),)
    quant_rule = QuantRule.EXACT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        return (TensorType(DType.BOOL, operand_type(types, 0).shape),)


@op_class
class IsInf(IsNan):
    """Whether x is infinite, with a sign that counts. ONNX IsInf."""

    positive: bool = True
    negative: bool = True


class BitwiseNot(Unary):
    """All bits turned over. ONNX BitwiseNot."""

    operands = (Operand("x", INTEGERS),)
    quant_rule = QuantRule.EXACT


class BitwiseAnd(Binary):
    """Bits that both have. ONNX BitwiseAnd."""

    operands = (Operand("a", INTEGERS), Operand("b", INTEGERS))
    quant_rule = QuantRule.EXACT


class BitwiseOr(BitwiseAnd):
    """Bits that either has. ONNX BitwiseOr."""


class ShiftLeft(BitwiseAnd):
    """a * 2**b, what doesn't fit dropped; 0 where b is negative or not below the width.

    ONNX BitShift (LEFT).
    """


class ShiftRight(BitwiseAnd):
    """a / 2**b, rounded down; 0 (-1 for a negative a) where b is negative or not below the width.

    ONNX BitShift (RIGHT; signed types and such b from opset 28).
    """


class TruncatedMod(Binary):
    """a - b * trunc(a / b) of the stored numbers: the dividend's sign. ONNX Mod (fmod = 1)."""

    quant_rule = QuantRule.EXACT


class MaxOf(Op):
    """The greatest of all operands, which broadcast. ONNX Max."""

    operands: ClassVar[tuple[Operand, ...]] = (Operand("terms", NUMBERS, variadic=True),)
    layout_kind: ClassVar[LayoutKind] = LayoutKind.TRANSPARENT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        first = operand_type(types, 0)
        require_one_type(types)
        shapes = [t.shape for t in types if t is not None]
        return (TensorType(first.dtype, broadcast_shapes(shapes)),)


class MinOf(MaxOf):
    """The least of all operands, which broadcast. ONNX Min."""


class MeanOf(MaxOf):
    """The mean of all operands, which broadcast. ONNX Mean."""

    operands = (Operand("terms", FLOATS, variadic=True),)


class ClipBetween(Op):
    """min(max(x, low), high) with bounds (scalars, each optional) computed at run time.

    ``high`` wins over a greater ``low``. ONNX Clip.
    """

    operands = (
        Operand("x", NUMBERS),
        Operand("low", NUMBERS, optional=True),
        Operand("high", NUMBERS, optional=True),
    )
    layout_kind = LayoutKind.TRANSPARENT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if not x.has_codes:  # else bounds are the numbers that codes stand for
            require_one_type(types)
        for bound in types[1:]:
            if bound is not None and bound.shape not in (None, (), (1,)):
                raise ValueError(f"a bound is {bound}, must be a scalar")
        return (TensorType(x.dtype, x.shape),)

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        """Scalars stay what they are."""
        if operand_type(types, 0).rank != len(perm):
            return None
        return Permuted(self, (perm,) + (None,) * (len(types) - 1), (perm,))
