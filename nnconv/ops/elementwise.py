"""Elementwise ops: each result element depends on the operands' elements at its place.

Operands broadcast numpy's way. In every layout the same op serves.
"""

from __future__ import annotations

from typing import ClassVar

from nnconv.ir.dtype import ANY, BOOLS, COMPLEXES, FLOATS, INTEGERS, NUMBERS, DType
from nnconv.ir.op import (
    Activation,
    LayoutKind,
    Op,
    Operand,
    QuantRule,
    Types,
    op_class,
    operand_type,
    require_one_type,
)
from nnconv.ir.types import TensorType, broadcast_shapes

_REAL = (Operand("x", NUMBERS),)


class Unary(Op):
    """Base of ops with one operand and a result of its dtype and shape."""

    operands: ClassVar[tuple[Operand, ...]] = _REAL
    layout_kind: ClassVar[LayoutKind] = LayoutKind.TRANSPARENT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        return (TensorType(x.dtype, x.shape),)


class Abs(Unary):
    """|x|. TFLite ABS, ONNX Abs, NNAPI ABS, NNRt ABS."""


class Neg(Unary):
    """-x. TFLite NEG, ONNX Neg, NNAPI NEG, NNRt NEG."""


class Sign(Unary):
    """-1, 0 or 1. TFLite SIGN, ONNX Sign."""


class Square(Unary):
    """x * x. TFLite SQUARE, NNRt SQUARE; ONNX Mul(x, x)."""


class Sqrt(Unary):
    """Square root. TFLite SQRT, ONNX Sqrt, NNAPI SQRT, NNRt SQRT."""


class Rsqrt(Unary):
    """1 / sqrt(x). TFLite RSQRT, NNAPI RSQRT, NNRt RSQRT; ONNX Reciprocal(Sqrt(x))."""


class Exp(Unary):
    """e**x. TFLite EXP, ONNX Exp, NNAPI EXP, NNRt EXP."""


class Log(Unary):
    """Natural logarithm. TFLite LOG, ONNX Log, NNAPI LOG, NNRt LOG."""


class Sin(Unary):
    """Sine of radians. TFLite SIN, ONNX Sin, NNAPI SIN, NNRt SIN."""


class Cos(Unary):
    """Cosine of radians. TFLite COS, ONNX Cos, NNRt COS."""


class Floor(Unary):
    """Greatest integer not above x. TFLite FLOOR, ONNX Floor, NNAPI FLOOR, NNRt FLOOR."""


class Ceil(Unary):
    """Least integer not below x. TFLite CEIL, ONNX Ceil, NNRt CEIL."""


class Round(Unary):
    """Nearest integer, ties to even. TFLite ROUND, ONNX Round, NNRt ROUND."""


class Tanh(Unary):
    """Hyperbolic tangent. TFLite TANH, ONNX Tanh, NNAPI TANH, NNRt TANH. Quantized: scale 1/128."""


class Sigmoid(Unary):
    """1 / (1 + e**-x). Quantized: scale 1/256.

    TFLite LOGISTIC, ONNX Sigmoid, NNAPI LOGISTIC, NNRt SIGMOID.
    """


class HardSwish(Unary):
    """x * clip(x + 3, 0, 6) / 6.

    TFLite HARD_SWISH, ONNX HardSwish, NNAPI HARD_SWISH, NNRt HSWISH.
    """


@op_class
class Clip(Unary):
    """min(max(x, low), high).

    ``low`` and ``high`` are in real values, float32. TFLite RELU is (0, inf), RELU6 (0, 6),
    RELU_N1_TO_1 (-1, 1), RELU_0_TO_1 (0, 1). ONNX Relu or Clip, NNAPI RELU, RELU1, RELU6.
    """

    low: float
    high: float


@op_class
class Elu(Unary):
    """x if x > 0 else alpha * (e**x - 1). TFLite ELU (alpha 1), ONNX Elu, NNAPI ELU, NNRt ELU."""

    alpha: float = 1.0


@op_class
class LeakyRelu(Unary):
    """x if x > 0 else alpha * x. TFLite LEAKY_RELU, ONNX LeakyRelu, NNRt LEAKY_RELU."""

    alpha: float


