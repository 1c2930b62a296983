"""Ops of which a run decides what elsewhere an attribute would."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel, flat

from nnconv.ir.op import Op
from nnconv.ops import dynamic as d


def reshape(op: d.DynamicReshape, x: Array, shape: Array) -> list[Array]:
    """DynamicReshape."""
    dims = [x.shape[i] if op.keeps and n == 0 else n for i, n in enumerate(flat(shape))]
    return [x.reshape(dims)]


def squeeze(op: d.DynamicSqueeze, x: Array, axes: Array | None = None) -> list[Array]:
    """DynamicSqueeze."""
    return [np.squeeze(x, None if axes is None else tuple(flat(axes)))]


def unsqueeze(op: d.DynamicUnsqueeze, x: Array, axes: Array) -> list[Array]:
    """DynamicUnsqueeze."""
    return [np.expand_dims(x, tuple(flat(axes)))]


def expand(op: d.Expand, x: Array, shape: Array) -> list[Array]:
    """Expand."""
    return [np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(flat(shape))))]


def split(op: d.DynamicSplit, x: Array, sizes: Array | None = None) -> list[Array]:
    """DynamicSplit."""
    extent = x.shape[op.axis]
    if sizes is None:
        part = -(-extent // op.count)
        parts = [min(part, max(extent - part * i, 0)) for i in range(op.count)]
    else:
        parts = list(flat(sizes))
    if sum(parts) != extent or len(parts) != op.count or min(parts, default=0) < 0:
        raise ValueError(f"parts {parts} don't make up extent {extent}")
    return list(np.split(x, np.cumsum(parts)[:-1], axis=op.axis))


def cut(
    op: d.DynamicSlice,
    x: Array,
    starts: Array,
    ends: Array,
    axes: Array | None = None,
    steps: Array | None = None,
) -> list[Array]:
    """DynamicSlice."""
    found = d.static_slice(
        x.ndim,
        tuple(flat(starts)),
        tuple(flat(ends)),
        None if axes is None else tuple(flat(axes)),
        None if steps is None else tuple(flat(steps)),
    )
    if found is None:
        raise ValueError(f"bounds {starts}, {ends}, {axes}, {steps} don't fit rank {x.ndim}")
    assert found.starts is not None
    assert found.ends is not None
    assert found.strides is not None
    bounds = zip(found.starts, found.ends, found.strides, strict=True)
    return [x[tuple(slice(*each) for each in bounds)]]


KERNELS: dict[type[Op], Kernel] = {
    d.DynamicReshape: reshape,
    d.DynamicSqueeze: squeeze,
    d.DynamicUnsqueeze: unsqueeze,
    d.Expand: expand,
    d.DynamicSplit: split,
    d.DynamicSlice: cut,
}
