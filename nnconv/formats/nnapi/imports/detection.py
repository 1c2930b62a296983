"""The detector's last step; it computes in float32."""

from __future__ import annotations

from nnconv.errors import plural
from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.types import static_shape
from nnconv.ops.detection import MOST_ROWS, DetectionPostProcess
from nnconv.ops.elementwise import Add, Less
from nnconv.ops.quantize import Cast, Dequantize, Quantize
from nnconv.ops.shape import Concat
from nnconv.ops.slices import Slice


def _real(s: Source, name: str) -> Value:
    """An operand as float32."""
    value = s.operand(name)
    if value.quant is not None:
        return s.add(Dequantize(dtype=DType.FLOAT32), [value])
    if value.dtype is DType.FLOAT32:
        return value
    return s.add(Cast(dtype=DType.FLOAT32), [value])


def _give(s: Source, index: int, value: Value) -> None:
    """Let a float32 value be a result, in the result's type."""
    kind = s.scope.stated(s.outputs[index])
    quant = s.result_quant(index)
    if quant is not None:
        value = s.add(Quantize(dtype=kind.dtype), [value], quant=quant, dtype=kind.dtype)
    elif kind.dtype is not DType.FLOAT32:
        value = s.add(Cast(dtype=kind.dtype), [value])
    s.bind(index, value)


def import_detection_postprocessing(s: Source) -> None:
    """DETECTION_POSTPROCESSING: image by image; the first class is the background."""
    scores, deltas, anchors = (_real(s, name) for name in ("scores", "deltas", "anchors"))
    shape = static_shape(scores.shape)
    if shape is None or len(shape) != 3:
        raise s.unsupported("the extents of the scores aren't known")
    regular, most = s.bool("use_regular_nms"), s.positive("max_detections")
    classes = 1 if regular else s.positive("max_classes_per_detection")
    op = DetectionPostProcess(
        max_detections=most,
        max_classes=classes,
        per_class=s.int("max_detections_per_class"),
        regular=regular,
        score_threshold=s.float("score_threshold"),
        iou_threshold=s.float("iou_threshold"),
        classes=shape[2] - 1,
        scales=(s.float("scale_y"), s.float("scale_x"), s.float("scale_h"), s.float("scale_w")),
    )
    if shape[2] < 2 or min(op.scales) <= 0:
        raise s.fail(f"{plural(shape[2], 'class', 'classes')} and scales {list(op.scales)}")
    if most * classes > MOST_ROWS:
        raise s.unsupported(f"{plural(most, 'detection')} of {plural(classes, 'class', 'classes')}")
    rows: list[list[Value]] = [[], [], [], []]
    for image in range(shape[0]):
        parts = [_image(s, value, image) for value in (deltas, scores)]
        boxes, labels, found, count = s.add_many(op, [*parts, anchors])
        if s.bool("background_in_label"):
            used = s.add(Less(), [s.const(op.places.reshape(1, -1)), count])
            labels = s.add(Add(), [labels, s.add(Cast(dtype=DType.FLOAT32), [used])])
        for row, value in zip(rows, (found, boxes, labels, count), strict=True):
            row.append(value)
    joined = [row[0] if len(row) == 1 else s.add(Concat(axis=0), row) for row in rows]
    for index in (0, 1):
        _give(s, index, joined[index])
    for index in (2, 3):
        s.bind(index, s.add(Cast(dtype=DType.INT32), [joined[index]]))


def _image(s: Source, value: Value, index: int) -> Value:
    op = Slice(starts=(index, None, None), ends=(index + 1, None, None), strides=(1, 1, 1))
    return s.add(op, [value])


IMPORTERS: dict[str, Importer] = {
    "DETECTION_POSTPROCESSING": import_detection_postprocessing,
}
