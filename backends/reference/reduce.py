"""Reductions, running sums, and indices of extremes in numpy's own functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Op
from nnconv.ir.types import normalize_axis
from nnconv.ops import reduce as r


def _axes(op: r.Reduction, x: Array, axes: Array | None) -> tuple[int, ...]:
    if op.axes is not None:
        return op.axes
    assert axes is not None
    if not axes.size and op.all_if_empty:
        return tuple(range(x.ndim))
    found = {normalize_axis(int(axis), x.ndim) for axis in axes.reshape(-1)} if x.ndim else ()
    return tuple(sorted(found))


def _reduction(function: Callable[..., Array]) -> Kernel:
    def kernel(op: r.Reduction, x: Array, axes: Array | None = None) -> list[Array]:
        chosen = _axes(op, x, axes)
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
            any_or_all = np.any if greatest else np.all
            return np.asarray(any_or_all(x, axis=axis, keepdims=keepdims))
        if all(x.shape[a] for a in axis):
            return np.asarray(function(x, axis=axis, keepdims=keepdims))
        if np.issubdtype(x.dtype, np.floating):
            start = -np.inf if greatest else np.inf
        else:
            start = np.iinfo(x.dtype).min if greatest else np.iinfo(x.dtype).max
        return np.asarray(function(x, axis=axis, keepdims=keepdims, initial=start))

    return reduce


def _real(x: Array) -> Array:
    """Floats as they are, integers as float64."""
    return x if np.issubdtype(x.dtype, np.floating) else x.astype(np.float64)


def _l1(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    return _sum(np.abs(x), axis=axis, keepdims=keepdims)


def _sum_square(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    return _sum(np.square(x, dtype=_wide(x)), axis=axis, keepdims=keepdims)


def _l2(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    return np.asarray(np.sqrt(_sum_square(_real(x), axis=axis, keepdims=keepdims)))


def _log_sum(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    return np.asarray(np.log(_sum(_real(x), axis=axis, keepdims=keepdims)))


def _log_sum_exp(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    wide = _real(x)
    greatest = np.max(wide, axis=axis, keepdims=True, initial=-np.inf)
    offset = np.where(np.isfinite(greatest), greatest, 0)
    total = _sum(np.exp(wide - offset), axis=axis, keepdims=True)
    result = np.log(total) + offset
    return np.asarray(result if keepdims else np.squeeze(result, axis))


def _index_of(function: Callable[..., Array]) -> Kernel:
    def kernel(op: r.ArgExtreme, x: Array) -> list[Array]:
        if not op.last:
            return [function(x, axis=op.axis, keepdims=op.keep_dims)]
        behind = function(np.flip(x, op.axis), axis=op.axis, keepdims=op.keep_dims)
        return [x.shape[op.axis] - 1 - behind]

    return kernel


def cumsum(op: r.CumSum, x: Array, axis: Array | None = None) -> list[Array]:
    """CumSum."""
    along = op.axis if op.axis is not None else int(np.asarray(axis).reshape(-1)[0])
    data = np.flip(x, along) if op.reverse else x
    total = np.cumsum(data, axis=along, dtype=x.dtype)
    if op.exclusive:
        total = total - data
    return [np.flip(total, along) if op.reverse else total]


def cumprod(op: r.CumProd, x: Array, axis: Array | None = None) -> list[Array]:
    """CumProd."""
    along = op.axis if op.axis is not None else int(np.asarray(axis).reshape(-1)[0])
    data = np.flip(x, along) if op.reverse else x
    if op.exclusive:
        first = np.ones_like(np.take(data, [0][: data.shape[along]], along))
        data = np.concatenate([first, np.take(data, range(data.shape[along] - 1), along)], along)
    total = np.cumprod(data, axis=along, dtype=x.dtype)
    return [np.flip(total, along) if op.reverse else total]


KERNELS: dict[type[Op], Kernel] = {
    r.ReduceMean: _reduction(_mean),
    r.ReduceSum: _reduction(_sum),
    r.ReduceProd: _reduction(_prod),
    r.ReduceMax: _reduction(_extreme(np.max, greatest=True)),
    r.ReduceMin: _reduction(_extreme(np.min, greatest=False)),
    r.ReduceL1: _reduction(_l1),
    r.ReduceL2: _reduction(_l2),
    r.ReduceSumSquare: _reduction(_sum_square),
    r.ReduceLogSum: _reduction(_log_sum),
    r.ReduceLogSumExp: _reduction(_log_sum_exp),
    r.ReduceAny: _reduction(np.any),
    r.ReduceAll: _reduction(np.all),
    r.ArgMax: _index_of(np.argmax),
    r.ArgMin: _index_of(np.argmin),
    r.CumSum: cumsum,
    r.CumProd: cumprod,
}
