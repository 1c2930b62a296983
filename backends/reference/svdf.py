"""SVDF, on real values and on integers as TFLite computes it."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.elementwise import activate
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Op
from nnconv.ops.svdf import QuantizedSvdf, Svdf, fixed_point


def _svdf(
    op: Svdf, x: Array, features: Array, times: Array, bias: Array | None, state: Array
) -> list[Array]:
    filters, memory = times.shape
    newest = x.astype(np.float64) @ features.T
    past = state.reshape(len(x), filters, memory)[..., 1:]
    current = np.concatenate([past, newest[..., np.newaxis]], axis=-1)
    total = (
        np.sum(current * times, axis=-1).reshape(len(x), filters // op.rank, op.rank).sum(axis=-1)
    )
    result = total if bias is None else total + bias
    return [activate(result, op.activation), current.reshape(state.shape)]


def scaled(codes: Array, scale: float) -> Array:
    """int64 ``codes`` times ``scale`` in TFLite's fixed point: the product is rounded twice."""
    multiplier, exponent = fixed_point(scale)
    left, right = max(exponent, 0), max(-exponent, 0)
    high = ((codes << left) * multiplier + (1 << 30)) >> 31
    if not right:
        return high
    return np.asarray(np.sign(high) * ((np.abs(high) + (1 << (right - 1))) >> right))


def _quantized_svdf(
    op: QuantizedSvdf, x: Array, features: Array, times: Array, bias: Array | None, state: Array
) -> list[Array]:
    filters, memory = times.shape
    limits, bounds = np.iinfo(state.dtype), np.iinfo(x.dtype)
    sums = (x.astype(np.int64) - op.x_zero_point) @ features.T.astype(np.int64)
    newest = np.clip(
        op.state_zero_point + scaled(sums, op.state_scale), limits.min, limits.max
    ).astype(state.dtype)
    past = state.reshape(len(x), filters, memory)[..., 1:]
    current = np.concatenate([past, newest[..., np.newaxis]], axis=-1)
    products = (current.astype(np.int64) - op.state_zero_point) * times
    total = products.sum(axis=-1).reshape(len(x), filters // op.rank, op.rank).sum(axis=-1)
    if bias is not None:
        total = total + bias
    result = op.zero_point + scaled(total, op.output_scale)
    return [
        np.clip(result, bounds.min, bounds.max).astype(x.dtype),
        current.reshape(state.shape),
    ]


KERNELS: dict[type[Op], Kernel] = {Svdf: _svdf, QuantizedSvdf: _quantized_svdf}
