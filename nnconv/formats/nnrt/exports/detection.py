"""Choosing detections."""

from __future__ import annotations

from nnconv.errors import plural
from nnconv.formats.nnrt.exporter import Exporter, Input, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.detection import DetectionPostProcess


def export_detection_post_process(node: Node, t: Target) -> None:
    """DETECTION_POST_PROCESS."""
    op = node.op
    assert isinstance(op, DetectionPostProcess)
    boxes = t.static(node.operand(0))
    if boxes[2] != 4:
        raise t.refused(f"it has {plural(boxes[2], 'coordinate')} of boxes, of which 4 count")
    inputs: dict[str, Input] = {
        "bbox": node.operand(0), "scores": node.operand(1), "anchors": node.operand(2),
    }  # fmt: skip
    if any(node.operand(i).type.has_codes for i in range(3)):
        raise t.to_floats("detections are floats")
    params = {
        "scale": list(op.scales),
        "nmsIoUThreshold": op.iou_threshold,
        "nmsScoreThreshold": op.score_threshold,
        "maxDetections": op.max_detections,
        "detectionsPerClass": op.per_class,
        "maxClassesPerDetection": op.max_classes,
        "numClasses": op.classes,
        "useRegularNms": op.regular,
    }
    t.emit("DETECTION_POST_PROCESS", inputs, node.outputs, params)


EXPORTERS: dict[type[Op], Exporter] = {DetectionPostProcess: export_detection_post_process}
