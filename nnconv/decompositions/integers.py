"""Quotients and powers of integers that formats have for small ones or floats alone."""

from __future__ import annotations

from collections.abc import Sequence

from nnconv.decompositions.constants import scalar
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation
from nnconv.ops import elementwise as e
from nnconv.ops.numeric import TruncatedMod
from nnconv.ops.quantize import Bitcast, Cast, LooseCast

_ROUNDS = 3
"""Each round of a division finds 21 bits of the quotient, of 63."""


def divide(node: Node, b: Builder) -> Sequence[Value] | None:
    """The quotient of wide integers, toward zero.

    Less what remains the dividend is a multiple: float32 tells how many times, as far as it is
    exact, again and again of what is left.
    """
    op = node.op
    x, y = node.operand(0), node.operand(1)
    assert isinstance(op, e.Div)
    if not x.dtype.is_integer or x.dtype.bits < 32 or x.quant is not None:
        return None
    if x.dtype is DType.INT32 or op.activation is not Activation.NONE:
        return None
    dividend, divisor = widened(x, b), widened(y, b)
    left = b.add(e.Sub(), [dividend, b.add(TruncatedMod(), [dividend, divisor])])
    share = b.add(Cast(dtype=DType.FLOAT32), [divisor])
    quotient: Value | None = None
    for _ in range(_ROUNDS):
        size = b.add(e.Div(), [b.add(Cast(dtype=DType.FLOAT32), [left]), share])
        rounded = b.add(e.Floor(), [b.add(e.Add(), [size, scalar(b, 0.5, size)])])
        times = b.add(LooseCast(dtype=DType.INT64), [rounded])
        left = b.add(e.Sub(), [left, b.add(e.Mul(), [times, divisor])])
        quotient = times if quotient is None else b.add(e.Add(), [quotient, times])
    assert quotient is not None
    return [narrowed(quotient, x.dtype, b)]


def toward_zero(node: Node, b: Builder) -> Sequence[Value] | None:
    """Div of int32: the quotient rounded down, 1 more where it is negative and a rest is left."""
    op, x, y = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, e.Div)
    if x.dtype is not DType.INT32 or x.type.has_codes or op.activation is not Activation.NONE:
        return None
    down = b.add(e.FloorDiv(), [x, y])
    rest = b.add(e.Sub(), [x, b.add(e.Mul(), [down, y])])
    zero = scalar(b, 0, x)
    signs = [b.add(Cast(dtype=DType.INT32), [b.add(e.Less(), [side, zero])]) for side in (x, y)]
    cut = b.add(e.LogicalAnd(), [b.add(e.NotEqual(), [rest, zero]), b.add(e.NotEqual(), signs)])
    return [b.add(e.Add(), [down, b.add(Cast(dtype=x.dtype), [cut])])]


def widened(x: Value, b: Builder) -> Value:
    """Integers as int64; of uint64 the bits, which are the number up to 2**63.

    As int32 where there is nothing wider.
    """
    if x.dtype is DType.INT64 or (x.dtype is DType.INT32 and not b.means.int64):
        return x
    if not b.means.int64:
        return b.add(Cast(dtype=DType.INT32), [x])
    same_bits = x.dtype is DType.UINT64
    return b.add(Bitcast(dtype=DType.INT64) if same_bits else Cast(dtype=DType.INT64), [x])


_EXPONENT_BITS = 6
"""2**63 and more doesn't fit int64 anyway."""


def power(node: Node, b: Builder) -> Sequence[Value] | None:
    """Powers of mixed types in floats; those of integers by squaring."""
    base, exponent = (node.operand(i) for i in range(2))
    if base.quant is not None or exponent.quant is not None:
        return None
    if base.dtype.is_integer and exponent.dtype.is_integer:
        result = _by_squaring(widened(base, b), widened(exponent, b), b)
        return [narrowed(result, base.dtype, b)]
    operands = [
        v if v.dtype is DType.FLOAT32 else b.add(Cast(dtype=DType.FLOAT32), [v])
        for v in (base, exponent)
    ]
    if all(new is old for new, old in zip(operands, (base, exponent), strict=True)):
        return None
    result = b.add(e.Pow(), operands)
    if base.dtype is DType.FLOAT32:
        return [result]
    loose = base.dtype.is_integer
    return [b.add((LooseCast if loose else Cast)(dtype=base.dtype), [result])]


def _by_squaring(base: Value, exponent: Value, b: Builder) -> Value:
    """int64 powers: the product of those squares whose bit the exponent has.

    A negative exponent gives 0, but of 1 and -1 (whose powers its lowest bit tells).
    """
    one, zero = scalar(b, 1, base), scalar(b, 0, base)
    result, square = one, base
    for bit in range(_EXPONENT_BITS):
        rest = b.add(e.FloorMod(), [exponent, scalar(b, 2 << bit, exponent)])
        has = b.add(e.GreaterEqual(), [rest, scalar(b, 1 << bit, exponent)])
        factor = b.add(e.Select(), [has, square, one])
        result = factor if bit == 0 else b.add(e.Mul(), [result, factor])
        if bit < _EXPONENT_BITS - 1:
            square = b.add(e.Mul(), [square, square])
    is_fraction = b.add(e.Less(), [exponent, scalar(b, 0, exponent)])
    is_one = b.add(e.Equal(), [b.add(e.Mul(), [base, base]), one])
    vanishes = b.add(e.LogicalAnd(), [is_fraction, b.add(e.LogicalNot(), [is_one])])
    return b.add(e.Select(), [vanishes, zero, result])


def narrowed(x: Value, dtype: DType, b: Builder) -> Value:
    """What ``widened`` took, back in its own type."""
    if dtype is x.dtype:
        return x
    same_bits = dtype is DType.UINT64
    return b.add(Bitcast(dtype=dtype) if same_bits else Cast(dtype=dtype), [x])
