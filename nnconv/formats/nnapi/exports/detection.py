"""The detector's last step."""

from __future__ import annotations

from nnconv.errors import plural
from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType
from nnconv.ops.detection import DetectionPostProcess


def export_detection_postprocess(node: Node, t: Target) -> None:
    """DETECTION_POSTPROCESSING, whose classes and number of detections are int32."""
    op = node.op
    assert isinstance(op, DetectionPostProcess)
    encodings, scores, anchors = map(node.operand, range(3))
    if (t.static(scores) or (0,))[-1] != op.classes + 1:
        raise t.refused("DETECTION_POSTPROCESSING takes the first class for the background")
    if op.per_class <= 0 and op.regular:
        raise t.refused(f"{plural(op.per_class, 'detection')} for each class")
    boxes, classes, found, count = node.outputs
    m = op.max_detections * op.max_classes
    whole = [t.temp(TensorType(DType.INT32, shape)) for shape in ((1, m), (1,))]
    for value in (found, boxes):
        t.declare(value)
    scale_y, scale_x, scale_h, scale_w = op.scales
    operands = {
        "scores": scores,
        "deltas": encodings,
        "anchors": anchors,
        "scale_y": scale_y,
        "scale_x": scale_x,
        "scale_h": scale_h,
        "scale_w": scale_w,
        "use_regular_nms": op.regular,
        "max_detections": op.max_detections,
        "max_classes_per_detection": op.max_classes,
        "max_detections_per_class": op.per_class,
        "score_threshold": op.score_threshold,
        "iou_threshold": op.iou_threshold,
        "background_in_label": False,
    }
    t.operation("DETECTION_POSTPROCESSING", operands, [t.operand(found), t.operand(boxes), *whole])
    for ref, value in zip(whole, (classes, count), strict=True):
        t.emit("CAST", {"input": ref}, value)


EXPORTERS: dict[type[Op], Exporter] = {DetectionPostProcess: export_detection_postprocess}
