"""Resizing of images, channels-last."""

from __future__ import annotations

from nnconv.decompositions.base import Refused
from nnconv.formats.tflite.exporter import CODES8, FLOAT32, Exporter, Target
from nnconv.formats.tflite.window import require_channels_last
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.resize import ResizeBilinear, ResizeNearest

_PICKED = frozenset({DType.FLOAT16, DType.FLOAT32, DType.INT32})
_PICKED_CODES = CODES8 | {DType.INT16}


def export_resize(node: Node, t: Target) -> None:
    """RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, ResizeBilinear | ResizeNearest)
    bilinear = isinstance(op, ResizeBilinear)
    if bilinear:
        t.require(node, plain=FLOAT32, codes=CODES8, operands=[0])
        if x.quant != y.quant:
            raise Refused("its result has other parameters", types=FLOAT32, operands=(0,))
    else:
        t.require(node, plain=_PICKED, codes=_PICKED_CODES, operands=[0])
    require_channels_last(t, x, op.layout, 4)
    if bilinear and op.align_corners and op.half_pixel:
        raise t.refused("it has both aligned corners and half pixels")
    size = node.optional(1)
    if op.size is not None:
        extents = t.ints(op.size)
    else:
        assert size is not None, "the verifier wants a size"
        extents = t.index(size)
    flags = {"align_corners": op.align_corners, "half_pixel_centers": op.half_pixel}
    version = 2 if x.dtype is DType.INT8 else 1
    if op.half_pixel or (op.align_corners and not bilinear):
        version = 3
    name = "RESIZE_BILINEAR" if bilinear else "RESIZE_NEAREST_NEIGHBOR"
    table = "ResizeBilinearOptions" if bilinear else "ResizeNearestNeighborOptions"
    t.emit(name, [t.tensor(x), extents], y, (table, flags), version=version)


EXPORTERS: dict[type[Op], Exporter] = {
    ResizeBilinear: export_resize,
    ResizeNearest: export_resize,
}
