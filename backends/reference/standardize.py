"""Ops that take off a mean and divide by a deviation, by their definition."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Op
from nnconv.ops import standardize as s


def _along(parameters: Array, axis: int, rank: int) -> Array:
    """Parameters of each index of ``axis``, to broadcast against an array of ``rank``."""
    return parameters.reshape([-1 if i == axis else 1 for i in range(rank)])


def _standard(x: Array, axes: tuple[int, ...], epsilon: float) -> tuple[Array, Array, Array]:
    """``x`` standardized over ``axes``, the mean, and the inverse deviation."""
    mean = np.mean(x, axes, keepdims=True)
    apart = x - mean
    inverse = 1 / np.sqrt(np.mean(np.square(apart), axes, keepdims=True) + x.dtype.type(epsilon))
    return apart * inverse, mean, inverse


def batch_normalize(
    op: s.BatchNormalization, x: Array, scale: Array, offset: Array, mean: Array, variance: Array
) -> list[Array]:
    """BatchNormalization."""
    scale, offset, mean, variance = (
        _along(p, op.axis, x.ndim) for p in (scale, offset, mean, variance)
    )
    return [(x - mean) / np.sqrt(variance + variance.dtype.type(op.epsilon)) * scale + offset]


def instance_normalize(
    op: s.InstanceNormalization, x: Array, scale: Array, offset: Array
) -> list[Array]:
    """InstanceNormalization."""
    axes = tuple(i for i in range(1, x.ndim) if i != op.axis)
    result = _standard(x, axes, op.epsilon)[0]
    return [result * _along(scale, op.axis, x.ndim) + _along(offset, op.axis, x.ndim)]


def group_normalize(op: s.GroupNormalization, x: Array, scale: Array, offset: Array) -> list[Array]:
    """GroupNormalization."""
    data = np.moveaxis(x, op.axis, 1)
    n, channels, *spatial = data.shape
    parts = data.reshape(n, op.groups, channels // op.groups, *spatial)
    result = _standard(parts, tuple(range(2, parts.ndim)), op.epsilon)[0].reshape(data.shape)
    if op.by_group:
        scale, offset = (np.repeat(p, channels // op.groups) for p in (scale, offset))
    result = result * _along(scale, 1, x.ndim) + _along(offset, 1, x.ndim)
    return [np.moveaxis(result, 1, op.axis)]


def layer_normalize(
    op: s.LayerNormalization, x: Array, scale: Array, offset: Array | None = None
) -> list[Array]:
    """LayerNormalization."""
    result, mean, inverse = _standard(x, tuple(range(op.axis, x.ndim)), op.epsilon)
    result = result * scale if offset is None else result * scale + offset
    return [result, mean, inverse] if op.statistics else [result]


def rms_normalize(op: s.RmsNormalization, x: Array, scale: Array) -> list[Array]:
    """RmsNormalization."""
    axes = tuple(range(op.axis, x.ndim))
    mean = np.mean(np.square(x), axes, keepdims=True)
    return [x / np.sqrt(mean + x.dtype.type(op.epsilon)) * scale]


def normalize_mean_variance(op: s.MeanVarianceNormalization, x: Array) -> list[Array]:
    """MeanVarianceNormalization."""
    apart = x - np.mean(x, op.axes, keepdims=True)
    deviation = np.sqrt(np.mean(np.square(apart), op.axes, keepdims=True))
    return [apart / (deviation + x.dtype.type(1e-9))]


KERNELS: dict[type[Op], Kernel] = {
    s.BatchNormalization: batch_normalize,
    s.InstanceNormalization: instance_normalize,
    s.GroupNormalization: group_normalize,
    s.LayerNormalization: layer_normalize,
    s.RmsNormalization: rms_normalize,
    s.MeanVarianceNormalization: normalize_mean_variance,
}
