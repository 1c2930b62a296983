"""Angles, bits, tests and extremes in numpy's own functions."""

from __future__ import annotations

from functools import reduce

import numpy as np
from nnconv.backends.reference.elementwise import binary, erf, unary
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.dtype import DType
from nnconv.ir.op import Op
from nnconv.ops import numeric as n


def _is_inf(op: n.IsInf, x: Array) -> list[Array]:
    return [(np.isposinf(x) & op.positive) | (np.isneginf(x) & op.negative)]


def _shifted(a: Array, b: Array, *, left: bool) -> Array:
    bits = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < bits)
    amount = np.where(inside, b, 0).astype(a.dtype)
    if left:
        return np.where(inside, np.left_shift(a, amount), 0)
    return np.where(inside, np.right_shift(a, amount), np.where(a < 0, -1, 0).astype(a.dtype))


def _truncated_mod(op: n.TruncatedMod, a: Array, b: Array) -> list[Array]:
    if not DType.of(a).is_float and not np.all(b):
        raise ValueError("division by zero")
    return [np.fmod(a, b)]


def _mean_of(op: n.MeanOf, *terms: Array) -> list[Array]:
    total: Array = reduce(np.add, terms)
    return [total / len(terms)]


def _clip_between(
    op: n.ClipBetween, x: Array, low: Array | None = None, high: Array | None = None
) -> list[Array]:
    bounded = x if low is None else np.maximum(x, low.reshape(()))
    return [bounded if high is None else np.minimum(bounded, high.reshape(()))]


KERNELS: dict[type[Op], Kernel] = {
    n.Tan: unary(np.tan),
    n.Asin: unary(np.arcsin),
    n.Acos: unary(np.arccos),
    n.Atan: unary(np.arctan),
    n.Sinh: unary(np.sinh),
    n.Cosh: unary(np.cosh),
    n.Asinh: unary(np.arcsinh),
    n.Acosh: unary(np.arccosh),
    n.Atanh: unary(np.arctanh),
    n.Erf: unary(erf),
    n.Reciprocal: unary(lambda x: 1 / x),
    n.PlainSign: unary(np.sign),
    n.IsNan: unary(np.isnan),
    n.IsInf: _is_inf,
    n.BitwiseNot: unary(np.invert),
    n.BitwiseAnd: binary(np.bitwise_and),
    n.BitwiseOr: binary(np.bitwise_or),
    n.ShiftLeft: lambda op, a, b: [_shifted(a, b, left=True)],
    n.ShiftRight: lambda op, a, b: [_shifted(a, b, left=False)],
    n.TruncatedMod: _truncated_mod,
    n.MaxOf: lambda op, *terms: [reduce(np.maximum, terms)],
    n.MinOf: lambda op, *terms: [reduce(np.minimum, terms)],
    n.MeanOf: _mean_of,
    n.ClipBetween: _clip_between,
}
