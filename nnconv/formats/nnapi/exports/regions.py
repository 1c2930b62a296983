"""Moving regions of images, and finding points in them."""

from __future__ import annotations

from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.regions import BoxTransform, HeatmapKeypoints


def export_box_transform(node: Node, t: Target) -> None:
    """AXIS_ALIGNED_BBOX_TRANSFORM."""
    inputs = {
        "rois": node.operand(0),
        "deltas": node.operand(1),
        "batches": t.index(node.operand(2)),
        "image_info": node.operand(3),
    }
    t.emit("AXIS_ALIGNED_BBOX_TRANSFORM", inputs, node.outputs)


def export_heatmap_keypoints(node: Node, t: Target) -> None:
    """HEATMAP_MAX_KEYPOINT."""
    op = node.op
    assert isinstance(op, HeatmapKeypoints)
    inputs = {
        "heatmap": node.operand(0),
        "boxes": node.operand(1),
        "nchw": op.points_first,
    }
    t.emit("HEATMAP_MAX_KEYPOINT", inputs, node.outputs)


EXPORTERS: dict[type[Op], Exporter] = {
    BoxTransform: export_box_transform,
    HeatmapKeypoints: export_heatmap_keypoints,
}
