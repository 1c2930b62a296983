"""Decoding boxes and keypoints, spelled in simpler ops; they compute in float32."""

from __future__ import annotations

import numpy as np

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.op import Layout, Op
from nnconv.ir.types import static_shape
from nnconv.ops import elementwise as e
from nnconv.ops.detection import DetectionPostProcess
from nnconv.ops.gather import Gather, GatherElements
from nnconv.ops.quantize import Cast, Dequantize, Quantize
from nnconv.ops.reduce import ArgMax
from nnconv.ops.rewrite import transposed
from nnconv.ops.shape import Concat, Reshape
from nnconv.ops.slices import Pad, PadMode, Slice


class Real:
    """Arithmetic on float32 values of one operation: each method adds a node."""

    def __init__(self, s: Source) -> None:
        self.s = s

    def of(self, name: str) -> Value:
        """An operand as float32."""
        value = self.s.operand(name)
        if value.quant is not None:
            return self.s.add(Dequantize(dtype=DType.FLOAT32), [value])
        if value.dtype is DType.FLOAT32:
            return value
        return self.s.add(Cast(dtype=DType.FLOAT32), [value])

    def number(self, number: float) -> Value:
        """A constant."""
        return self.s.const(np.full(1, number, np.float32))

    def _both(self, op: Op, a: Value | float, b: Value | float) -> Value:
        sides = [v if isinstance(v, Value) else self.number(v) for v in (a, b)]
        return self.s.add(op, sides)

    def add(self, a: Value | float, b: Value | float) -> Value:
        """A + b."""
        return self._both(e.Add(), a, b)

    def sub(self, a: Value | float, b: Value | float) -> Value:
        """A - b."""
        return self._both(e.Sub(), a, b)

    def mul(self, a: Value | float, b: Value | float) -> Value:
        """A * b."""
        return self._both(e.Mul(), a, b)

    def div(self, a: Value | float, b: Value | float) -> Value:
        """A / b."""
        return self._both(e.Div(), a, b)

    def column(self, value: Value, index: int) -> Value:
        """One place along the last dimension, which stays with extent 1."""
        rank = self.s.rank(value)
        starts = (*[None] * (rank - 1), index)
        ends = (*[None] * (rank - 1), index + 1)
        return self.s.add(Slice(starts=starts, ends=ends, strides=(1,) * rank), [value])

    def columns(self, value: Value, count: int) -> list[Value]:
        """The first ``count`` places along the last dimension, each with extent 1."""
        return [self.column(value, index) for index in range(count)]

    def give(self, index: int, value: Value) -> None:
        """Let a float32 value be a result, in the result's type."""
        kind = self.s.scope.type_of(self.s.output(index))
        quant = self.s.result_quant(index)
        if quant is not None:
            value = self.s.add(Quantize(dtype=kind.dtype), [value], quant=quant, dtype=kind.dtype)
        elif kind.dtype is not DType.FLOAT32:
            value = self.s.add(Cast(dtype=kind.dtype), [value])
        self.s.bind(index, value)


