"""Activations by their formulas."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.elementwise import sigmoid
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Op
from nnconv.ops import activation as a


def softplus(x: Array) -> Array:
    """log(1 + e**x), without overflow."""
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def _selu(op: a.Selu, x: Array) -> list[Array]:
    return [op.gamma * np.where(x > 0, x, op.alpha * np.expm1(np.minimum(x, 0)))]


def _celu(op: a.Celu, x: Array) -> list[Array]:
    return [np.maximum(x, 0) + np.minimum(op.alpha * np.expm1(x / op.alpha), 0)]


def _hard_sigmoid(op: a.HardSigmoid, x: Array) -> list[Array]:
    return [np.clip(op.alpha * x + op.beta, 0, 1)]


def _shrink(op: a.Shrink, x: Array) -> list[Array]:
    wide = x.astype(np.float64)
    inner = np.where(wide > op.lambd, wide - op.bias, 0)
    return [np.where(wide < -op.lambd, wide + op.bias, inner)]


KERNELS: dict[type[Op], Kernel] = {
    a.Softplus: lambda op, x: [softplus(x)],
    a.Softsign: lambda op, x: [x / (1 + np.abs(x))],
    a.Mish: lambda op, x: [x * np.tanh(softplus(x))],
    a.Swish: lambda op, x: [x * sigmoid(op.alpha * x)],
    a.Selu: _selu,
    a.Celu: _celu,
    a.ThresholdedRelu: lambda op, x: [np.where(x > op.alpha, x, 0)],
    a.HardSigmoid: _hard_sigmoid,
    a.Shrink: _shrink,
}
