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
    """RoiAlign: its points must be of a number that is known."""
    op = node.op
    assert isinstance(op, s.RoiAlign)
    t.require(node, plain=FLOAT32)
    if not op.samples:
        raise t.refused(
            "how many points a bin has depends on the regions",
            reason=Reason.IMPOSSIBLE,
            hint="Give it a sampling_ratio.",
        )
    if not op.is_square:
        raise t.refused(f"{op.samples} points along the height, {op.across} along the width")
    raise t.refused("TFLite has no RoiAlign")


EXPORTERS: dict[type[Op], Exporter] = {
    s.GridSample: export_in_floats,
    s.AffineGrid: export_in_floats,
    s.RoiAlign: export_roi_align,
    s.MaxRoiPool: export_in_floats,
    s.DeformConv: export_weighted,
    s.Col2Im: export_in_floats,
}
