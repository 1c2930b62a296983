"""Ops that move, repeat or join elements."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.elementwise import activate
from nnconv.backends.reference.executor import Array, Kernel, flat

from nnconv.ir.op import Op
from nnconv.ops import shape as s


def reshape(op: s.Reshape, x: Array, shape: Array | None = None) -> list[Array]:
    """Reshape."""
    dims = list(op.shape if op.shape is not None else flat(shape))
    if not x.size and -1 in dims and not np.prod([d for d in dims if d >= 0]):
        dims = [max(d, 0) for d in dims]
    return [x.reshape(dims)]


def transpose(op: s.Transpose, x: Array, perm: Array | None = None) -> list[Array]:
    """Transpose."""
    return [x.transpose(op.perm if op.perm is not None else flat(perm))]


def split(op: s.Split, x: Array) -> list[Array]:
    """Split."""
    rest = x.shape[op.axis] - sum(size for size in op.sizes if size >= 0)
    sizes = [rest if size < 0 else size for size in op.sizes]
    return list(np.split(x, np.cumsum(sizes)[:-1], axis=op.axis))


def fill(op: s.Fill, value: Array, shape: Array | None = None) -> list[Array]:
    """Fill."""
    dims = op.shape if op.shape is not None else flat(shape)
    return [np.full(dims, value.reshape(-1)[0], value.dtype)]


def tile(op: s.Tile, x: Array, repeats: Array | None = None) -> list[Array]:
    """Tile."""
    return [np.tile(x, op.repeats if op.repeats is not None else flat(repeats))]


def broadcast_to(op: s.BroadcastTo, x: Array, shape: Array | None = None) -> list[Array]:
    """BroadcastTo."""
    dims = op.shape if op.shape is not None else flat(shape)
    return [np.broadcast_to(x, dims)]


def shape_of(op: s.ShapeOf, x: Array) -> list[Array]:
    """ShapeOf."""
    dims = x.shape if op.dims is None else [x.shape[d] for d in op.dims]
    return [np.asarray(dims, op.dtype.numpy)]


def broadcast_args(op: s.BroadcastArgs, a: Array, b: Array) -> list[Array]:
    """BroadcastArgs."""
    shape = np.broadcast_shapes(tuple(a.tolist()), tuple(b.tolist()))
    return [np.asarray(shape, a.dtype)]


def range_of(op: s.Range, start: Array, limit: Array, step: Array) -> list[Array]:
    """Range: start + i * step, not a running sum."""
    first, last, by = (v.reshape(-1)[0] for v in (start, limit, step))
    if by == 0:
        raise ValueError("a step of 0")
    if np.issubdtype(start.dtype, np.integer):
        return [np.asarray(range(int(first), int(last), int(by)), start.dtype)]
    count = max(int(np.ceil((float(last) - float(first)) / float(by))), 0)
    return [(first + np.arange(count) * by).astype(start.dtype)]


KERNELS: dict[type[Op], Kernel] = {
    s.Identity: lambda op, x: [x],
    s.Reshape: reshape,
    s.Squeeze: lambda op, x: [np.squeeze(x, op.axes)],
    s.Unsqueeze: lambda op, x: [np.expand_dims(x, op.axes)],
    s.Transpose: transpose,
    s.Concat: lambda op, *parts: [activate(np.concatenate(parts, op.axis), op.activation)],
    s.Stack: lambda op, *parts: [np.stack(parts, op.axis)],
    s.Unstack: lambda op, x: list(np.moveaxis(x, op.axis, 0)),
    s.Split: split,
    s.Tile: tile,
    s.BroadcastTo: broadcast_to,
    s.ShapeOf: shape_of,
    s.Rank: lambda op, x: [np.asarray(x.ndim, np.int32)],
    s.Size: lambda op, x: [np.asarray(x.size, np.int64)],
    s.Fill: fill,
    s.BroadcastArgs: broadcast_args,
    s.Range: range_of,
}
