"""Choosing boxes."""

from __future__ import annotations

import numpy as np

from nnconv.errors import plural
from nnconv.formats.tflite.exporter import FLOAT32, Exporter, Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType
from nnconv.ops.detection import (
    MOST_ROWS,
    DetectionPostProcess,
    NonMaxSuppression,
    SelectBoxes,
)


def export_non_max_suppression(node: Node, t: Target) -> None:
    """NON_MAX_SUPPRESSION_V4; V5 where scores are asked for or weakened."""
    op = node.op
    assert isinstance(op, NonMaxSuppression)
    boxes, scores, limit, iou, lowest, sigma = node.operands()
    t.require(node, plain=FLOAT32, operands=(0, 1, 3, 4))
    inputs = [t.tensor(boxes), t.tensor(scores)]
    if op.limit is not None:
        inputs.append(t.scalar(op.limit))
    else:
        assert limit is not None, "the verifier wants a limit"
        inputs.append(t.index(limit))
    inputs += [t.tensor(iou), t.tensor(lowest)]
    if not op.with_scores and sigma is None:
        outputs = [t.declare(v) for v in node.outputs]
        t.operator("NON_MAX_SUPPRESSION_V4", inputs, outputs, ("NonMaxSuppressionV4Options", {}))
        return
    inputs.append(t.const(np.zeros((), np.float32)) if sigma is None else t.tensor(sigma))
    outputs = [t.declare(v) for v in node.outputs]
    if not op.with_scores:
        outputs.insert(1, t.temp(TensorType(DType.FLOAT32, (op.limit,))))
    t.operator("NON_MAX_SUPPRESSION_V5", inputs, outputs, ("NonMaxSuppressionV5Options", {}))


def export_select_boxes(node: Node, t: Target) -> None:
    """One NON_MAX_SUPPRESSION for each class of each picture."""
    t.require(node, plain=FLOAT32, operands=[i for i in (0, 1, 3, 4) if i < len(node.inputs)])
    raise t.refused(
        "TFLite takes the boxes of one class; of more the ranks of boxes and scores must be known"
    )


def export_post_process(node: Node, t: Target) -> None:
    """TFLite_Detection_PostProcess, the custom op."""
    from nnconv.formats.tflite.flexbuffer import write_map

    op = node.op
    assert isinstance(op, DetectionPostProcess)
    y, x, h, w = op.scales
    options = write_map(
        {
            "max_detections": op.max_detections,
            "max_classes_per_detection": op.max_classes,
            "detections_per_class": op.per_class,
            "use_regular_nms": op.regular,
            "nms_score_threshold": op.score_threshold,
            "nms_iou_threshold": op.iou_threshold,
            "num_classes": op.classes,
            "y_scale": y,
            "x_scale": x,
            "h_scale": h,
            "w_scale": w,
        }
    )
    inputs = [t.tensor(v) for v in node.inputs]
    *rows, count = node.outputs
    if op.regular or node.origin.format == "tflite":
        outputs = [t.declare(v) for v in (*rows, count)]
        t.operator("TFLite_Detection_PostProcess", inputs, outputs, custom_options=options)
        return
    if op.max_detections * op.max_classes > MOST_ROWS:
        raise t.refused(
            f"{plural(op.max_detections, 'detection')} of "
            f"{plural(op.max_classes, 'class', 'classes')}"
        )
    found = [t.temp(v.type) for v in rows]
    number = t.declare(count)
    t.operator("TFLite_Detection_PostProcess", inputs, [*found, number], custom_options=options)
    zero = t.const(np.zeros((), np.float32))
    for value, tensor in zip(rows, found, strict=True):  # LiteRT leaves old content where none is
        ends = (1,) * (len(value.shape or ()) - 2)
        places = t.const(op.places.reshape(1, -1, *ends))
        used = TensorType(DType.BOOL, (1, len(op.places), *ends))
        t.emit("SELECT_V2", [t.result("LESS", [places, number], used), tensor, zero], value)


EXPORTERS: dict[type[Op], Exporter] = {
    NonMaxSuppression: export_non_max_suppression,
    SelectBoxes: export_select_boxes,
    DetectionPostProcess: export_post_process,
}
