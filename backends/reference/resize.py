"""Resizing by its definition, one dimension after the other."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Op
from nnconv.ops.resize import ResizeBilinear, ResizeNearest, nearest_indices, source_places
from nnconv.ops.spatial import spatial_dims


def _sizes(op: ResizeBilinear | ResizeNearest, size: Array | None) -> tuple[int, int]:
    if op.size is not None:
        return op.size
    height, width = np.asarray(size).reshape(-1).tolist()
    return height, width


def resize_nearest(op: ResizeNearest, x: Array, size: Array | None = None) -> list[Array]:
    """ResizeNearest."""
    for dim, extent in zip(spatial_dims(x.ndim, op.layout), _sizes(op, size), strict=True):
        x = np.take(x, nearest_indices(op, x.shape[dim], extent), dim)
    return [x]


def resize_bilinear(op: ResizeBilinear, x: Array, size: Array | None = None) -> list[Array]:
    """ResizeBilinear; integers that aren't quantized round toward zero."""
    whole = np.issubdtype(x.dtype, np.integer)
    data = x.astype(np.float64) if whole else x
    for dim, extent in zip(spatial_dims(x.ndim, op.layout), _sizes(op, size), strict=True):
        last = x.shape[dim] - 1
        places = np.clip(source_places(op, x.shape[dim], extent), 0, last)
        lower = np.floor(places).astype(np.int64)
        share = (places - lower).astype(data.dtype).reshape([-1] + [1] * (x.ndim - 1 - dim))
        upper = np.minimum(lower + 1, last)
        data = np.take(data, lower, dim) * (1 - share) + np.take(data, upper, dim) * share
    return [np.trunc(data) if whole else data]


KERNELS: dict[type[Op], Kernel] = {
    ResizeBilinear: resize_bilinear,
    ResizeNearest: resize_nearest,
}
