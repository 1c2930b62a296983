"""Choosing boxes. ONNX drops those whose overlap is above a threshold, which must be in 0 to 1."""

from __future__ import annotations

import numpy as np

from nnconv.formats.onnx import wire
from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.exports.reduce import reduced
from nnconv.formats.onnx.turns import LOWEST, take_best
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops.detection import DetectionPostProcess, NonMaxSuppression, SelectBoxes

_BELOW = np.float32(1 - 2**-24)
"""A positive float32 times this is the next lower one."""


# -------------------------------------------------------------------- NonMaxSuppression


def export_select_boxes(node: Node, t: Target) -> None:
    """NonMaxSuppression."""
    op = node.op
    assert isinstance(op, SelectBoxes)
    inputs = [t.int64(v) if i == 2 else t.real(v) for i, v in enumerate(node.inputs)]
    centred = 1 if op.centred else None
    chosen = t.node("NonMaxSuppression", inputs, center_point_box=centred)
    t.set_stored(node.outputs[0], chosen if op.dtype is DType.INT64 else t.cast(chosen, op.dtype))


def export_non_max_suppression(node: Node, t: Target) -> None:
    """NonMaxSuppression: ONNX's own, with weakened scores a Loop; padded behind."""
    op = node.op
    assert isinstance(op, NonMaxSuppression)
    scores, limit = node.operand(1), node.optional(2)
    rest = node.inputs[5:]
    size = t.const([op.limit]) if op.limit is not None else t.reshape(t.int64(limit), [1])
    sigma = rest[0] if rest else None
    if sigma is None or (sigma.data is not None and not np.any(sigma.data > 0)):
        chosen = _hard(node, t, size)
        final = t.node("Gather", [t.real(scores), chosen])
    else:
        chosen, final = _soft(node, t, size, sigma)
    count = t.node("Shape", [chosen])
    t.set_stored(node.outputs[0], t.cast(_padded(t, chosen, size, DType.INT64), DType.INT32))
    if op.with_scores:
        t.set_real(node.outputs[1], _padded(t, final, size, DType.FLOAT32))
    t.set_stored(node.outputs[-1], t.cast(t.reshape(count, []), DType.INT32))


def _padded(t: Target, name: str, size: str, dtype: DType) -> str:
    """A tensor of rank 1, at most ``size`` long, with zeros behind it up to that length."""
    rest = _filled(t, size, dtype, 0)
    return t.node("Slice", [t.node("Concat", [name, rest], axis=0), t.const([0]), size])


def _filled(t: Target, shape: str, dtype: DType, fill: float) -> str:
    kind = wire.DataType.INT64 if dtype is DType.INT64 else wire.DataType.FLOAT
    value = wire.Tensor("", kind, (1,), np.full(1, fill, dtype.numpy))
    return t.node("ConstantOfShape", [shape], value=value)


def _floats(t: Target, *values: float | np.floating) -> str:
    """A float32 tensor of rank 1."""
    return t.const(np.asarray(values, np.float32))


def _number(t: Target, value: Value | None) -> str:
    """An operand of one element as a tensor of rank 1."""
    assert value is not None
    if value.data is not None:
        return t.const(value.data.reshape(1))
    return t.reshape(t.real(value), [1])


def _hard(node: Node, t: Target, size: str) -> str:
    """The indices chosen, int64 [count]: overlaps at the threshold count, and all do at 0."""
    boxes, scores = node.operand(0), node.operand(1)
    overlap, lowest = node.operand(3), node.optional(4)
    name = _number(t, overlap)
    below = t.node("Mul", [name, _floats(t, _BELOW)])
    bounded = t.node("Clip", [below, t.const(np.float32(0)), t.const(np.float32(1))])
    if overlap.data is None or not np.all(overlap.data > 0):
        one = t.node("Min", [size, t.const([1])])
        positive = t.node("Greater", [name, _floats(t, 0)])
        size = t.node("Where", [positive, size, one])
    table, row = t.reshape(t.real(boxes), [1, -1, 4]), t.reshape(t.real(scores), [1, 1, -1])
    return _chosen(t, table, row, [size, bounded, _number(t, lowest)])


def _chosen(t: Target, boxes: str, scores: str, settings: list[str]) -> str:
    """Indices chosen from boxes [1, n, 4] by scores [1, 1, n], int64 [count]."""
    rows = t.node("NonMaxSuppression", [boxes, scores, *settings])
    return _column(t, rows, 2)


def _column(t: Target, rows: str, column: int) -> str:
    """A column of a table, as a tensor of rank 1."""
    return t.node("Gather", [rows, t.const(np.asarray(column, np.int64))], axis=1)


# -------------------------------------------------------------------- weakened scores


