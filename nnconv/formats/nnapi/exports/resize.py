"""Resizing of images, to extents. The width comes before the height."""

from __future__ import annotations

from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.formats.nnapi.window import extents_of
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.resize import ResizeBilinear, ResizeNearest

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
    inputs = {
        "input": x,
        "width": op.size[1],
        "height": op.size[0],
        "nchw": t.nchw(op.layout),
        "align_corners": op.align_corners,
        "half_pixel_centers": op.half_pixel,
    }
    t.emit(NAMES[type(op)], inputs, node.outputs[0])


EXPORTERS: dict[type[Op], Exporter] = dict.fromkeys(NAMES, export_resize)
