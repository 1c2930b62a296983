"""Elementwise operations: most are told by a table."""

from __future__ import annotations

import math

import numpy as np

from nnconv.errors import plural
from nnconv.formats.nnrt.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.op import Op
from nnconv.ops import activation as a
from nnconv.ops import elementwise as e
from nnconv.ops import numeric as n
from nnconv.ops.quantize import Cast
from nnconv.ops.rewrite import reshaped

INF = float("inf")

UNARY: dict[str, Op] = {
    "ABS": e.Abs(),
    "CEIL": e.Ceil(),
    "COS": e.Cos(),
    "ERF": n.Erf(),
    "FLOOR": e.Floor(),
    "HARD_SIGMOID": a.HardSigmoid(alpha=1 / 6, beta=0.5),
    "HSWISH": e.HardSwish(),
    "LOG": e.Log(),
    "LOGICAL_NOT": e.LogicalNot(),
    "NEG": e.Neg(),
    "RECIPROCAL": n.Reciprocal(),
    "RELU": e.Clip(low=0.0, high=INF),
    "RELU6": e.Clip(low=0.0, high=6.0),
    "ROUND": e.Round(),
    "RSQRT": e.Rsqrt(),
    "SIGMOID": e.Sigmoid(),
    "SIN": e.Sin(),
    "SQRT": e.Sqrt(),
    "SQUARE": e.Square(),
    "SWISH": a.Swish(),
    "TANH": e.Tanh(),
}

ARITHMETIC: dict[str, type[e.Add | e.Sub | e.Mul | e.Div]] = {
    "ADD": e.Add,
    "DIV": e.Div,
    "MUL": e.Mul,
    "SUB": e.Sub,
}

BINARY: dict[str, Op] = {
    "MAXIMUM": e.Maximum(),
    "MINIMUM": e.Minimum(),
    "MOD": n.TruncatedMod(),
    "SQUARED_DIFFERENCE": e.SquaredDifference(),
}

LOGICAL: dict[str, Op] = {"LOGICAL_AND": e.LogicalAnd(), "LOGICAL_OR": e.LogicalOr()}

COMPARISONS: dict[str, Op] = {
    "EQUAL": e.Equal(),
    "GREATER": e.Greater(),
    "GREATER_EQUAL": e.GreaterEqual(),
    "LESS": e.Less(),
    "LESS_EQUAL": e.LessEqual(),
    "NOT_EQUAL": e.NotEqual(),
}

ELTWISE: dict[int, Op] = {0: e.Mul(), 1: e.Add(), 2: e.Maximum()}


def _plain(op: Op) -> Importer:
    def importer(s: Source) -> None:
        s.emit(op, s.operands())

    return importer


def widened(s: Source, sides: list[Value]) -> list[Value]:
    """Operands of one type: that of the wider one; truth values count 0 and 1."""
    kinds = {side.dtype for side in sides}
    if len(kinds) == 1 and DType.BOOL not in kinds:
        return sides
    wide = DType.of(np.result_type(*(side.dtype.numpy for side in sides)))
    target = DType.INT32 if wide is DType.BOOL else wide
    return [
        side if side.dtype is target else s.add(Cast(dtype=target), [s.integers(side)])
        for side in sides
    ]


def _emit_wide(s: Source, op: Op, sides: list[Value]) -> None:
    """Compute in the wider type, of which the result is, or a truth value of truth values."""
    sides = widened(s, sides)
    if s.result_dtype() is sides[0].dtype:
        s.emit(op, sides)
    else:
        s.emit(Cast(dtype=s.result_dtype()), [s.add(op, sides)])


def import_arithmetic(s: Source) -> None:
    """ADD, SUB, MUL, DIV."""
    _emit_wide(s, ARITHMETIC[s.name](activation=s.activation()), s.operands())


def import_binary(s: Source) -> None:
    """MAXIMUM, MINIMUM, MOD, SQUARED_DIFFERENCE."""
    sides = s.operands()
    if s.name == "MOD" and s.is_real:
        sides = [s.real(side) for side in sides]
        s.emit_real(s.add(BINARY[s.name], sides))
        return
    _emit_wide(s, BINARY[s.name], sides)


