"""Resizing of images, to extents. The width comes before the height."""

from __future__ import annotations

import numpy as np

from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.formats.nnapi.window import extents_of
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType
from nnconv.ops.resize import (
    ResizeBilinear,
    ResizeNearest,
    nearest_indices,
    source_places,
)
from nnconv.ops.spatial import spatial_dims

NAMES: dict[type[Op], str] = {
    ResizeBilinear: "RESIZE_BILINEAR",
    ResizeNearest: "RESIZE_NEAREST_NEIGHBOR",
}


def export_resize(node: Node, t: Target) -> None:
    """RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, ResizeBilinear | ResizeNearest)
    extents_of(t, x, op.layout)
    if op.size is None:
        raise t.refused("its size is computed at run time")
    known = 1 if t.level >= _PLACES else 0
    if op.align_corners + op.half_pixel > known:
        _resize_by_gather(node, t, op, op.size)
        return
    inputs = {
        "input": x,
        "width": op.size[1],
        "height": op.size[0],
        "nchw": t.nchw(op.layout),
        "align_corners": op.align_corners,
        "half_pixel_centers": op.half_pixel,
    }
    t.emit(NAMES[type(op)], inputs, node.outputs[0])


_PLACES = 4
"""The feature level that knows other places than those of corners, one kind or the other."""


def _resize_by_gather(
    node: Node, t: Target, op: ResizeBilinear | ResizeNearest, size: tuple[int, int]
) -> None:
    """A GATHER along each dimension, or two of which each gets its share."""
    x, y = node.operand(0), node.outputs[0]
    if isinstance(op, ResizeBilinear):
        t.require(node, plain=t.types_of("MUL"), operands=(0,))
    shape = list(t.static(x))
    source = t.operand(x)
    dims = list(spatial_dims(4, op.layout))
    for number, (dim, wanted) in enumerate(zip(dims, size, strict=True)):
        extent, shape[dim] = shape[dim], wanted
        kind = TensorType(x.dtype, tuple(shape), x.quant)
        last = number == len(dims) - 1
        if isinstance(op, ResizeNearest):
            places = t.const(nearest_indices(op, extent, wanted).astype(np.int32))
            inputs = {"input": source, "axis": dim, "indices": places}
            if last:
                t.emit("GATHER", inputs, y)
            else:
                source = t.result("GATHER", inputs, kind)
            continue
        reads = np.clip(source_places(op, extent, wanted), 0, extent - 1)
        lower = np.floor(reads).astype(np.int32)
        share = (reads - lower).reshape([-1 if i == dim else 1 for i in range(4)])
        halves = []
        for places, part in ((lower, 1 - share), (np.minimum(lower + 1, extent - 1), share)):
            inputs = {"input": source, "axis": dim, "indices": t.const(places.astype(np.int32))}
            row = t.result("GATHER", inputs, kind)
            weight = t.const(part.astype(x.dtype.numpy))
            product = {"input0": row, "input1": weight, "activation": 0}
            halves.append(t.result("MUL", product, kind))
        both = {"input0": halves[0], "input1": halves[1], "activation": 0}
        if last:
            t.emit("ADD", both, y)
        else:
            source = t.result("ADD", both, kind)


EXPORTERS: dict[type[Op], Exporter] = dict.fromkeys(NAMES, export_resize)
