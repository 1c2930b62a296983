"""Detections."""

from __future__ import annotations

from nnconv.formats.nnrt.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ops.detection import DetectionPostProcess
from nnconv.ops.quantize import Cast


def import_detection_post_process(s: Source) -> None:
    """DETECTION_POST_PROCESS; inputSize and outQuantized say nothing that is computed with."""
    data = s.param("scale")
    if data is None or data.size != 4:
        raise s.fail("parameter scale must have 4 elements, of y, x, height and width")
    y, x, height, width = (float(number) for number in data)
    op = DetectionPostProcess(
        max_detections=s.positive("maxDetections"),
        max_classes=s.positive("maxClassesPerDetection"),
        per_class=max(s.int("detectionsPerClass"), 0),
        regular=s.bool("useRegularNms"),
        score_threshold=s.float("nmsScoreThreshold"),
        iou_threshold=s.float("nmsIoUThreshold"),
        classes=s.positive("numClasses"),
        scales=(y, x, height, width),
    )
    inputs = [_single(s, s.real(s.stored(name))) for name in ("bbox", "scores", "anchors")]
    for index, value in enumerate(s.add_many(op, inputs)):
        dtype = s.result_dtype(index)
        s.bind(index, value if value.dtype is dtype else s.add(Cast(dtype=dtype), [value]))


def _single(s: Source, value: Value) -> Value:
    """Half floats as float32."""
    return value if value.dtype is DType.FLOAT32 else s.add(Cast(dtype=DType.FLOAT32), [value])


IMPORTERS: dict[str, Importer] = {"DETECTION_POST_PROCESS": import_detection_post_process}