@op_class
class Gelu(Unary):
    """x * Phi(x), with Phi the normal distribution's or its tanh approximation.

    TFLite GELU, ONNX Gelu, NNRt GELU.
    """

    approximate: bool = False


class LogicalNot(Unary):
    """Not x. TFLite LOGICAL_NOT, ONNX Not, NNAPI LOGICAL_NOT, NNRt LOGICAL_NOT."""

    operands = (Operand("x", BOOLS),)
    quant_rule = QuantRule.EXACT


class ZerosLike(Unary):
    """Zeros (real zeros, when quantized) of x's shape. TFLite ZEROS_LIKE, NNRt ZEROS_LIKE."""

    operands = (Operand("x", ANY),)


class ComplexAbs(Unary):
    """Absolute value of a complex number, as a float. TFLite COMPLEX_ABS."""

    operands = (Operand("x", COMPLEXES),)

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        part = DType.FLOAT32 if x.dtype is DType.COMPLEX64 else DType.FLOAT64
        return (TensorType(part, x.shape),)


class Real(ComplexAbs):
    """Real part. TFLite REAL."""


class Imag(ComplexAbs):
    """Imaginary part. TFLite IMAG."""


class Binary(Op):
    """Base of ops with two operands of one dtype and a result of that dtype."""

    operands: ClassVar[tuple[Operand, ...]] = (Operand("a", NUMBERS), Operand("b", NUMBERS))
    layout_kind: ClassVar[LayoutKind] = LayoutKind.TRANSPARENT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        a, b = operand_type(types, 0), operand_type(types, 1)
        require_one_type((a, b))
        return (TensorType(a.dtype, broadcast_shapes((a.shape, b.shape))),)


@op_class
class _Arithmetic(Binary):
    activation: Activation = Activation.NONE


class Add(_Arithmetic):
    """a + b; integers wrap. TFLite ADD, ONNX Add, NNAPI ADD, NNRt ADD."""

    operands = (Operand("a", NUMBERS | COMPLEXES), Operand("b", NUMBERS | COMPLEXES))


class Sub(_Arithmetic):
    """a - b; integers wrap. TFLite SUB, ONNX Sub, NNAPI SUB, NNRt SUB."""


class Mul(_Arithmetic):
    """a * b; integers wrap. TFLite MUL, ONNX Mul, NNAPI MUL, NNRt MUL."""

    operands = (Operand("a", NUMBERS | COMPLEXES), Operand("b", NUMBERS | COMPLEXES))


class Div(_Arithmetic):
    """a / b; integers truncate toward zero. TFLite DIV, ONNX Div, NNAPI DIV, NNRt DIV."""


class Maximum(Binary):
    """The greater one. TFLite MAXIMUM, ONNX Max, NNAPI MAXIMUM, NNRt MAXIMUM."""


class Minimum(Binary):
    """The lesser one. TFLite MINIMUM, ONNX Min, NNAPI MINIMUM, NNRt MINIMUM."""


class Pow(Binary):
    """a ** b, of a's type. TFLite POW (equal types), ONNX Pow, NNAPI POW, NNRt POW.

    Integers to the power of floats are computed in floats, and truncated.
    """

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        a, b = operand_type(types, 0), operand_type(types, 1)
        return (TensorType(a.dtype, broadcast_shapes((a.shape, b.shape))),)


class FloorDiv(Binary):
    """floor(a / b) of the stored numbers. TFLite FLOOR_DIV; ONNX Floor(Div), integers by Mod."""

    quant_rule = QuantRule.EXACT


class FloorMod(Binary):
    """a - b * floor(a / b) of the stored numbers: the divisor's sign.

    TFLite FLOOR_MOD, ONNX Mod, NNRt MOD.
    """

    quant_rule = QuantRule.EXACT


class SquaredDifference(Binary):
    """(a - b) ** 2. TFLite SQUARED_DIFFERENCE, NNRt SQUARED_DIFFERENCE; ONNX Sub, Mul."""


class Atan2(Binary):
    """Angle of the point (b, a), in radians. TFLite ATAN2 (which doesn't broadcast)."""

    operands = (Operand("a", FLOATS), Operand("b", FLOATS))


