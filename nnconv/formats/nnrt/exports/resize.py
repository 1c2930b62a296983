"""Resizing of images."""

from __future__ import annotations

from nnconv.formats.nnrt.exporter import Exporter, Target
from nnconv.formats.nnrt.window import extents_of
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.resize import ResizeBilinear

ASYMMETRIC, ALIGN_CORNERS, HALF_PIXEL = range(3)


def export_resize_bilinear(node: Node, t: Target) -> None:
    """RESIZE_BILINEAR."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, ResizeBilinear)
    extents_of(t, x, op.layout)
    if op.size is None:
        raise t.refused("the size is computed at run time")
    mode = ALIGN_CORNERS if op.align_corners else HALF_PIXEL if op.half_pixel else ASYMMETRIC
    params = {"newHeight": op.size[0], "newWidth": op.size[1], "coordinateTransformMode": mode}
    t.emit("RESIZE_BILINEAR", {"input": x}, node.outputs, params)


EXPORTERS: dict[type[Op], Exporter] = {ResizeBilinear: export_resize_bilinear}