def import_comparison(s: Source) -> None:
    """Comparisons: of truth values, false comes before true."""
    codes = [s.stored("input1"), s.stored("input2")]
    if codes[0].quant is not None and codes[0].quant == codes[1].quant:
        codes = [s.integers(side) for side in codes]  # the scale is above 0
    elif any(side.quant is not None for side in codes):
        codes = [s.real(side) for side in codes]
    s.emit(COMPARISONS[s.name], widened(s, codes))


def import_eltwise(s: Source) -> None:
    """ELTWISE: product, sum or maximum of tensors of one shape."""
    op = ELTWISE.get(s.int("mode"))
    if op is None:
        raise s.fail(f"mode {s.int('mode')}, allowed are 0 to 2")
    first, second = s.operands()
    if (
        first.shape is not None
        and second.shape is not None
        and len(first.shape) != len(second.shape)
    ):
        raise s.fail(f"inputs of {first.shape} and {second.shape}, must have one shape")
    s.emit(op, [first, second])


def _affine(s: Source, x: Value, scale: float, shift: float) -> Value:
    """Of floats: scale * x + shift."""
    if scale != 1.0:
        x = s.add(e.Mul(), [x, s.scalar(scale, x.dtype)])
    return x if shift == 0.0 else s.add(e.Add(), [x, s.scalar(shift, x.dtype)])


def import_pow(s: Source) -> None:
    """POW: (scale * x + shift) ** y."""
    base, exponent = s.operands()
    scale, shift = s.float("scale"), s.float("shift")
    plain = scale == 1.0 and shift == 0.0
    if plain and base.quant is None:
        _plain_power(s, *widened(s, [base, exponent]))
        return
    if plain:
        s.emit(e.Pow(), [base, exponent])
        return
    base, exponent = s.real(base), s.real(exponent)
    if not base.dtype.is_float:
        base = s.add(Cast(dtype=DType.FLOAT32), [base])
    if exponent.dtype is not base.dtype:
        exponent = s.add(Cast(dtype=base.dtype), [exponent])
    result = s.add(e.Pow(), [_affine(s, base, scale, shift), exponent])
    if s.result_quant() is None and result.dtype is not s.result_dtype():
        result = s.add(Cast(dtype=s.result_dtype()), [result])
    s.emit_real(result)


POWERS = frozenset({DType.INT32, DType.INT64, DType.FLOAT16, DType.FLOAT32, DType.FLOAT64})
"""The types that runtimes raise numbers in; of others, the low bits of an int64 power are right."""


def _plain_power(s: Source, base: Value, exponent: Value) -> None:
    if base.dtype not in POWERS:
        base, exponent = (s.add(Cast(dtype=DType.INT64), [side]) for side in (base, exponent))
    if base.dtype is s.result_dtype():
        s.emit(e.Pow(), [base, exponent])
    else:
        s.emit(Cast(dtype=s.result_dtype()), [s.add(e.Pow(), [base, exponent])])


def import_exp(s: Source) -> None:
    """EXP: base ** (shift + scale * x); a base of -1 is e."""
    x, base = s.operand("input"), s.float("base")
    scale, shift = s.float("scale"), s.float("shift")
    if base != -1.0:
        if base <= 0:
            raise s.fail(f"base {base:g}, allowed are numbers above 0, and -1 for e")
        scale, shift = scale * math.log(base), shift * math.log(base)
    s.emit(e.Exp(), [_affine(s, x, scale, shift)])


def import_clip(s: Source) -> None:
    """CLIP; of integers, the bounds are those within."""
    x, low, high = s.operand("input"), s.float("min"), s.float("max")
    if x.dtype.is_integer and math.isfinite(low) and math.isfinite(high):
        low, high = float(math.ceil(low)), float(math.floor(high))
    if not low <= high:
        raise s.fail(f"min {low:g} is above max {high:g}")
    s.emit(e.Clip(low=low, high=high), [x])


