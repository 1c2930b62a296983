"""Pooling by its definition: what meets each place of the window, one after the other."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.conv import (
    channels_last,
    in_layout,
    pad_spatial,
    resolve,
    window_views,
)
from nnconv.backends.reference.elementwise import activate
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Op
from nnconv.ops.pool import AveragePool2D, L2Pool2D, MaxPool2D


def max_pool(op: MaxPool2D, x: Array) -> list[Array]:
    """MaxPool2D."""
    data = channels_last(x, op.layout)
    ones = (1,) * len(op.window)
    padding = resolve(op.padding, data.shape[1:-1], op.window, op.stride, ones)
    lowest = -np.inf if np.issubdtype(data.dtype, np.floating) else np.iinfo(data.dtype).min
    data = pad_spatial(data, padding, lowest)
    views = [view for _, view in window_views(data, op.window, op.stride, ones)]
    result = views[0]
    for view in views[1:]:
        result = np.maximum(result, view)
    return [activate(in_layout(result, op.layout), op.activation)]


def _window_mean(op: AveragePool2D | L2Pool2D, data: Array, *, count_padding: bool) -> Array:
    ones = (1,) * len(op.window)
    padding = resolve(op.padding, data.shape[1:-1], op.window, op.stride, ones)
    inside = np.ones((1, *data.shape[1:-1], 1), data.dtype)
    counted = pad_spatial(inside, padding, 1.0 if count_padding else 0.0)
    total = sum(v for _, v in window_views(pad_spatial(data, padding), op.window, op.stride, ones))
    count = sum(v for _, v in window_views(counted, op.window, op.stride, ones))
    return np.asarray(total / count)


def average_pool(op: AveragePool2D, x: Array) -> list[Array]:
    """AveragePool2D."""
    mean = _window_mean(op, channels_last(x, op.layout), count_padding=op.count_padding)
    return [activate(in_layout(mean, op.layout), op.activation)]


def l2_pool(op: L2Pool2D, x: Array) -> list[Array]:
    """L2Pool2D."""
    squares = np.square(channels_last(x, op.layout))
    root = np.sqrt(_window_mean(op, squares, count_padding=False))
    return [activate(in_layout(root, op.layout), op.activation)]


KERNELS: dict[type[Op], Kernel] = {
    MaxPool2D: max_pool,
    AveragePool2D: average_pool,
    L2Pool2D: l2_pool,
}
