"""Elementwise ops in numpy's own functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Activation, Op
from nnconv.ops import elementwise as e

_erf = np.vectorize(math.erf, otypes=[np.float64])


def activate(x: Array, activation: Activation) -> Array:
    """X behind an activation."""
    if activation is Activation.NONE:
        return x
    if activation is Activation.TANH:
        return np.tanh(x)
    if activation is Activation.SIGMOID:
        return sigmoid(x)
    assert activation.bounds is not None
    low, high = activation.bounds
    return np.clip(x, np.asarray(low, x.dtype), np.asarray(high, x.dtype))


def sigmoid(x: Array) -> Array:
    """1 / (1 + e**-x), without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def _gelu(op: e.Gelu, x: Array) -> list[Array]:
    if op.approximate:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return [0.5 * x * (1 + np.tanh(inner))]
    return [(0.5 * x * (1 + _erf(x / math.sqrt(2)))).astype(x.dtype)]


def _elu(op: e.Elu, x: Array) -> list[Array]:
    return [np.where(x > 0, x, op.alpha * np.expm1(np.minimum(x, 0)))]


def _div(op: e.Div, a: Array, b: Array) -> list[Array]:
    if np.issubdtype(np.result_type(a, b), np.integer):
        if not np.all(b):
            raise ValueError("division by zero")
        quotient = np.abs(a.astype(np.int64)) // np.abs(b.astype(np.int64))
        result = (np.sign(a.astype(np.int64)) * np.sign(b.astype(np.int64)) * quotient).astype(
            a.dtype
        )
    else:
        result = a / b
    return [activate(result, op.activation)]


def _unary(function: Callable[[Array], Array]) -> Kernel:
    return lambda op, x: [function(x)]


def _binary(function: Callable[[Array, Array], Array]) -> Kernel:
    return lambda op, a, b: [function(a, b)]


def _arithmetic(function: Callable[[Array, Array], Array]) -> Kernel:
    return lambda op, a, b: [activate(function(a, b), op.activation)]


def _clip(op: e.Clip, x: Array) -> list[Array]:
    if np.issubdtype(x.dtype, np.integer):
        limits = np.iinfo(x.dtype)
        return [np.clip(x, int(max(op.low, limits.min)), int(min(op.high, limits.max)))]
    return [np.clip(x, x.dtype.type(op.low), x.dtype.type(op.high))]


KERNELS: dict[type[Op], Kernel] = {
    e.Abs: _unary(np.abs),
    e.Neg: _unary(np.negative),
    e.Sign: _unary(np.sign),
    e.Square: _unary(np.square),
    e.Sqrt: _unary(np.sqrt),
    e.Rsqrt: _unary(lambda x: 1 / np.sqrt(x)),
    e.Exp: _unary(np.exp),
    e.Log: _unary(np.log),
    e.Sin: _unary(np.sin),
    e.Cos: _unary(np.cos),
    e.Floor: _unary(np.floor),
    e.Ceil: _unary(np.ceil),
    e.Round: _unary(np.rint),
    e.Tanh: _unary(np.tanh),
    e.Sigmoid: _unary(sigmoid),
    e.HardSwish: _unary(lambda x: x * np.clip(x + 3, 0, 6) / 6),
    e.Clip: _clip,
    e.Elu: _elu,
    e.LeakyRelu: lambda op, x: [np.where(x > 0, x, x * x.dtype.type(op.alpha))],
    e.Gelu: _gelu,
    e.LogicalNot: _unary(np.logical_not),
    e.ZerosLike: _unary(np.zeros_like),
    e.ComplexAbs: _unary(np.abs),
    e.Real: _unary(np.real),
    e.Imag: _unary(np.imag),
    e.Add: _arithmetic(np.add),
    e.Sub: _arithmetic(np.subtract),
    e.Mul: _arithmetic(np.multiply),
    e.Div: _div,
    e.Maximum: _binary(np.maximum),
    e.Minimum: _binary(np.minimum),
    e.Pow: _binary(np.power),
    e.FloorDiv: _binary(np.floor_divide),
    e.FloorMod: _binary(np.mod),
    e.SquaredDifference: _binary(lambda a, b: np.square(a - b)),
    e.Atan2: _binary(np.arctan2),
    e.BitwiseXor: _binary(np.bitwise_xor),
    e.BitwiseAnd: _binary(np.bitwise_and),
    e.RightShift: _binary(np.right_shift),
    e.LeftShift: _binary(np.left_shift),
    e.Equal: _binary(np.equal),
    e.NotEqual: _binary(np.not_equal),
    e.Less: _binary(np.less),
    e.LessEqual: _binary(np.less_equal),
    e.Greater: _binary(np.greater),
    e.GreaterEqual: _binary(np.greater_equal),
    e.LogicalAnd: _binary(np.logical_and),
    e.LogicalOr: _binary(np.logical_or),
    e.PRelu: lambda op, x, slope: [np.where(x >= 0, x, x * slope)],
    e.Select: lambda op, condition, then, otherwise: [np.where(condition, then, otherwise)],
    e.AddN: lambda op, *terms: [reduce(np.add, terms)],
}