def import_bbox_transform(s: Source) -> None:
    """AXIS_ALIGNED_BBOX_TRANSFORM: moves and scales boxes, and cuts them to their image."""
    r = Real(s)
    x1, y1, x2, y2 = r.columns(r.of("rois"), 4)
    extent = s.operand("deltas").shape
    width_of_row = extent[1] if extent is not None and len(extent) == 2 else None
    if not isinstance(width_of_row, int) or width_of_row % 4:
        raise s.unsupported("the number of classes isn't known")
    deltas = s.add(Reshape(shape=(-1, width_of_row // 4, 4)), [r.of("deltas")])
    info = s.add(Gather(axis=0), [r.of("image_info"), s.operand("batches")])
    height, width = (_as_cube(s, value) for value in r.columns(info, 2))
    corners = []
    moves = r.columns(deltas, 4)
    for (low, high), move, growth, most in (
        ((x1, x2), moves[0], moves[2], width),
        ((y1, y2), moves[1], moves[3], height),
    ):
        size = _as_cube(s, r.sub(high, low))
        centre = r.add(_as_cube(s, low), r.mul(size, 0.5))
        centre = r.add(centre, r.mul(move, size))
        half = r.mul(r.mul(s.add(e.Exp(), [growth]), size), 0.5)
        for edge in (r.sub(centre, half), r.add(centre, half)):
            above = s.add(e.Maximum(), [edge, r.number(0)])
            corners.append(s.add(e.Minimum(), [above, most]))
    left, right, top, bottom = corners
    boxes = s.add(Concat(axis=2), [left, top, right, bottom])
    r.give(0, s.add(Reshape(shape=(-1, width_of_row)), [boxes]))


def _as_cube(s: Source, column: Value) -> Value:
    """[n, 1] as [n, 1, 1]."""
    return s.add(Reshape(shape=(-1, 1, 1)), [column])


# -------------------------------------------------------------------- keypoints


def import_heatmap_max_keypoint(s: Source) -> None:
    """HEATMAP_MAX_KEYPOINT: the peak of a parabola through the maximum and its neighbours."""
    r = Real(s)
    heat = r.of("heatmap")
    if s.layout() is Layout.NHWC:
        heat = transposed(s.builder, s.of_rank(heat, 4), (0, 3, 1, 2))
    shape = static_shape(heat.shape)
    if shape is None:
        raise s.unsupported("an extent of the heatmap isn't known")
    if len(shape) != 4 or shape[2] != shape[3] or shape[2] < 2:
        raise s.fail(f"the heatmap has the shape {list(shape)}, must be square and 2 or more")
    count, points, side = shape[0], shape[1], shape[2]
    flat = s.add(Reshape(shape=(count, points, side * side)), [heat])
    place = s.add(ArgMax(axis=2, keep_dims=True), [flat])
    grid = _neighbours(s, heat, place, (count, points, side))
    step_x, step_y, score = _peak(r, grid)
    row = s.add(e.FloorDiv(), [place, s.const(np.full(1, side, np.int32))])
    column = s.add(e.FloorMod(), [place, s.const(np.full(1, side, np.int32))])
    x1, y1, x2, y2 = (_as_cube(s, value) for value in r.columns(r.of("boxes"), 4))
    found = []
    for low, high, cell, step in ((x1, x2, column, step_x), (y1, y2, row, step_y)):
        middle = r.add(r.add(s.add(Cast(dtype=DType.FLOAT32), [cell]), step), 0.5)
        size = r.sub(high, low)
        found.append(r.add(low, r.mul(r.div(middle, float(side)), size)))
    r.give(0, s.add(Reshape(shape=(count, points)), [score]))
    r.give(1, s.add(Concat(axis=2), found))


def _neighbours(s: Source, heat: Value, place: Value, shape: tuple[int, int, int]) -> Value:
    """The 3 by 3 elements around places [n, k, 1], row by row: [n, k, 9]; edges are mirrored."""
    count, points, side = shape
    wide = side + 2
    padded = s.add(Pad(before=(0, 0, 1, 1), after=(0, 0, 1, 1), mode=PadMode.REFLECT), [heat])
    flat = s.add(Reshape(shape=(count, points, wide * wide)), [padded])
    row = s.add(e.FloorDiv(), [place, s.const(np.full(1, side, np.int32))])
    # a row of the padded map is 2 longer than one of the map
    corner = s.add(e.Add(), [place, s.add(e.Mul(), [row, s.const(np.full(1, 2, np.int32))])])
    offsets = (np.arange(3)[:, None] * wide + np.arange(3)).astype(np.int32)
    indices = s.add(e.Add(), [corner, s.const(offsets.reshape(1, 1, 9))])
    return s.add(GatherElements(axis=2), [flat, indices])


_LEAST_DETERMINANT = 1e-5
"""Of the second derivatives; below it there is no peak to find, and the step is 0."""

_LONGEST_STEP = 1.5


def _peak(r: Real, grid: Value) -> tuple[Value, Value, Value]:
    """How far the peak is from the middle of 3 by 3 elements, along x and y, and its height."""
    s = r.s
    cells = r.columns(grid, 9)
    middle = cells[4]
    slope_x = r.mul(r.sub(cells[5], cells[3]), 0.5)
    slope_y = r.mul(r.sub(cells[7], cells[1]), 0.5)
    twice = r.mul(middle, 2.0)
    xx = r.sub(r.add(cells[3], cells[5]), twice)
    yy = r.sub(r.add(cells[1], cells[7]), twice)
    xy = r.mul(r.sub(r.add(cells[8], cells[0]), r.add(cells[2], cells[6])), 0.25)
    determinant = r.sub(r.mul(xx, yy), r.mul(xy, xy))
    flat = s.add(e.Less(), [s.add(e.Abs(), [determinant]), r.number(_LEAST_DETERMINANT)])
    divisor = s.add(e.Select(), [flat, r.number(1), determinant])
    step_x = r.div(r.sub(r.mul(xy, slope_y), r.mul(yy, slope_x)), divisor)
    step_y = r.div(r.sub(r.mul(xy, slope_x), r.mul(xx, slope_y)), divisor)
    longest = s.add(e.Maximum(), [s.add(e.Abs(), [step_x]), s.add(e.Abs(), [step_y])])
    over = s.add(e.Maximum(), [longest, r.number(_LONGEST_STEP)])
    scale = s.add(e.Select(), [flat, r.number(0), r.div(_LONGEST_STEP, over)])
    step_x, step_y = r.mul(step_x, scale), r.mul(step_y, scale)
    rise = r.add(r.mul(slope_x, step_x), r.mul(slope_y, step_y))
    bend_x = r.mul(r.add(r.mul(xx, step_x), r.mul(xy, step_y)), step_x)
    bend_y = r.mul(r.add(r.mul(xy, step_x), r.mul(yy, step_y)), step_y)
    return step_x, step_y, r.add(r.add(middle, rise), r.mul(r.add(bend_x, bend_y), 0.5))


# -------------------------------------------------------------------- detections


def import_detection_postprocessing(s: Source) -> None:
    """DETECTION_POSTPROCESSING: image by image; the first class is the background."""
    r = Real(s)
    scores, deltas, anchors = r.of("scores"), r.of("deltas"), r.of("anchors")
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
        raise s.fail(f"{shape[2]} classes and scales {list(op.scales)}")
    rows: list[list[Value]] = [[], [], [], []]
    for image in range(shape[0]):
        parts = [_image(s, value, image) for value in (deltas, scores)]
        boxes, labels, found, count = s.add_many(op, [*parts, anchors])
        for row, value in zip(rows, (found, boxes, labels, count), strict=True):
            row.append(value)
    joined = [row[0] if len(row) == 1 else s.add(Concat(axis=0), row) for row in rows]
    if s.bool("background_in_label"):
        joined[2] = r.add(joined[2], 1.0)
    for index in (0, 1):
        r.give(index, joined[index])
    for index in (2, 3):
        s.bind(index, s.add(Cast(dtype=DType.INT32), [joined[index]]))


def _image(s: Source, value: Value, index: int) -> Value:
    op = Slice(starts=(index, None, None), ends=(index + 1, None, None), strides=(1, 1, 1))
    return s.add(op, [value])


IMPORTERS: dict[str, Importer] = {
    "AXIS_ALIGNED_BBOX_TRANSFORM": import_bbox_transform,
    "DETECTION_POSTPROCESSING": import_detection_postprocessing,
    "HEATMAP_MAX_KEYPOINT": import_heatmap_max_keypoint,
}