class _Corners:
    """The extents and areas of all boxes: names of tensors [n]."""

    def __init__(self, t: Target, boxes: str) -> None:
        y0, x0, y1, x1 = (_column(t, boxes, i) for i in range(4))
        self.low = t.node("Min", [y0, y1]), t.node("Min", [x0, x1])
        self.high = t.node("Max", [y0, y1]), t.node("Max", [x0, x1])
        sides = [t.node("Sub", [h, w]) for h, w in zip(self.high, self.low, strict=True)]
        self.area = t.node("Mul", sides)

    def overlap(self, t: Target, index: str) -> str:
        """The overlap of each box with one of them, in graph ``t``."""
        sides = []
        for low, high in zip(self.low, self.high, strict=True):
            end = t.node("Min", [high, t.node("Gather", [high, index])])
            start = t.node("Max", [low, t.node("Gather", [low, index])])
            sides.append(t.node("Relu", [t.node("Sub", [end, start])]))
        common = t.node("Mul", sides)
        own = t.node("Gather", [self.area, index])
        union = t.node("Sub", [t.node("Add", [self.area, own]), common])
        zero = t.const(np.float32(0))
        solid = t.node("Greater", [t.node("Min", [self.area, own]), zero])
        return t.node("Where", [solid, t.node("Div", [common, union]), zero])


def _soft(node: Node, t: Target, size: str, sigma: Value) -> tuple[str, str]:
    """The indices chosen, int64 [count], and their final scores: a Loop, one turn a box.

    It carries the scores, -inf for boxes that are out. One more box that never wins keeps all
    tensors from being empty.
    """
    boxes, scores = node.operand(0), node.operand(1)
    overlap, lowest = node.optional(3), node.optional(4)
    threshold, floor, width = _number(t, overlap), _number(t, lowest), _number(t, sigma)
    nothing = t.const(LOWEST)
    corners = _Corners(
        t, t.node("Concat", [t.real(boxes), t.const(np.zeros((1, 4), np.float32))], axis=0)
    )
    zero = t.const(np.float32(0))
    scale = t.node("Div", [t.const(np.float32(-0.5)), width])
    scale = t.node("Where", [t.node("Greater", [width, zero]), scale, zero])
    real = t.node("Where", [t.node("Greater", [t.real(scores), floor]), t.real(scores), nothing])
    start = t.node("Concat", [real, _floats(t, LOWEST)], axis=0)

    def weaken(inner: Target, live: str, best: str) -> str:
        common = corners.overlap(inner, best)
        square = inner.node("Mul", [inner.node("Mul", [scale, common]), common])
        weakened = inner.node("Mul", [live, inner.node("Exp", [square])])
        near = inner.node("Less", [common, threshold])
        stays = inner.node("And", [near, inner.node("Greater", [weakened, floor])])
        left = inner.node("Where", [stays, weakened, inner.const(LOWEST)])
        place = inner.reshape(best, [1])
        return inner.node("ScatterElements", [left, place, _floats(inner, LOWEST)], axis=0)

    return take_best(t, start, weaken, limit=t.reshape(size, []))


# -------------------------------------------------------------------- DetectionPostProcess


def export_post_process(node: Node, t: Target) -> None:
    """DetectionPostProcess."""
    op = node.op
    assert isinstance(op, DetectionPostProcess)
    encodings, scores, anchors = (node.operand(i) for i in range(3))
    boxes = _decoded(op, t, t.real(encodings), t.real(anchors))
    columns = scores.shape[2] if scores.shape is not None else None
    if not isinstance(columns, int):
        raise t.unsupported("the number of classes isn't known")
    background = op.background(columns)
    table = t.node(
        "Slice", [t.real(scores), t.const([background]), t.const([columns]), t.const([2])]
    )
    # scores not below the threshold compete here, scores above it in ONNX; numbers so close
    # to 0 that some runtimes take them for 0 are left out
    below = np.nextafter(np.float32(op.score_threshold), LOWEST)
    tiny = np.finfo(np.float32).tiny
    below = -tiny if -tiny < below < tiny else below
    thresholds = [_floats(t, op.iou_threshold), _floats(t, below)]
    export = _each_class if op.regular else _all_classes
    results = export(op, t, boxes, table, thresholds)
    size = op.max_detections * op.max_classes
    shapes = ([1, size, 4], [1, size], [1, size])
    for value, name, shape in zip(node.outputs, results, shapes, strict=False):
        t.set_real(value, t.node("Reshape", [name, t.const(shape)], allowzero=_if_empty(t, size)))
    t.set_real(node.outputs[3], t.cast(results[3], DType.FLOAT32))


def _if_empty(t: Target, size: int) -> int | None:
    return 1 if not size and t.opset >= 14 else None


