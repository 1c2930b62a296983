"""Ops that read images at computed places, which TFLite has none of: in float32, by their parts."""

from __future__ import annotations

from nnconv.errors import Reason
from nnconv.formats.tflite.exporter import FLOAT32, Exporter, Target, export_in_floats
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops import sampling as s


def export_weighted(node: Node, t: Target) -> None:
    """DeformConv: weights and bias in float32 too."""
    operands = [i for i, value in enumerate(node.inputs) if value is not None]
    t.require(node, plain=FLOAT32, operands=operands)
    raise t.refused("TFLite has no DeformConv")


def export_roi_align(node: Node, t: Target) -> None:
    """RoiAlign: of the greatest of points that are as many in all regions, or of their mean."""
    op = node.op
    assert isinstance(op, s.RoiAlign)
    t.require(node, plain=FLOAT32)
    if op.greatest and not op.samples:
        raise t.refused(
            "the greatest of points whose number depends on the regions",
            reason=Reason.IMPOSSIBLE,
            hint="Give it a sampling_ratio.",
        )
    raise t.refused("TFLite has no RoiAlign for images of unknown shape")


EXPORTERS: dict[type[Op], Exporter] = {
    s.GridSample: export_in_floats,
    s.AffineGrid: export_in_floats,
    s.RoiAlign: export_roi_align,
    s.MaxRoiPool: export_in_floats,
    s.DeformConv: export_weighted,
    s.Col2Im: export_in_floats,
}
