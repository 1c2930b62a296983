"""Pooling by its definition: what meets each place of the window, one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from nnconv.backends.reference.conv import (
    channels_last,
    in_layout,
    pad_spatial,
    resolve,
    window_views,
)
from nnconv.backends.reference.elementwise import activate
from nnconv.backends.reference.executor import Array, Kernel, flat

from nnconv.ir.op import Op
from nnconv.ops import pool as p
from nnconv.ops.spatial import Padding, spatial_dims, window_count

_Means = p.AveragePool1D | p.AveragePool2D | p.AveragePool3D


def _paddings(op: Any, extents: tuple[int, ...]) -> tuple[Padding, Padding]:
    """The padding in numbers, and what the last windows reach into beyond it."""
    padding = resolve(op.padding, extents, op.window, op.stride, op.dilations)
    beyond = []
    for i, extent in enumerate(extents):
        size, step, spread = op.window[i], op.stride[i], op.dilations[i]
        before, after = padding.before[i], padding.after[i]
        count = window_count(extent, size, step, spread, before, after, ceil=op.ceil)
        assert isinstance(count, int)
        reach = (count - 1) * step + (size - 1) * spread + 1
        beyond.append(max(reach - extent - before - after, 0))
    return padding, Padding((0,) * len(extents), tuple(beyond))


def _views(op: Any, data: Array, value: float = 0.0) -> list[Array]:
    """What meets each place of the window in a channels-last array, ``value`` around it."""
    for padding in _paddings(op, data.shape[1:-1]):
        data = pad_spatial(data, padding, value)
    return [view for _, view in window_views(data, op.window, op.stride, op.dilations)]


def _lowest(dtype: np.dtype[Any]) -> float:
    return np.iinfo(dtype).min if np.issubdtype(dtype, np.integer) else -np.inf


def max_pool(op: p.MaxPool1D | p.MaxPool2D | p.MaxPool3D, x: Array) -> list[Array]:
    """MaxPool1D, MaxPool2D, MaxPool3D."""
    views = _views(op, channels_last(x, op.layout), _lowest(x.dtype))
    result = views[0]
    for view in views[1:]:
        result = np.maximum(result, view)
    return [activate(in_layout(result, op.layout), op.activation)]


def max_pool_indices(op: p.MaxPoolIndices, x: Array) -> list[Array]:
    """MaxPoolIndices."""
    data = channels_last(x, op.layout)
    n, *extents, c = data.shape
    numbers = np.arange(int(np.prod(extents)), dtype=np.int64)
    turned = numbers.reshape(extents[::-1]).transpose()
    spatial = turned if op.column_major else numbers.reshape(extents)
    planes = np.arange(n * c, dtype=np.int64).reshape(n, *[1] * len(extents), c)
    places = planes * spatial.size + spatial[None, ..., None]
    values, indices = _views(op, data, _lowest(x.dtype)), _views(op, places, -1)
    best, where = values[0], indices[0]
    for value, index in zip(values[1:], indices[1:], strict=True):
        better = (value > best) | ((where < 0) & (index >= 0))
        best, where = np.where(better, value, best), np.where(better, index, where)
    best = activate(best, op.activation)
    return [in_layout(best, op.layout), in_layout(where, op.layout)]


def _window_mean(op: _Means | p.L2Pool2D, data: Array, *, count_padding: bool) -> Array:
    padding, beyond = _paddings(op, data.shape[1:-1])
    inside = np.ones((1, *data.shape[1:-1], 1), data.dtype)
    counted = pad_spatial(inside, padding, 1.0 if count_padding else 0.0)
    counted = pad_spatial(counted, beyond)
    total = sum(_views(op, data))
    views = window_views(counted, op.window, op.stride, op.dilations)
    return np.asarray(total / sum(view for _, view in views))


def average_pool(op: _Means, x: Array) -> list[Array]:
    """AveragePool1D, AveragePool2D, AveragePool3D."""
    mean = _window_mean(op, channels_last(x, op.layout), count_padding=op.count_padding)
    return [activate(in_layout(mean, op.layout), op.activation)]


def l2_pool(op: p.L2Pool2D, x: Array) -> list[Array]:
    """L2Pool2D."""
    squares = np.square(channels_last(x, op.layout))
    root = np.sqrt(_window_mean(op, squares, count_padding=False))
    return [activate(in_layout(root, op.layout), op.activation)]


def lp_pool(op: p.LpPool, x: Array) -> list[Array]:
    """LpPool."""
    powers = np.abs(channels_last(x, op.layout)) ** op.p
    total = np.asarray(sum(_views(op, powers)))
    return [activate(in_layout(total ** (1 / op.p), op.layout), op.activation)]


def global_lp_pool(op: p.GlobalLpPool, x: Array) -> list[Array]:
    """GlobalLpPool."""
    dims = tuple(spatial_dims(x.ndim, op.layout))
    return [np.sum(np.abs(x) ** op.p, dims, keepdims=True) ** (1 / op.p)]


def max_unpool(
    op: p.MaxUnpool, x: Array, indices: Array, shape: Array | None = None
) -> list[Array]:
    """MaxUnpool."""
    sizes: list[int]
    if op.shape is not None:
        sizes = list(op.shape)
    elif shape is not None:
        sizes = flat(shape)
    else:
        sizes = [*x.shape[:2]]
        for i, extent in enumerate(x.shape[2:]):
            full = (extent - 1) * op.stride[i] + op.window[i]
            sizes.append(full - op.padding.before[i] - op.padding.after[i])
    result = np.zeros(int(np.prod(sizes)), x.dtype)
    result[indices.reshape(-1)] = x.reshape(-1)
    return [result.reshape(sizes)]


KERNELS: dict[type[Op], Kernel] = {
    p.MaxPool1D: max_pool,
    p.MaxPool2D: max_pool,
    p.MaxPool3D: max_pool,
    p.MaxPoolIndices: max_pool_indices,
    p.AveragePool1D: average_pool,
    p.AveragePool2D: average_pool,
    p.AveragePool3D: average_pool,
    p.L2Pool2D: l2_pool,
    p.LpPool: lp_pool,
    p.GlobalLpPool: global_lp_pool,
    p.MaxUnpool: max_unpool,
}
