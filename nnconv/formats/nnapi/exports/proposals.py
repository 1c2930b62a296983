"""Choosing regions of images."""

from __future__ import annotations

from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.proposals import Decay, LimitedBoxes, Proposals

DECAYS = (Decay.HARD, Decay.LINEAR, Decay.GAUSSIAN)


def export_limited_boxes(node: Node, t: Target) -> None:
    """BOX_WITH_NMS_LIMIT."""
    op = node.op
    assert isinstance(op, LimitedBoxes)
    inputs = {
        "scores": node.operand(0),
        "rois": node.operand(1),
        "batches": t.index(node.operand(2)),
        "score_threshold": op.score_threshold,
        "max_detections": op.limit,
        "nms_kernel": DECAYS.index(op.decay),
        "iou_threshold": op.iou_threshold,
        "sigma": op.sigma,
        "nms_score_threshold": op.least_score,
    }
    t.emit("BOX_WITH_NMS_LIMIT", inputs, node.outputs)


def export_proposals(node: Node, t: Target) -> None:
    """GENERATE_PROPOSALS."""
    op = node.op
    assert isinstance(op, Proposals)
    inputs = {
        "scores": node.operand(0),
        "deltas": node.operand(1),
        "anchors": node.operand(2),
        "image_info": node.operand(3),
        "height_stride": op.stride[0],
        "width_stride": op.stride[1],
        "pre_nms_limit": op.before,
        "post_nms_limit": op.after,
        "iou_threshold": op.iou_threshold,
        "min_size": op.least_size,
        "nchw": False,
    }
    t.emit("GENERATE_PROPOSALS", inputs, node.outputs)


EXPORTERS: dict[type[Op], Exporter] = {
    LimitedBoxes: export_limited_boxes,
    Proposals: export_proposals,
}
