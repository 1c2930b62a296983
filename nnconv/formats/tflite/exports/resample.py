"""Resizing along any dimensions, which TFLite has none of: by its parts."""

from __future__ import annotations

from nnconv.formats.tflite.exporter import FLOAT32, Exporter, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.resample import Resample, ResampleNearest


def export_resample(node: Node, t: Target) -> None:
    """Resample in float32; ResampleNearest as it is."""
    x = node.operand(0)
    if isinstance(node.op, ResampleNearest):
        raise t.refused("it picks elements, which others do for it")
    if x.type.has_codes or x.dtype.is_float:
        t.require(node, plain=FLOAT32, operands=[0])
    raise t.refused("TFLite resizes images alone, in a few ways")


EXPORTERS: dict[type[Op], Exporter] = {
    Resample: export_resample,
    ResampleNearest: export_resample,
}
