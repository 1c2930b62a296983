"""Resizing by picking rows and columns."""

from __future__ import annotations

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops.gather import Gather
from nnconv.ops.resize import ResizeNearest, nearest_indices
from nnconv.ops.spatial import spatial_dims


def resize_by_gather(node: Node, b: Builder) -> list[Value] | None:
    """ResizeNearest between known extents: a Gather of rows, then of columns."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, ResizeNearest)
    if op.size is None or x.shape is None:
        return None
    extents = x.shape
    for axis, size in zip(spatial_dims(4, op.layout), op.size, strict=True):
        extent = extents[axis]
        if not isinstance(extent, int):
            return None
        indices = nearest_indices(op, extent, size)
        if size != extent or (indices != np.arange(size)).any():
            x = b.add(Gather(axis=axis), [x, b.const(indices.astype(np.int32))])
    return [x]


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {ResizeNearest: (resize_by_gather,)}
