"""Ops between number types: quantized, float, integer, bit patterns."""

from __future__ import annotations

from nnconv.ir.dtype import ANY, FLOATS, NUMBERS, DType
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
)
from nnconv.ir.types import TensorType


@op_class
class _Conversion(Op):
    layout_kind = LayoutKind.TRANSPARENT

    dtype: DType

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        return (TensorType(self.dtype, operand_type(types, 0).shape),)


class Quantize(_Conversion):
    """Real values, or codes of other parameters, to codes of the result's parameters.

    TFLite QUANTIZE, ONNX QuantizeLinear, NNAPI QUANTIZE, NNRt QUANT_DTYPE_CAST.
    """

    operands = (Operand("x", NUMBERS),)


class Dequantize(_Conversion):
    """Codes to real values.

    TFLite DEQUANTIZE, ONNX DequantizeLinear, NNAPI DEQUANTIZE, NNRt QUANT_DTYPE_CAST.
    """

    operands = (Operand("x", NUMBERS),)


class Cast(_Conversion):
    """The stored numbers in another type; quantization parameters are ignored.

    Float to integer truncates toward zero and saturates, NaN gives the greatest integer (TFLite;
    undefined in ONNX). Integer to narrower integer keeps the low bits. Anything but zero is true.
    Complex to real drops the imaginary part.
    TFLite CAST, ONNX Cast, NNAPI CAST, NNRt CAST.
    """

    operands = (Operand("x", ANY),)
    quant_rule = QuantRule.EXACT


class LooseCast(Cast):
    """Floats as integers, toward zero; what a float gives that the type can't hold isn't told.

    Of types under 8 bits, the low bits of the whole number. ONNX Cast.
    """

    operands = (Operand("x", FLOATS),)


@op_class
class Bitcast(Op):
    """The same bytes read as another type; a last dimension makes up for a difference in size.

    TFLite BITCAST; ONNX BitCast (opset 26, of types of one size).
    """

    operands = (Operand("x", ANY),)
    quant_rule = QuantRule.EXACT

    layout_kind = LayoutKind.TRANSPARENT  # as long as no dimension comes or goes

    dtype: DType

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        """A transpose passes through where elements keep their size."""
        same = operand_type(types, 0).dtype.bits == self.dtype.bits
        return super().permute(perm, types) if same else None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        old, new = x.dtype.bits, self.dtype.bits
        if x.shape is None or old == new:
            return (TensorType(self.dtype, x.shape),)
        if old > new:
            return (TensorType(self.dtype, (*x.shape, old // new)),)
        if not x.shape or (isinstance(x.shape[-1], int) and x.shape[-1] != new // old):
            raise ValueError(f"shape {x.shape} of {x.dtype} doesn't make up {self.dtype}")
        return (TensorType(self.dtype, x.shape[:-1]),)


class DynamicQuantize(Op):
    """Real values to uint8 over their own range, of which 0 is part: codes, scale, zero point.

    scale = (greatest - least) / 255, or 1 where that is 0, as onnxruntime has it; zero point =
    -least / scale and codes = x / scale, both rounded half to even, and clamped; codes have the
    zero point added. The last two are scalars.
    ONNX DynamicQuantizeLinear; part of TFLite's products of floats and int8 weights.
    """

    operands = (Operand("x", frozenset({DType.FLOAT32})),)
    layout_kind = LayoutKind.ATTRIBUTE
    quant_rule = QuantRule.EXACT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        return (
            TensorType(DType.UINT8, x.shape),
            TensorType(x.dtype, ()),
            TensorType(DType.UINT8, ()),
        )

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if operand_type(types, 0).rank != len(perm):
            return None
        return Permuted(self, (perm,), (perm, None, None))


@op_class
class FakeQuant(Op):
    """Real values rounded to the grid of ``bits`` between ``low`` and ``high``. TFLite FAKE_QUANT.

    The grid is nudged so that 0 is on it, as TensorFlow does.
    """

    operands = (Operand("x", FLOATS),)
    layout_kind = LayoutKind.TRANSPARENT

    low: float
    high: float
    bits: int = 8
    narrow: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        return (TensorType(x.dtype, x.shape),)

    def grid(self) -> tuple[float, float, float]:
        """Step, least and greatest value of the nudged grid."""
        first, last = (1 if self.narrow else 0), (1 << self.bits) - 1
        scale = (self.high - self.low) / (last - first)
        zero = min(max(round(first - self.low / scale), first), last)
        return scale, (first - zero) * scale, (last - zero) * scale
