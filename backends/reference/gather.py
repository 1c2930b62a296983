"""Picking elements by index, and putting them at indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.dtype import DType
from nnconv.ir.op import Op
from nnconv.ops import gather as g

COMBINE: dict[g.Reduction, Callable[[Array, Array], Any]] = {
    g.Reduction.ADD: np.add,
    g.Reduction.MUL: np.multiply,
    g.Reduction.MIN: np.minimum,
    g.Reduction.MAX: np.maximum,
    g.Reduction.AND: np.logical_and,
    g.Reduction.OR: np.logical_or,
}


def gather(op: g.Gather, x: Array, indices: Array) -> list[Array]:
    """Gather."""
    picked = indices.astype(np.int64)
    if not op.batch_dims:
        return [np.take(x, picked, axis=op.axis)]
    batch = x.shape[: op.batch_dims]
    inner = op.axis - op.batch_dims
    slices = [np.take(x[i], picked[i], axis=inner) for i in np.ndindex(*batch)]
    tail = (*x.shape[len(batch) : op.axis], *indices.shape[len(batch) :], *x.shape[op.axis + 1 :])
    return [np.array(slices, x.dtype).reshape((*batch, *tail))]


def gather_nd(op: g.GatherNd, x: Array, indices: Array) -> list[Array]:
    """GatherNd."""
    picked = indices.astype(np.int64)
    if not op.batch_dims:
        return [x[tuple(np.moveaxis(picked, -1, 0))]]
    batch = x.shape[: op.batch_dims]
    slices = [x[i][tuple(np.moveaxis(picked[i], -1, 0))] for i in np.ndindex(*batch)]
    tail = (*indices.shape[len(batch) : -1], *x.shape[len(batch) + indices.shape[-1] :])
    return [np.array(slices, x.dtype).reshape((*batch, *tail))]


def scatter_nd(op: g.ScatterNd, x: Array, indices: Array, updates: Array) -> list[Array]:
    """ScatterNd."""
    result = x.copy()
    _put(op.reduction, result, tuple(np.moveaxis(indices.astype(np.int64), -1, 0)), updates)
    return [result]


def gather_elements(op: g.GatherElements, x: Array, indices: Array) -> list[Array]:
    """GatherElements."""
    return [x[_along(indices, op.axis)]]


def _along(indices: Array, axis: int) -> tuple[Array, ...]:
    """The places that indices along an axis name."""
    grid: list[Array] = list(np.indices(indices.shape, sparse=True))
    grid[axis] = indices.astype(np.int64)
    return tuple(grid)


def scatter_elements(
    op: g.ScatterElements, x: Array, indices: Array, updates: Array
) -> list[Array]:
    """ScatterElements."""
    result = x.copy()
    _put(op.reduction, result, _along(indices, op.axis), updates)
    return [result]


def _put(reduction: g.Reduction, result: Array, places: tuple[Array, ...], updates: Array) -> None:
    if reduction is g.Reduction.NONE:
        result[places] = updates
    else:
        function: Any = COMBINE[reduction]
        function.at(result, places, updates)


def tensor_scatter(
    op: g.TensorScatter, x: Array, update: Array, starts: Array | None = None
) -> list[Array]:
    """TensorScatter."""
    result = x.copy()
    grid: list[Array] = list(np.indices(update.shape, sparse=True))
    if starts is not None:
        first = starts.astype(np.int64).reshape(-1, *[1] * (x.ndim - 1))
        grid[op.axis] = grid[op.axis] + first
    if op.circular:
        grid[op.axis] = grid[op.axis] % x.shape[op.axis]
    result[tuple(grid)] = update
    return [result]


def compress(op: g.Compress, x: Array, condition: Array) -> list[Array]:
    """Compress."""
    return [np.compress(condition, x, op.axis)]


def one_hot(
    op: g.OneHot, indices: Array, on: Array, off: Array, depth: Array | None = None
) -> list[Array]:
    """OneHot."""
    count = op.depth if depth is None else int(depth.reshape(()))
    assert count is not None
    places = np.arange(count).reshape(-1, *[1] * (indices.ndim - op.axis))
    if op.from_end:
        indices = indices.astype(np.int64)
        indices = np.where(indices < 0, indices + count, indices)
    hit = np.expand_dims(indices, op.axis) == places
    return [np.where(hit, on.reshape(()), off.reshape(())).astype(on.dtype)]


def top_k(op: g.TopK, x: Array, k: Array | None = None) -> list[Array]:
    """TopK: a stable sort, of what is sorted backwards for the order of equals; NaN comes last."""
    count = op.k if k is None else int(k.reshape(()))
    assert count is not None
    lowest = np.where(np.isnan(x), -np.inf, x) if DType.of(x).is_float else x
    backward = op.largest != op.last_first
    if backward:
        lowest = np.flip(lowest, op.axis)
    order = np.argsort(lowest, axis=op.axis, kind="stable")
    if backward:
        order = x.shape[op.axis] - 1 - order
    if op.largest:
        order = np.flip(order, op.axis)
    indices = np.take(order, np.arange(count), axis=op.axis)
    return [np.take_along_axis(x, indices, op.axis), indices]


def non_zero(op: g.NonZero, x: Array) -> list[Array]:
    """NonZero."""
    found = np.argwhere(x)
    return [np.ascontiguousarray(found.T) if op.by_axis else found]


def unique(op: g.Unique, x: Array) -> list[Array]:
    """Unique: numpy gives the values in rising order."""
    values, first, places = np.unique(x, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    return [values[order], np.argsort(order, kind="stable")[places.reshape(-1)]]


def unique_slices(op: g.UniqueSlices, x: Array) -> list[Array]:
    """UniqueSlices."""
    values, first, places, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=op.axis
    )
    places = places.reshape(-1)
    if not op.sorted:
        order = np.argsort(first, kind="stable")
        values = np.take(values, order, axis=op.axis or 0)
        first, counts = first[order], counts[order]
        places = np.argsort(order, kind="stable")[places]
    return [values, *(a.astype(np.int64) for a in (first, places, counts))]


KERNELS: dict[type[Op], Kernel] = {
    g.Gather: gather,
    g.GatherNd: gather_nd,
    g.ScatterNd: scatter_nd,
    g.OneHot: one_hot,
    g.TopK: top_k,
    g.NonZero: non_zero,
    g.Unique: unique,
    g.GatherElements: gather_elements,
    g.ScatterElements: scatter_elements,
    g.TensorScatter: tensor_scatter,
    g.Compress: compress,
    g.UniqueSlices: unique_slices,
}
