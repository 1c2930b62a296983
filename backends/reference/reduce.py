"""Reductions, running sums, and indices of extremes in numpy's own functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Op
from nnconv.ops import reduce as r


def _axes(given: tuple[int, ...] | None, x: Array, axes: Array | None) -> tuple[int, ...]:
    if given is not None:
        return given
    assert axes is not None
    return tuple(sorted({int(axis) % x.ndim for axis in axes.reshape(-1)} if x.ndim else ()))


def _reduction(function: Callable[..., Array]) -> Kernel:
    def kernel(op: r.Reduction, x: Array, axes: Array | None = None) -> list[Array]:
        chosen = _axes(op.axes, x, axes)
        return [np.asarray(function(x, axis=chosen, keepdims=op.keep_dims))]

    return kernel


def _wide(x: Array) -> type[np.generic] | None:
    """The type to add in: the operand's own for floats, the widest for integers."""
    return None if np.issubdtype(x.dtype, np.floating) else np.int64


def _sum(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    return np.asarray(np.sum(x, axis=axis, keepdims=keepdims, dtype=_wide(x)))


def _prod(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    return np.asarray(np.prod(x, axis=axis, keepdims=keepdims, dtype=_wide(x)))


def _mean(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    total = _sum(x, axis=axis, keepdims=keepdims)
    count = int(np.prod([x.shape[a] for a in axis]))
    if np.issubdtype(x.dtype, np.floating):
        return np.asarray(total / x.dtype.type(count))
    return np.asarray(np.sign(total) * (np.abs(total) // max(count, 1)))


def _extreme(function: Callable[..., Array], *, greatest: bool) -> Callable[..., Array]:
    def reduce(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
        if x.dtype == np.bool_:
            return np.asarray(function(x, axis=axis, keepdims=keepdims))
        limits = np.finfo(x.dtype) if np.issubdtype(x.dtype, np.floating) else np.iinfo(x.dtype)
        start = limits.min if greatest else limits.max
        if all(x.shape[a] for a in axis):
            return np.asarray(function(x, axis=axis, keepdims=keepdims))
        return np.asarray(function(x, axis=axis, keepdims=keepdims, initial=start))

    return reduce


def _index_of(function: Callable[..., Array]) -> Kernel:
    def kernel(op: r.ArgExtreme, x: Array) -> list[Array]:
        return [function(x, axis=op.axis, keepdims=op.keep_dims)]

    return kernel


def cumsum(op: r.CumSum, x: Array, axis: Array | None = None) -> list[Array]:
    """CumSum."""
    along = op.axis if op.axis is not None else int(np.asarray(axis).reshape(-1)[0])
    data = np.flip(x, along) if op.reverse else x
    total = np.cumsum(data, axis=along, dtype=x.dtype)
    if op.exclusive:
        total = total - data
    return [np.flip(total, along) if op.reverse else total]


KERNELS: dict[type[Op], Kernel] = {
    r.ReduceMean: _reduction(_mean),
    r.ReduceSum: _reduction(_sum),
    r.ReduceProd: _reduction(_prod),
    r.ReduceMax: _reduction(_extreme(np.max, greatest=True)),
    r.ReduceMin: _reduction(_extreme(np.min, greatest=False)),
    r.ReduceAny: _reduction(np.any),
    r.ReduceAll: _reduction(np.all),
    r.ArgMax: _index_of(np.argmax),
    r.ArgMin: _index_of(np.argmin),
    r.CumSum: cumsum,
}
