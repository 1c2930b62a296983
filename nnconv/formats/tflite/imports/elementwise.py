"""Elementwise ops: most are told by a table."""

from __future__ import annotations

from nnconv.formats.tflite.importer import Importer, Source
from nnconv.ir.graph import Value
from nnconv.ir.op import Op
from nnconv.ops import elementwise as e
from nnconv.ops.quantize import Bitcast
from nnconv.ops.rewrite import reshaped

UNARY: dict[str, Op] = {
    "ABS": e.Abs(),
    "SIGN": e.Sign(),
    "SQUARE": e.Square(),
    "SQRT": e.Sqrt(),
    "RSQRT": e.Rsqrt(),
    "EXP": e.Exp(),
    "LOG": e.Log(),
    "SIN": e.Sin(),
    "COS": e.Cos(),
    "FLOOR": e.Floor(),
    "CEIL": e.Ceil(),
    "ROUND": e.Round(),
    "TANH": e.Tanh(),
    "LOGISTIC": e.Sigmoid(),
    "HARD_SWISH": e.HardSwish(),
    "ELU": e.Elu(),
    "RELU": e.Clip(low=0.0, high=float("inf")),
    "RELU6": e.Clip(low=0.0, high=6.0),
    "RELU_N1_TO_1": e.Clip(low=-1.0, high=1.0),
    "RELU_0_TO_1": e.Clip(low=0.0, high=1.0),
    "LOGICAL_NOT": e.LogicalNot(),
    "ZEROS_LIKE": e.ZerosLike(),
    "COMPLEX_ABS": e.ComplexAbs(),
    "REAL": e.Real(),
    "IMAG": e.Imag(),
}
"""Ops of one operand whose options say nothing."""

BINARY: dict[str, Op] = {
    "MAXIMUM": e.Maximum(),
    "MINIMUM": e.Minimum(),
    "POW": e.Pow(),
    "FLOOR_DIV": e.FloorDiv(),
    "FLOOR_MOD": e.FloorMod(),
    "SQUARED_DIFFERENCE": e.SquaredDifference(),
    "ATAN2": e.Atan2(),
    "BITWISE_XOR": e.BitwiseXor(),
    "RIGHT_SHIFT": e.RightShift(),
    "EQUAL": e.Equal(),
    "NOT_EQUAL": e.NotEqual(),
    "LESS": e.Less(),
    "LESS_EQUAL": e.LessEqual(),
    "GREATER": e.Greater(),
    "GREATER_EQUAL": e.GreaterEqual(),
    "LOGICAL_AND": e.LogicalAnd(),
    "LOGICAL_OR": e.LogicalOr(),
}
"""Ops of two operands whose options say nothing."""

ARITHMETIC: dict[str, type[e.Add | e.Sub | e.Mul | e.Div]] = {
    "ADD": e.Add,
    "SUB": e.Sub,
    "MUL": e.Mul,
    "DIV": e.Div,
}
"""Ops of two operands with a fused activation."""


FOR_REALS = frozenset(UNARY) - {"ABS", "SIGN", "LOGICAL_NOT", "ZEROS_LIKE"}
"""Ops for which integers without quantization parameters mean nothing (LiteRT runs some anyway)."""


def _plain(op: Op, count: int) -> Importer:
    def importer(s: Source) -> None:
        operand = s.real_operand if s.op.name in FOR_REALS else s.operand
        s.emit(op, [operand(i) for i in range(count)])

    return importer


def import_neg(s: Source) -> None:
    """NEG: of quantized operands it negates the numbers themselves, whatever their zero point."""
    x = s.operand(0)
    if x.quant is None:
        s.emit(e.Neg(), [x])
    else:
        s.bind(0, s.add(e.Neg(), [s.add(Bitcast(dtype=x.dtype), [x])]))


def import_arithmetic(s: Source) -> None:
    """ADD, SUB, MUL, DIV."""
    if s.op.name == "DIV":
        _check_divisor(s)
    op = ARITHMETIC[s.op.name](activation=s.activation())
    s.emit(op, [s.operand(0), s.operand(1)])


def import_whole_division(s: Source) -> None:
    """FLOOR_DIV, FLOOR_MOD."""
    _check_divisor(s)
    s.emit(BINARY[s.op.name], [s.operand(0), s.operand(1)])


def _check_divisor(s: Source) -> None:
    """See that constant integers that something is divided by are none of them 0.

    Raises:
        InvalidModelError: when one is; runtimes fail, some as soon as they load the model.
    """
    divisor = s.operand(1)
    if divisor.data is None or not divisor.dtype.is_integer or divisor.quant is not None:
        return
    if not divisor.data.all():
        raise s.fail(f"`{divisor.name}` divides by 0")


def import_leaky_relu(s: Source) -> None:
    """LEAKY_RELU."""
    s.emit(e.LeakyRelu(alpha=s.options.float("alpha")), [s.real_operand(0)])


def import_gelu(s: Source) -> None:
    """GELU."""
    s.emit(e.Gelu(approximate=s.options.bool("approximate")), [s.real_operand(0)])


def import_prelu(s: Source) -> None:
    """PRELU."""
    s.emit(e.PRelu(), [s.real_operand(0), s.real_operand(1)])


def import_select(s: Source) -> None:
    """SELECT, whose condition may be one per row, and SELECT_V2, which broadcasts."""
    condition, then, otherwise = s.operand(0), s.operand(1), s.operand(2)
    if s.op.name == "SELECT":
        condition = _per_row(s, condition, then)
    s.emit(e.Select(), [condition, then, otherwise])


def _per_row(s: Source, condition: Value, then: Value) -> Value:
    """A rank-1 condition that chooses whole rows of values of higher rank."""
    if condition.shape is None or then.shape is None or len(condition.shape) != 1:
        return condition
    trailing = len(then.shape) - 1
    if trailing < 1:
        return condition
    return reshaped(s.builder, condition, (-1, *([1] * trailing)))


def import_add_n(s: Source) -> None:
    """ADD_N."""
    s.emit(e.AddN(), s.all_operands())


IMPORTERS: dict[str, Importer] = {
    **{name: _plain(op, 1) for name, op in UNARY.items()},
    "NEG": import_neg,
    **{name: _plain(op, 2) for name, op in BINARY.items()},
    **dict.fromkeys(("FLOOR_DIV", "FLOOR_MOD"), import_whole_division),
    **dict.fromkeys(ARITHMETIC, import_arithmetic),
    "LEAKY_RELU": import_leaky_relu,
    "GELU": import_gelu,
    "PRELU": import_prelu,
    "SELECT": import_select,
    "SELECT_V2": import_select,
    "ADD_N": import_add_n,
}
