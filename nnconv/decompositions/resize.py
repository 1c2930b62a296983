"""Resizing by picking rows and columns, or by repeating pixels."""

from __future__ import annotations

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Layout, Op
from nnconv.ops.blocks import DepthToSpace
from nnconv.ops.gather import Gather
from nnconv.ops.resize import ResizeNearest, nearest_indices
from nnconv.ops.rewrite import factors_of
from nnconv.ops.shape import Concat
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


def repeat_pixels(node: Node, b: Builder) -> list[Value] | None:
    """ResizeNearest of open extents to so many times these: DepthToSpace of equal channels."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, ResizeNearest)
    size = node.optional(1)
    if size is None or op.layout is not Layout.NHWC or op.align_corners or op.half_pixel:
        return None
    factors = factors_of(size, x, spatial_dims(4, op.layout))
    if factors is None or factors[0] != factors[1] or factors[0] < 1:
        return None
    copies = b.add(Concat(axis=3), [x] * factors[0] ** 2, quant=x.quant)
    return [b.add(DepthToSpace(block=factors[0]), [copies], quant=x.quant)]


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    ResizeNearest: (resize_by_gather, repeat_pixels)
}
