"""Normalizations by their definition."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.elementwise import activate
from nnconv.backends.reference.executor import Array, Kernel, takes_kind

from nnconv.ir.dtype import DType
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType
from nnconv.ops import norm as n


@takes_kind
def softmax(op: n.Softmax, x: Array, *, kind: TensorType) -> list[Array]:
    """Softmax; in half precision each step is rounded, as where it is spelled in its parts."""
    if not x.ndim:
        return [np.ones_like(x)]
    step = DType.FLOAT16.numpy if kind.dtype is DType.FLOAT16 else x.dtype
    scaled = x * x.dtype.type(op.beta)
    powers = np.exp(scaled - _greatest(scaled, op.axis)).astype(step)
    return [powers / powers.sum(op.axis, keepdims=True)]


def hardmax(op: n.Hardmax, x: Array) -> list[Array]:
    """Hardmax."""
    if not x.ndim:
        return [np.ones_like(x)]
    result = np.zeros_like(x)
    if x.size:
        places = np.argmax(x, axis=op.axis, keepdims=True)
        np.put_along_axis(result, places, 1, op.axis)
    return [result]


def log_softmax(op: n.LogSoftmax, x: Array) -> list[Array]:
    """LogSoftmax."""
    if not x.ndim:
        return [np.zeros_like(x)]
    x = x * x.dtype.type(op.beta)
    shifted = x - _greatest(x, op.axis)
    return [shifted - np.log(np.exp(shifted).sum(op.axis, keepdims=True))]


def _greatest(x: Array, axis: int) -> Array:
    return np.asarray(np.max(x, axis, keepdims=True)) if x.shape[axis] else np.zeros((), x.dtype)


def l2_normalize(op: n.L2Normalization, x: Array) -> list[Array]:
    """L2Normalization."""
    squares = np.square(x).sum(op.axis, keepdims=True) if x.ndim else np.square(x)
    norm = np.maximum(np.sqrt(squares), x.dtype.type(op.epsilon))
    return [activate(x / norm, op.activation)]


def lp_normalize(op: n.LpNormalization, x: Array) -> list[Array]:
    """LpNormalization."""
    total = np.sum(np.abs(x) ** op.p, op.axis, keepdims=True) ** (1 / op.p)
    return [np.where(total == 0, 0, x / total).astype(x.dtype)]


def local_response(op: n.LocalResponseNormalization, x: Array) -> list[Array]:
    """LocalResponseNormalization."""
    data = np.moveaxis(x, op.axis, -1)
    edges = [(0, 0)] * (data.ndim - 1) + [(op.radius, op.radius + op.behind)]
    squares = np.pad(np.square(data), edges)
    depth = data.shape[-1]
    total = sum(squares[..., i : i + depth] for i in range(2 * op.radius + op.behind + 1))
    result = data / (op.bias + op.alpha * total) ** op.beta
    return [np.moveaxis(result, -1, op.axis)]


KERNELS: dict[type[Op], Kernel] = {
    n.Softmax: softmax,
    n.Hardmax: hardmax,
    n.LogSoftmax: log_softmax,
    n.L2Normalization: l2_normalize,
    n.LpNormalization: lp_normalize,
    n.LocalResponseNormalization: local_response,
}
