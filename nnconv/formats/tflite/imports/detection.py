"""Choosing boxes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnconv.formats.tflite.importer import Importer, Source
from nnconv.ops.detection import DetectionPostProcess, NonMaxSuppression


def import_non_max_suppression(s: Source) -> None:
    """NON_MAX_SUPPRESSION_V4, V5 (with scores and sigma)."""
    soft = s.op.name.endswith("V5")
    sizes = s.ints(2)
    if sizes is not None and len(sizes) != 1:
        raise s.fail("the number of boxes must have one element")
    limit = sizes[0] if sizes is not None else None
    inputs = [
        s.operand(0),
        s.operand(1),
        None if limit is not None else s.operand(2),
        s.operand(3),
        s.operand(4),
    ]
    if soft:
        inputs.append(s.operand(5))
    s.emit(NonMaxSuppression(limit=limit, with_scores=soft), inputs)


def import_post_process(s: Source) -> None:
    """TFLite_Detection_PostProcess: options are a FlexBuffers map; what lacks is 0 as in LiteRT."""
    from nnconv.formats.tflite.flexbuffer import read_map

    try:
        options = read_map(bytes(s.op.custom_options))
    except ValueError as error:
        raise s.fail(f"its options are broken: {error}") from error

    def number(name: str, default: float = 0) -> float:
        value: Any = options.get(name)
        if value is None:
            return default
        if isinstance(value, str) or not math.isfinite(value):
            raise s.fail(f"option {name} is {value!r}, must be a number")
        return float(value)

    op = DetectionPostProcess(
        max_detections=int(number("max_detections")),
        max_classes=int(number("max_classes_per_detection")),
        per_class=int(number("detections_per_class", 100)),
        regular=bool(number("use_regular_nms")),
        score_threshold=_float32(number("nms_score_threshold")),
        iou_threshold=_float32(number("nms_iou_threshold")),
        classes=int(number("num_classes")),
        scales=(
            _float32(number("y_scale")),
            _float32(number("x_scale")),
            _float32(number("h_scale")),
            _float32(number("w_scale")),
        ),
    )
    _check(s, op)
    s.emit(op, [s.operand(0), s.operand(1), s.operand(2)])


def _float32(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _check(s: Source, op: DetectionPostProcess) -> None:
    """Check the options the way LiteRT does, and that they ask for no endless result."""
    if not 0 < op.iou_threshold <= 1:
        raise s.fail(f"nms_iou_threshold is {op.iou_threshold}, must be above 0 and at most 1")
    for name, value, least in (
        ("max_detections", op.max_detections, 0),
        ("max_classes_per_detection", op.max_classes, 1),
        ("detections_per_class", op.per_class, 1 if op.regular else 0),
        ("num_classes", op.classes, 1),
    ):
        if not least <= value <= _MOST:
            raise s.fail(f"{name} is {value}, must be {least} to {_MOST}")
    if 0 in op.scales or not all(map(math.isfinite, op.scales)):
        raise s.fail(f"a scale of {list(op.scales)} is 0 or infinite")


_MOST = 1 << 20

IMPORTERS: dict[str, Importer] = {
    "NON_MAX_SUPPRESSION_V4": import_non_max_suppression,
    "NON_MAX_SUPPRESSION_V5": import_non_max_suppression,
    "CUSTOM:TFLite_Detection_PostProcess": import_post_process,
}
