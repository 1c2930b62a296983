"""Elementwise ops in numpy's own functions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.dtype import DType
from nnconv.ir.op import Activation, Op
from nnconv.ops import elementwise as e

_erf = np.vectorize(math.erf, otypes=[np.float64])


def erf(x: Array) -> Array:
    """The error function."""
    return np.asarray(_erf(x))


def activate(x: Array, activation: Activation) -> Array:
    """X behind an activation."""
    if activation is Activation.NONE:
        return x
    if activation is Activation.TANH:
        return np.asarray(np.tanh(x))
    if activation is Activation.SIGMOID:
        return sigmoid(x)
    assert activation.bounds is not None
    return _clamp(x, *activation.bounds)


def _clamp(x: Array, low: float, high: float) -> Array:
    if np.issubdtype(x.dtype, np.integer):
        limits = np.iinfo(x.dtype)
        bounds = int(max(low, limits.min)), int(min(high, limits.max))
    else:
        bounds = x.dtype.type(low), x.dtype.type(high)
    return np.asarray(np.clip(x, *bounds))


def sigmoid(x: Array) -> Array:
    """1 / (1 + e**-x), without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small))


def _gelu(op: e.Gelu, x: Array) -> list[Array]:
    if op.approximate:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return [0.5 * x * (1 + np.tanh(inner))]
    return [(0.5 * x * (1 + erf(x / math.sqrt(2)))).astype(x.dtype)]


def _elu(op: e.Elu, x: Array) -> list[Array]:
    return [np.where(x > 0, x, op.alpha * np.expm1(np.minimum(x, 0)))]


def _div(op: e.Div, a: Array, b: Array) -> list[Array]:
    if np.issubdtype(np.result_type(a, b), np.integer):
        if not np.all(b):
            raise ValueError("division by zero")
        quotient = np.floor_divide(a, b)  # rounded down: one more where that isn't toward zero
        result = quotient + ((np.fmod(a, b) != 0) & ((a < 0) != (b < 0))).astype(a.dtype)
    else:
        result = a / b
    return [activate(result, op.activation)]


def unary(function: Callable[[Array], Array]) -> Kernel:
    """The kernel of an op that is a numpy function of one operand."""
    return lambda op, x: [function(x)]


def binary(function: Callable[[Array, Array], Array]) -> Kernel:
    """The kernel of an op that is a numpy function of two operands."""
    return lambda op, a, b: [function(a, b)]


def _arithmetic(function: Callable[[Array, Array], Array]) -> Kernel:
    return lambda op, a, b: [activate(function(a, b), op.activation)]


def _floor_div(op: e.FloorDiv, a: Array, b: Array) -> list[Array]:
    if DType.of(a).is_float:
        return [np.floor(a / b)]
    if not np.all(b):
        raise ValueError("division by zero")
    return [np.floor_divide(a, b)]


def _floor_mod(op: e.FloorMod, a: Array, b: Array) -> list[Array]:
    if DType.of(a).is_float:
        rest = np.fmod(a, b)
        return [np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)]
    if not np.all(b):
        raise ValueError("division by zero")
    return [np.mod(a, b)]


def _pow(op: e.Pow, a: Array, b: Array) -> list[Array]:
    if np.issubdtype(a.dtype, np.floating):
        return [np.power(a, b)]
    if np.any(b < 0) and np.issubdtype(b.dtype, np.integer):
        raise ValueError("an integer to a negative power")
    # as C's pow does it, which both TFLite and ONNX runtimes use; too much gives the least integer
    wide, limits = np.power(a.astype(np.float64), b), np.iinfo(a.dtype)
    outside = (wide < limits.min) | (wide > limits.max)
    return [np.where(outside, limits.min, np.where(outside, 0, wide).astype(a.dtype))]


def _right_shift(op: e.RightShift, a: Array, b: Array) -> list[Array]:
    return [np.right_shift(a, np.clip(b, 0, a.dtype.itemsize * 8 - 1))]


def _select(op: e.Select, condition: Array, then: Array, otherwise: Array) -> list[Array]:
    return [np.where(condition, then, otherwise)]


def _add_n(op: e.AddN, *terms: Array) -> list[Array]:
    total: Array = reduce(operator.add, terms)
    return [total]


KERNELS: dict[type[Op], Kernel] = {
    e.Abs: unary(np.abs),
    e.Neg: unary(np.negative),
    e.Sign: unary(np.sign),
    e.Square: unary(np.square),
    e.Sqrt: unary(np.sqrt),
    e.Rsqrt: unary(lambda x: 1 / np.sqrt(x)),
    e.Exp: unary(np.exp),
    e.Log: unary(np.log),
    e.Sin: unary(np.sin),
    e.Cos: unary(np.cos),
    e.Floor: unary(np.floor),
    e.Ceil: unary(np.ceil),
    e.Round: unary(np.rint),
    e.Tanh: unary(np.tanh),
    e.Sigmoid: unary(sigmoid),
    e.HardSwish: unary(lambda x: x * (np.clip(x + 3, 0, 6) / 6)),
    e.Clip: lambda op, x: [_clamp(x, op.low, op.high)],
    e.Elu: _elu,
    e.LeakyRelu: lambda op, x: [np.where(x > 0, x, x * x.dtype.type(op.alpha))],
    e.Gelu: _gelu,
    e.LogicalNot: unary(np.logical_not),
    e.ZerosLike: unary(np.zeros_like),
    e.ComplexAbs: unary(np.abs),
    e.Real: unary(np.real),
    e.Imag: unary(np.imag),
    e.Add: _arithmetic(np.add),
    e.Sub: _arithmetic(np.subtract),
    e.Mul: _arithmetic(np.multiply),
    e.Div: _div,
    e.Maximum: binary(np.maximum),
    e.Minimum: binary(np.minimum),
    e.Pow: _pow,
    e.FloorDiv: _floor_div,
    e.FloorMod: _floor_mod,
    e.SquaredDifference: binary(lambda a, b: np.square(a - b)),
    e.Atan2: binary(np.arctan2),
    e.BitwiseXor: binary(np.bitwise_xor),
    e.RightShift: _right_shift,
    e.Equal: binary(np.equal),
    e.NotEqual: binary(np.not_equal),
    e.Less: binary(np.less),
    e.LessEqual: binary(np.less_equal),
    e.Greater: binary(np.greater),
    e.GreaterEqual: binary(np.greater_equal),
    e.LogicalAnd: binary(np.logical_and),
    e.LogicalOr: binary(np.logical_or),
    e.PRelu: lambda op, x, slope: [np.where(x >= 0, x, x * slope)],
    e.Select: _select,
    e.AddN: _add_n,
}