def import_gelu(s: Source) -> None:
    """GELU."""
    s.emit(e.Gelu(approximate=s.bool("approximate")), [s.operand("input")])


def import_leaky_relu(s: Source) -> None:
    """LEAKY_RELU."""
    s.emit(e.LeakyRelu(alpha=s.float("negativeSlope")), [s.operand("input")])


def import_prelu(s: Source) -> None:
    """PRELU: one slope, or one for each index of the last dimension."""
    x, slope = s.operand("input"), s.operand("weight")
    channels = (x.shape or (None,))[-1]
    count = (s.of_rank(slope, 1).shape or (None,))[0]
    if None not in (channels, count) and count not in (1, channels):
        raise s.fail(
            f"{plural(count, 'slope')} for {plural(channels, 'channel')}, must be 1 or as many"
        )
    s.emit(e.PRelu(), [x, slope])


def import_select(s: Source) -> None:
    """SELECT: the condition has the data's shape, or is of rank 1 for the first dimension."""
    condition, first, second = s.operands()
    rank = s.rank(first)
    if len(condition.shape or ()) == 1 and rank > 1:
        condition = reshaped(s.builder, condition, (-1, *[1] * (rank - 1)))
    s.emit(e.Select(), [condition, first, second])


def import_bias_add(s: Source) -> None:
    """BIAS_ADD: along the last dimension; of codes, a whole bias has the data's scale."""
    x, bias = s.operand("input"), s.of_rank(s.operand("bias"), 1)
    if x.quant is None:
        s.emit(e.Add(), widened(s, [x, bias]))
        return
    real = s.real(bias)
    if bias.quant is None:
        whole = s.add(Cast(dtype=DType.FLOAT32), [bias])
        real = s.add(e.Mul(), [whole, s.const(np.asarray(x.quant.scale[0], np.float32))])
    s.emit_real(s.add(e.Add(), [s.real(x), real]))


def import_scale(s: Source) -> None:
    """SCALE: x * scale + bias, which align with dimensions of x from the axis on."""
    x, scale, bias = s.operand("input"), s.operand("scale"), s.operand("bias")
    rank, width = s.rank(x), s.rank(scale)
    axis = s.axis(s.int("axis"), rank)
    if axis + width > rank:
        raise s.fail(f"scale has rank {width}, behind axis {axis} there is room for {rank - axis}")
    activation = s.activation()
    if x.quant is not None:
        if bias.quant is None and bias.dtype is DType.INT32:
            unit = x.quant.scale[0] * (1.0 if scale.quant is None else scale.quant.scale[0])
            factor = s.const(np.asarray(unit, np.float32))
            bias = s.add(e.Mul(), [s.add(Cast(dtype=DType.FLOAT32), [bias]), factor])
        x, scale, bias = s.real(x), s.real(scale), s.real(bias)
    if axis + width < rank:
        extents = [d if isinstance(d, int) else -1 for d in scale.shape or ()]
        shape = (*extents, *[1] * (rank - axis - width))
        scale, bias = reshaped(s.builder, scale, shape), reshaped(s.builder, bias, shape)
    product = s.add(e.Mul(), [x, scale])
    s.emit_real(s.add(e.Add(activation=activation), widened(s, [product, bias])))


IMPORTERS: dict[str, Importer] = {
    **{name: _plain(op) for name, op in (UNARY | LOGICAL).items()},
    **dict.fromkeys(ARITHMETIC, import_arithmetic),
    **dict.fromkeys(BINARY, import_binary),
    **dict.fromkeys(COMPARISONS, import_comparison),
    "BIAS_ADD": import_bias_add,
    "CLIP": import_clip,
    "ELTWISE": import_eltwise,
    "EXP": import_exp,
    "GELU": import_gelu,
    "LEAKY_RELU": import_leaky_relu,
    "POW": import_pow,
    "PRELU": import_prelu,
    "SCALE": import_scale,
    "SELECT": import_select,
    "WHERE": _plain(e.Select()),
}