class BitwiseXor(Binary):
    """Bits that differ. TFLite BITWISE_XOR, ONNX BitwiseXor."""

    operands = (Operand("a", INTEGERS | BOOLS), Operand("b", INTEGERS | BOOLS))
    quant_rule = QuantRule.EXACT


class RightShift(Binary):
    """a >> b, arithmetic for signed types; b is clamped to 0 ... width - 1. TFLite RIGHT_SHIFT."""

    operands = (Operand("a", INTEGERS), Operand("b", INTEGERS))
    quant_rule = QuantRule.EXACT


class Comparison(Binary):
    """Base of comparisons: two operands of one dtype, a bool result."""

    operands = (Operand("a", ANY), Operand("b", ANY))

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        a, b = operand_type(types, 0), operand_type(types, 1)
        require_one_type((a, b))
        return (TensorType(DType.BOOL, broadcast_shapes((a.shape, b.shape))),)


class Equal(Comparison):
    """a == b. TFLite EQUAL, ONNX Equal, NNAPI EQUAL, NNRt EQUAL."""


class NotEqual(Comparison):
    """a != b. TFLite NOT_EQUAL, NNAPI NOT_EQUAL, NNRt NOT_EQUAL; ONNX Not(Equal)."""


class Less(Comparison):
    """a < b. TFLite LESS, ONNX Less, NNAPI LESS, NNRt LESS."""


class LessEqual(Comparison):
    """a <= b. TFLite LESS_EQUAL, ONNX LessOrEqual, NNAPI LESS_EQUAL, NNRt LESS_EQUAL."""


class Greater(Comparison):
    """a > b. TFLite GREATER, ONNX Greater, NNAPI GREATER, NNRt GREATER."""


class GreaterEqual(Comparison):
    """a >= b. TFLite, NNAPI and NNRt GREATER_EQUAL, ONNX GreaterOrEqual."""


class LogicalAnd(Binary):
    """Both. TFLite LOGICAL_AND, ONNX And, NNAPI LOGICAL_AND, NNRt LOGICAL_AND."""

    operands = (Operand("a", BOOLS), Operand("b", BOOLS))
    quant_rule = QuantRule.EXACT


class LogicalOr(LogicalAnd):
    """Either. TFLite LOGICAL_OR, ONNX Or, NNAPI LOGICAL_OR, NNRt LOGICAL_OR."""


class PRelu(Op):
    """x if x >= 0 else slope * x; the slope broadcasts against x.

    TFLite PRELU (slope [1,1,C] for NHWC), ONNX PRelu, NNAPI PRELU, NNRt PRELU (1 or C slopes).
    """

    operands = (Operand("x", NUMBERS), Operand("slope", NUMBERS))
    layout_kind = LayoutKind.TRANSPARENT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, slope = operand_type(types, 0), operand_type(types, 1)
        require_one_type((x, slope))
        return (TensorType(x.dtype, broadcast_shapes((x.shape, slope.shape))),)


class Select(Op):
    """``then`` where the condition holds, else ``otherwise``; all three broadcast.

    Quantized: values that differ in parameters are brought to the result's.
    TFLite SELECT and SELECT_V2, ONNX Where, NNAPI SELECT, NNRt SELECT.
    """

    operands = (Operand("condition", BOOLS), Operand("then", ANY), Operand("otherwise", ANY))
    layout_kind = LayoutKind.TRANSPARENT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        condition, then, otherwise = (operand_type(types, i) for i in range(3))
        require_one_type((then, otherwise))
        shapes = (condition.shape, then.shape, otherwise.shape)
        return (TensorType(then.dtype, broadcast_shapes(shapes)),)


class AddN(Op):
    """Sum of all operands, which have one shape. TFLite ADD_N, ONNX Sum, NNRt ADDN."""

    operands = (Operand("terms", NUMBERS, variadic=True),)
    layout_kind = LayoutKind.TRANSPARENT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        first = operand_type(types, 0)
        shapes = [t.shape for t in types if t is not None]
        return (TensorType(first.dtype, broadcast_shapes(shapes)),)