def _decoded(op: DetectionPostProcess, t: Target, encodings: str, anchors: str) -> str:
    """The boxes [n, 4]: top, left, bottom, right."""

    def part(name: str, axis: int, first: int) -> str:
        return t.node("Slice", [name, t.const([first]), t.const([first + 2]), t.const([axis])])

    scales = np.asarray(op.scales, np.float32)
    middle, sides = part(anchors, 1, 0), part(anchors, 1, 2)
    offset = t.node("Div", [part(encodings, 2, 0), t.const(scales[:2])])
    stretch = t.node("Exp", [t.node("Div", [part(encodings, 2, 2), t.const(scales[2:])])])
    centre = t.node("Add", [t.node("Mul", [offset, sides]), middle])
    half = t.node("Mul", [t.node("Mul", [stretch, t.const(np.float32(0.5))]), sides])
    corners = [t.node("Sub", [centre, half]), t.node("Add", [centre, half])]
    return t.reshape(t.node("Concat", corners, axis=2), [-1, 4])


def _all_classes(
    op: DetectionPostProcess, t: Target, boxes: str, table: str, thresholds: list[str]
) -> list[str]:
    """One suppression by each box's highest score; each box chosen gives its best classes."""
    size, count = op.max_detections, min(op.max_classes, op.classes)
    rows = t.reshape(table, [-1, op.classes])
    best = t.reshape(reduced(t, "ReduceMax", rows, (1,), keep_dims=False), [1, 1, -1])
    chosen = _chosen(t, t.reshape(boxes, [1, -1, 4]), best, [t.const([size]), *thresholds])
    found = t.node("Shape", [chosen])
    chosen = _padded(t, chosen, t.const([size]), DType.INT64)
    rows = t.node("Gather", [rows, chosen], axis=0)
    if count == 1:
        scores = reduced(t, "ReduceMax", rows, (1,), keep_dims=True)
        classes = t.node("ArgMax", [rows], axis=1, keepdims=1)
    else:
        scores, classes = t.nodes_of("TopK", [rows, t.const([count])], 2, axis=1)
    valid = t.node("Less", [t.const(np.arange(size)[:, None]), found])
    wanted = [size, op.max_classes]
    if op.max_classes > count:
        behind = [t.const([0, 0, 0, op.max_classes - count])]
        scores, classes = (t.node("Pad", [name, *behind]) for name in (scores, classes))
        valid = t.node("And", [valid, t.const(np.arange(op.max_classes)[None] < count)])
    taken = t.reshape(t.node("Gather", [boxes, chosen], axis=0), [-1, 1, 4])
    taken = t.node("Expand", [taken, t.const([size, op.max_classes, 4])])
    zero = t.const(np.float32(0))
    kinds = t.cast(classes, DType.FLOAT32)
    mask = t.node("Expand", [valid, t.const(wanted)])
    solid = t.node("Reshape", [mask, t.const([size, op.max_classes, 1])])
    return [
        t.node("Where", [solid, taken, zero]),
        t.node("Where", [valid, kinds, zero]),
        t.node("Where", [valid, scores, zero]),
        found,
    ]


def _each_class(
    op: DetectionPostProcess, t: Target, boxes: str, table: str, thresholds: list[str]
) -> list[str]:
    """A suppression for each class; the best of all results stay, of equal ones the lower class."""
    size = op.max_detections
    by_class = t.node("Transpose", [table], perm=(0, 2, 1))
    limit = t.const([op.per_class])
    rows = t.node("NonMaxSuppression", [t.reshape(boxes, [1, -1, 4]), by_class, limit, *thresholds])
    scores = t.node("GatherND", [by_class, rows])
    wide = t.const([size])
    behind = _filled(t, wide, DType.FLOAT32, float(LOWEST))
    best, order = t.nodes_of("TopK", [t.node("Concat", [scores, behind], axis=0), wide], 2, axis=0)
    valid = t.node("Greater", [best, t.const(LOWEST)])
    kinds, places = (
        t.node("Gather", [_longer(t, _column(t, rows, column), wide), order]) for column in (1, 2)
    )
    zero = t.const(np.float32(0))
    taken = t.node("Gather", [boxes, places], axis=0)
    results = [
        t.node("Where", [t.reshape(valid, [-1, 1]), taken, zero]),
        t.node("Where", [valid, t.cast(kinds, DType.FLOAT32), zero]),
        t.node("Where", [valid, best, zero]),
    ]
    if op.max_classes > 1:
        more = size * (op.max_classes - 1)
        results = [
            t.node("Pad", [name, t.const([0] * rank + [more] + [0] * (rank - 1))])
            for name, rank in zip(results, (2, 1, 1), strict=True)
        ]
    found = reduced(t, "ReduceSum", t.cast(valid, DType.INT64), (0,), keep_dims=True)
    return [*results, found]


def _longer(t: Target, name: str, count: str) -> str:
    """An int64 tensor of rank 1 with ``count`` zeros behind it."""
    return t.node("Concat", [name, _filled(t, count, DType.INT64, 0)], axis=0)


EXPORTERS: dict[type[Op], Exporter] = {
    NonMaxSuppression: export_non_max_suppression,
    SelectBoxes: export_select_boxes,
    DetectionPostProcess: export_post_process,
}
