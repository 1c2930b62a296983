"""Choosing regions of images, which TFLite has no op for."""

from __future__ import annotations

from nnconv.formats.tflite.exporter import FLOAT32, Exporter, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.proposals import LimitedBoxes, Proposals


def export_regions(node: Node, t: Target) -> None:
    """Decomposed in float32, as far as all extents are known."""
    t.require(node, plain=FLOAT32)
    raise t.refused(
        f"TFLite has no {node.op.name}: the numbers of images, regions and classes must be known"
    )


EXPORTERS: dict[type[Op], Exporter] = {
    LimitedBoxes: export_regions,
    Proposals: export_regions,
}
