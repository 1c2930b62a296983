"""uint64 by int64 of the same bits, where kernels know no uint64 and signs matter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.decompositions.constants import scalar
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ops import elementwise as e
from nnconv.ops.numeric import ShiftRight
from nnconv.ops.quantize import Bitcast, Cast
from nnconv.ops.reduce import ArgExtreme, ReduceMax, ReduceMin

LEAST = int(np.iinfo(np.int64).min)

ORDERED = (
    *(e.Less, e.LessEqual, e.Greater, e.GreaterEqual, e.Maximum, e.Minimum),
    *(ReduceMax, ReduceMin, ArgExtreme),
)
"""Ops that compare: int64 of the same bits have another order."""

DIVISIONS = (e.Div, e.FloorDiv, e.FloorMod)


def bits_of(x: Value, b: Builder) -> Value:
    """The int64 of the same bits."""
    return x if x.dtype is DType.INT64 else b.add(Bitcast(dtype=DType.INT64), [x])


def from_bits(x: Value, b: Builder) -> Value:
    """What ``bits_of`` took."""
    return b.add(Bitcast(dtype=DType.UINT64), [x])


def in_order(x: Value, b: Builder) -> Value:
    """int64 in the order of uint64: the highest bit is the other way round."""
    same = bits_of(x, b)
    return b.add(e.Add(), [same, scalar(b, LEAST, same)])


def from_order(x: Value, b: Builder) -> Value:
    """What ``in_order`` took."""
    return from_bits(b.add(e.Add(), [x, scalar(b, LEAST, x)]), b)


def quotient(node: Node, b: Builder) -> Sequence[Value] | None:
    """The quotient of uint64."""
    found = _divided(node, b)
    if found is None:
        return None
    result = from_bits(found[0], b)
    bounds = node.op.activation.bounds if isinstance(node.op, e.Div) else None
    return [result if bounds is None else b.add(e.Clip(low=bounds[0], high=bounds[1]), [result])]


def remainder(node: Node, b: Builder) -> Sequence[Value] | None:
    """What is left of uint64."""
    found = _divided(node, b)
    return None if found is None else [from_bits(found[1], b)]


def _divided(node: Node, b: Builder) -> tuple[Value, Value] | None:
    """Quotient and rest of uint64, as int64 of their bits.

    Half the dividend has a sign bit of 0, and so have the divisors up to 2**63: twice their
    quotient is right, or 1 too small. Greater divisors go in once or not at all.
    """
    x, y = node.inputs
    if x is None or y is None or x.dtype is not DType.UINT64 or y.dtype is not DType.UINT64:
        return None
    dividend, divisor = bits_of(x, b), bits_of(y, b)
    zero, one = scalar(b, 0, divisor), scalar(b, 1, divisor)
    is_great = b.add(e.Less(), [divisor, zero])
    half = bits_of(b.add(ShiftRight(), [x, b.const(np.asarray(1, np.uint64))]), b)
    small = b.add(e.Select(), [is_great, one, divisor])
    twice = b.add(e.Mul(), [b.add(e.Div(), [half, small]), scalar(b, 2, half)])
    times = b.add(e.Select(), [is_great, zero, twice])
    left = b.add(e.Sub(), [dividend, b.add(e.Mul(), [times, divisor])])
    once = b.add(e.GreaterEqual(), [in_order(left, b), in_order(divisor, b)])
    more = b.add(Cast(dtype=DType.INT64), [once])
    rest = b.add(e.Sub(), [left, b.add(e.Mul(), [more, divisor])])
    return b.add(e.Add(), [times, more]), rest


_EXPONENT = {DType.FLOAT64: (DType.INT64, 1 << 52), DType.FLOAT32: (DType.INT32, 1 << 23)}
"""Of floats: the integer of their size, and what a step of the exponent is in it."""


def as_float(x: Value, dtype: DType, b: Builder) -> Value:
    """uint64 as float64 or float32.

    From 2**63 on, half of it is converted, with the lost bit for right rounding, and doubled by way
    of the exponent: no kernel computes with float64.
    """
    kind, step = _EXPONENT[dtype]
    same = bits_of(x, b)
    half = bits_of(b.add(ShiftRight(), [x, b.const(np.asarray(1, np.uint64))]), b)
    odd = b.add(e.FloorMod(), [same, scalar(b, 2, same)])
    even = b.add(e.Sub(), [half, b.add(e.FloorMod(), [half, scalar(b, 2, half)])])
    lost = b.add(e.Maximum(), [odd, b.add(e.Sub(), [half, even])])
    rounded = b.add(Cast(dtype=dtype), [b.add(e.Add(), [even, lost])])
    above = b.add(Bitcast(dtype=kind), [rounded])
    below = b.add(Bitcast(dtype=kind), [b.add(Cast(dtype=dtype), [same])])
    is_great = b.add(e.Less(), [same, scalar(b, 0, same)])
    doubled = b.add(e.Add(), [above, scalar(b, step, above)])
    return b.add(Bitcast(dtype=dtype), [b.add(e.Select(), [is_great, doubled, below])])


def from_float(x: Value, op: Cast, b: Builder) -> Value:
    """float64 or float32 as uint64. From 2**63 on, twice what half of it is."""
    kind, step = _EXPONENT[x.dtype]
    bits = b.add(Bitcast(dtype=kind), [x])
    limit = np.asarray(2.0**63, x.dtype.numpy).view(kind.numpy)
    is_great = b.add(e.GreaterEqual(), [bits, b.const(limit)])
    half = b.add(Bitcast(dtype=x.dtype), [b.add(e.Sub(), [bits, scalar(b, step, bits)])])
    to_int = op.replace(dtype=DType.INT64)
    number = b.add(to_int, [half])
    twice = b.add(e.Mul(), [number, scalar(b, 2, number)])
    found = b.add(e.Select(), [is_great, twice, b.add(to_int, [x])])
    return from_bits(found, b)
