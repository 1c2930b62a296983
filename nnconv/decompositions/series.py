"""Logarithms and sines of float32 by comparisons, products and sums."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnconv.decompositions.constants import scalar
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ops import elementwise as e
from nnconv.ops.gather import Gather
from nnconv.ops.quantize import Cast

_POWERS = (64, 64, 32, 16, 8, 4, 2, 1)
"""Of two, that bring every float32 to 1 ... 2."""

_LOG_HIGH, _LOG_LOW = 0.693359375, -2.12194440054690583e-4
"""log(2) as a number of few bits, whose small multiples are exact, and what it lacks."""

_LOG_SERIES = (2 / 9, 2 / 7, 2 / 5, 2 / 3, 2.0)


def _by(truth: Value, no: float, yes: float, b: Builder) -> Value:
    """One of two numbers."""
    table = b.const(np.asarray([no, yes], np.float32))
    return b.add(Gather(axis=0), [table, b.add(Cast(dtype=DType.INT32), [truth])])


def _widened(node: Node, b: Builder) -> Sequence[Value]:
    """The same op on float32."""
    x = node.operand(0)
    found = b.add(node.op, [b.add(Cast(dtype=DType.FLOAT32), [x])])
    return [b.add(Cast(dtype=x.dtype), [found])]


def _polynomial(x: Value, coefficients: Sequence[float], b: Builder) -> Value:
    total = scalar(b, coefficients[0], x)
    for coefficient in coefficients[1:]:
        total = b.add(e.Add(), [b.add(e.Mul(), [total, x]), scalar(b, coefficient, x)])
    return total


def log_by_series(node: Node, b: Builder) -> Sequence[Value] | None:
    """Log of float32, within 3e-7 of it: powers of two are taken off, the rest is a series.

    With s = (m - 1) / (m + 1), the logarithm of m is 2 * (s + s**3 / 3 + ...); m is between the
    root of 1 / 2 and that of 2.
    """
    x = node.operand(0)
    if x.dtype is DType.FLOAT16:
        return _widened(node, b)
    if x.dtype is not DType.FLOAT32:
        return None
    greatest = float(np.finfo(np.float32).max)
    zero, most = scalar(b, 0, x), scalar(b, greatest, x)
    m = b.add(e.Minimum(), [x, most])
    counts: list[Value] = []

    def scale(truth: Value, power: int) -> None:
        nonlocal m
        m = b.add(e.Mul(), [m, _by(truth, 1, 2.0**power, b)])
        counts.append(_by(truth, 0, -power, b))

    for power in _POWERS:
        scale(b.add(e.LessEqual(), [m, scalar(b, 2.0**-power, x)]), power)
    for power in _POWERS[1:]:
        scale(b.add(e.LessEqual(), [scalar(b, 2.0**power, x), m]), -power)
    scale(b.add(e.LessEqual(), [m, scalar(b, math.sqrt(0.5), x)]), 1)
    scale(b.add(e.LessEqual(), [scalar(b, math.sqrt(2), x), m]), -1)
    count = counts[0]
    for other in counts[1:]:
        count = b.add(e.Add(), [count, other])
    one = scalar(b, 1, x)
    share = b.add(e.Div(), [b.add(e.Sub(), [m, one]), b.add(e.Add(), [m, one])])
    bent = _polynomial(b.add(e.Mul(), [share, share]), _LOG_SERIES, b)
    result = b.add(e.Mul(), [share, bent])
    for part in (_LOG_LOW, _LOG_HIGH):
        result = b.add(e.Add(), [result, b.add(e.Mul(), [count, scalar(b, part, x)])])
    for truth, beyond in (
        (b.add(e.LessEqual(), [x, zero]), -math.inf),
        (b.add(e.Less(), [x, zero]), math.nan),
        (b.add(e.Less(), [most, x]), math.inf),
    ):
        result = b.add(e.Add(), [result, _by(truth, 0, beyond, b)])
    return [result]


_TURN = (1.5703125, 4.83751296997e-4, 7.54978995489e-8)
"""A quarter of a turn, pi / 2, in parts of few bits, whose small multiples are exact."""

_SINE = (-1 / 39916800, 1 / 362880, -1 / 5040, 1 / 120, -1 / 6, 1.0)


def sine_by_series(node: Node, b: Builder) -> Sequence[Value] | None:
    """Sin of float32: half turns are taken off, the rest is a series.

    Within 3e-7 of it up to some thousand turns, and off by as much more as they are more.
    """
    x = node.operand(0)
    if x.dtype is DType.FLOAT16:
        return _widened(node, b)
    if x.dtype is not DType.FLOAT32:
        return None
    halves = b.add(e.Mul(), [x, scalar(b, 1 / math.pi, x)])
    count = b.add(e.Floor(), [b.add(e.Add(), [halves, scalar(b, 0.5, x)])])
    rest = x
    for part in _TURN:
        rest = b.add(e.Sub(), [rest, b.add(e.Mul(), [count, scalar(b, 2 * part, x)])])
    whole = b.add(e.Mul(), [rest, _polynomial(b.add(e.Mul(), [rest, rest]), _SINE, b)])
    pairs = b.add(e.Floor(), [b.add(e.Mul(), [count, scalar(b, 0.5, x)])])
    odd = b.add(e.Sub(), [count, b.add(e.Mul(), [pairs, scalar(b, 2, x)])])
    sign = b.add(e.Sub(), [scalar(b, 1, x), b.add(e.Mul(), [odd, scalar(b, 2, x)])])
    return [b.add(e.Mul(), [whole, sign])]
