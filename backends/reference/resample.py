"""Resizing along any dimensions, one after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel, code_of, takes_kind

from nnconv.ir.op import Op
from nnconv.ir.types import TensorType
from nnconv.ops.resample import Axis, Resample, ResampleNearest, chosen, outside, taps


def _axes(
    op: Resample | ResampleNearest, x: Array, operands: tuple[Array | None, ...]
) -> list[Axis]:
    roi, scales, sizes = (
        None if a is None else a.reshape(-1).tolist() for a in (*operands, *(None,) * 3)[:3]
    )
    extents = [x.shape[axis] for axis in op.axes]
    return op.resized(extents, scales=scales, sizes=sizes, roi=roi)


def _each(
    op: Resample | ResampleNearest,
    x: Array,
    axes: list[Axis],
    one: Callable[[Array, int, Axis], Array],
    beyond: Array,
) -> Array:
    """``one`` along each axis; then ``beyond`` where any of them lies outside."""
    shape = list(x.shape)
    away = np.zeros((), bool)
    for dim, axis in zip(op.axes, axes, strict=True):
        shape[dim] = axis.size
        if 0 in (axis.size, axis.extent):
            continue
        x = one(x, dim, axis)
        beside = outside(op, axis)
        if beside is not None:
            away = away | beside.reshape([-1 if i == dim else 1 for i in range(x.ndim)])
    if 0 in shape:
        return np.zeros(shape, x.dtype)
    return np.where(away, beyond, x) if away.any() else x


@takes_kind
def resample_nearest(
    op: ResampleNearest, x: Array, *operands: Array | None, kind: TensorType
) -> list[Array]:
    """ResampleNearest."""

    def one(data: Array, dim: int, axis: Axis) -> Array:
        return np.take(data, chosen(op, axis), dim)

    return [_each(op, x, _axes(op, x, operands), one, code_of(op.extrapolation, kind))]


def resample(op: Resample, x: Array, *operands: Array | None) -> list[Array]:
    """Resample; integers that aren't quantized round toward zero."""
    whole = np.issubdtype(x.dtype, np.integer)
    data = x.astype(np.float64) if whole else x

    def one(values: Array, dim: int, axis: Axis) -> Array:
        if axis.size == axis.extent and axis.scale == 1 and axis.roi == (0.0, 1.0):
            return values
        indices, weights = taps(op, axis)
        shape = [-1 if i == dim else 1 for i in range(values.ndim)]
        total: Array | None = None
        for column in range(indices.shape[1]):
            share = weights[:, column].astype(values.dtype).reshape(shape)
            term = np.take(values, indices[:, column], dim) * share
            total = term if total is None else total + term
        assert total is not None
        return total

    beyond = np.asarray(op.extrapolation, data.dtype)
    result = _each(op, data, _axes(op, x, operands), one, beyond)
    return [np.trunc(result) if whole else result]


KERNELS: dict[type[Op], Kernel] = {
    Resample: resample,
    ResampleNearest: resample_nearest,
}
