"""Choosing boxes, one class of one picture at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.decompositions.arithmetic import Arithmetic
from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.extents import extent
from nnconv.decompositions.suppression import by_turns
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Op
from nnconv.ops.control import While
from nnconv.ops.detection import DetectionPostProcess, NonMaxSuppression, SelectBoxes
from nnconv.ops.elementwise import Add, FloorDiv, Less, Minimum, Mul, Sub
from nnconv.ops.gather import Gather
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Concat, Reshape, ShapeOf, Unsqueeze
from nnconv.ops.slices import Slice

_MOST = 4096
"""Of classes and pictures together; more suppressions in a file help nobody."""


def _part(b: Builder, x: Value, *picked: int) -> Value:
    """x[picked]: the first dimensions taken out."""
    rank = len(x.shape or ())
    rest = rank - len(picked)
    cut = Slice(
        starts=(*picked, *[0] * rest),
        ends=(*(i + 1 for i in picked), *[None] * rest),
        strides=(1,) * rank,
    )
    shape = (x.shape or ())[len(picked) :]
    flat = Reshape(shape=tuple(d if isinstance(d, int) else -1 for d in shape))
    return b.add(flat, [b.add(cut, [x])])


def _corners(b: Builder, boxes: Value) -> Value:
    """Corners of boxes [B, N, 4] given by centre and size."""
    rank = 3
    centre, size = (
        b.add(
            Slice(starts=(0, 0, first), ends=(None, None, first + 2), strides=(1,) * rank), [boxes]
        )
        for first in (0, 2)
    )
    half = b.add(Mul(), [size, b.const(np.asarray(0.5, np.float32))])
    return b.add(Concat(axis=2), [b.add(Sub(), [centre, half]), b.add(Add(), [centre, half])])


def _number(b: Builder, value: Value | None, absent: float) -> Value:
    """A threshold as a scalar."""
    if value is None:
        return b.const(np.asarray(absent, np.float32))
    if value.data is not None:
        return b.const(value.data.reshape(()).astype(np.float32))
    return b.add(Reshape(shape=()), [value])


def _above(b: Builder, threshold: Value) -> Value:
    """The next greater float32, at most 1: what is at least that is above the threshold.

    LiteRT takes a box out by its overlap with itself, which is 1.
    """
    if threshold.data is not None:
        above = np.nextafter(threshold.data.astype(np.float32), np.float32(np.inf))
        return b.const(np.asarray(np.minimum(above, 1), np.float32))
    # of a run-time threshold between 0 and 1: its last bits are worth at most 2**-24
    more = b.add(Add(), [threshold, b.const(np.asarray(2.0**-24, np.float32))])
    return b.add(Minimum(), [more, b.const(np.ones((), np.float32))])


def _limit(b: Builder, limit: Value, boxes: Value) -> tuple[int | None, Value | None]:
    """At most as many boxes as there are, as an int32 scalar: kernels make room for so many."""
    count = (boxes.shape or (None, None))[1]
    known = count if isinstance(count, int) else 2**31 - 1
    if limit.data is not None:
        most = min(max(int(limit.data.reshape(-1)[0]), 0), known)
        if isinstance(count, int) or most < 2**16:
            return most, None
        return None, _at_most_all(b, b.const(np.asarray(most, np.int32)), boxes)
    scalar = b.add(Reshape(shape=()), [limit])
    least = b.add(Minimum(), [scalar, b.const(np.asarray(known, limit.dtype.numpy))])
    return None, _at_most_all(b, b.add(Cast(dtype=DType.INT32), [least]), boxes)


def _at_most_all(b: Builder, limit: Value, boxes: Value) -> Value:
    """An int32 limit, or the number of boxes where that is less and known in a run alone."""
    if boxes.type.rank is None or isinstance((boxes.shape or (0, 0))[1], int):
        return limit
    return b.add(Minimum(), [limit, b.add(Reshape(shape=()), [extent(b, boxes, 1)])])


def decompose_select_boxes(node: Node, b: Builder) -> list[Value] | None:
    """SelectBoxes: the taken ones of each class, one list behind the other."""
    op = node.op
    assert isinstance(op, SelectBoxes)
    boxes, scores, limit, iou, lowest = node.operands()
    assert boxes is not None
    assert scores is not None
    pictures, classes = (scores.shape or (None, None))[:2]
    if not isinstance(pictures, int) or not isinstance(classes, int):
        return None
    if limit is None or not 0 < pictures * classes <= _MOST:
        if limit is None or pictures * classes == 0:
            return [b.const(np.zeros((0, 3), op.dtype.numpy))]
        return None
    most, run_time = _limit(b, limit, boxes)
    if op.centred:
        boxes = _corners(b, boxes)
    overlap, floor = _thresholds(b, iou, lowest)
    lists = []
    for picture in range(pictures):
        own = _part(b, boxes, picture)
        for kind in range(classes):
            chooser = NonMaxSuppression(limit=most, with_scores=False)
            given = [own, _part(b, scores, picture, kind), run_time, overlap, floor]
            chosen, count = b.add_many(chooser, given)
            lists.append(_listed(b, chosen, count, picture, kind))
    found = lists[0] if len(lists) == 1 else b.add(Concat(axis=0), lists)
    return [found if op.dtype is DType.INT32 else b.add(Cast(dtype=op.dtype), [found])]


def _thresholds(b: Builder, iou: Value | None, lowest: Value | None) -> tuple[Value, Value]:
    """The overlap from which on a box is out, and the score up to which."""
    overlap = _above(b, _number(b, iou, 0.0))
    return overlap, _number(b, lowest, float(np.finfo(np.float32).min))


def select_in_turn(node: Node, b: Builder) -> list[Value] | None:
    """SelectBoxes of any number of pictures and classes: a turn of a loop for each pair of them.

    The list of what is taken begins with a row that is cut off again: LiteRT's loops don't take
    empty tensors.
    """
    op = node.op
    assert isinstance(op, SelectBoxes)
    boxes, scores = node.operand(0), node.operand(1)
    limit, iou, lowest = (node.optional(i) for i in (2, 3, 4))
    if not b.means.bodies or limit is None or boxes.type.rank != 3 or scores.type.rank != 3:
        return None
    a = Arithmetic(b)
    most, run_time = _limit(b, limit, boxes)
    if op.centred:
        boxes = _corners(b, boxes)
    overlap, floor = _thresholds(b, iou, lowest)
    sizes = b.add(ShapeOf(dtype=DType.INT32), [scores])
    classes = a.entry(sizes, 1)
    pairs = a.mul(a.entry(sizes, 0), classes)
    start = [a.ints(0), a.ints(np.zeros((1, 3), np.int32)), pairs, classes, boxes, scores]
    given = [v for v in (overlap, floor, run_time) if v is not None]
    start += [v for v in given if v.data is None]
    kinds = [v.type for v in start]
    kinds[1] = kinds[1].with_shape((None, 3))
    bodies = [Graph("any_left"), Graph("take_boxes")]
    for body in bodies:
        body.inputs = [Value(v.name, kind) for v, kind in zip(start, kinds, strict=True)]
    asks, turn = bodies
    asks.outputs = [Builder(asks).add(Less(), [asks.inputs[0], asks.inputs[2]])]
    inner = Builder(turn, origin=b.origin)
    left = iter(turn.inputs[6:])
    own = [inner.const(v.data) if v.data is not None else next(left) for v in given]
    first, rows = _turn(inner, turn.inputs, own, most)
    turn.outputs = [first, rows, *turn.inputs[2:]]
    types = While().infer_node([v.type for v in start], bodies)
    found = b.add_typed(While(), start, types, bodies=bodies)[1]
    taken = b.add(Slice(starts=(1, 0), ends=(None, None), strides=(1, 1)), [found])
    return [a.cast(taken, op.dtype)]


def _turn(
    b: Builder, inputs: list[Value], given: list[Value], most: int | None
) -> tuple[Value, Value]:
    """The number of the next turn, and the list with what is taken in this one."""
    number, rows, _, classes, boxes, scores = inputs[:6]
    overlap, floor, *limit = given
    a = Arithmetic(b)
    picture = a.do(FloorDiv(), number, classes)
    kind = a.sub(number, a.mul(picture, classes))
    own = b.add(Gather(axis=0), [boxes, picture])
    picked = b.add(Gather(axis=0), [b.add(Gather(axis=0), [scores, picture]), kind])
    chooser = NonMaxSuppression(limit=most, with_scores=False)
    operands = [own, picked, limit[0] if limit else None, overlap, floor]
    chosen, count = b.add_many(chooser, operands)
    label = a.add(
        *(_times(b, v, [n == i for n in range(3)]) for i, v in enumerate((picture, kind)))
    )
    taken = a.add(_listed(b, chosen, count, 0, 0), label)
    return a.add(number, a.ints(1)), b.add(Concat(axis=0), [rows, taken])


def _times(b: Builder, number: Value, factors: Sequence[int]) -> Value:
    """A row [1, n] of a scalar's products."""
    row = b.const(np.asarray([factors], np.int32))
    return b.add(Mul(), [row, b.add(Reshape(shape=(1, 1)), [number])])


def _listed(b: Builder, chosen: Value, count: Value, picture: int, kind: int) -> Value:
    """Rows of picture, class and box for the first ``count`` chosen ones."""
    end = b.add(Reshape(shape=(1,)), [count])
    taken = b.add(Slice(starts=(0,), ends=None, strides=(1,)), [chosen, None, end])
    column = b.add(Unsqueeze(axes=(1,)), [taken])
    placed = b.add(Mul(), [column, b.const(np.asarray([[0, 0, 1]], np.int32))])
    return b.add(Add(), [placed, b.const(np.asarray([[picture, kind, 0]], np.int32))])


def without_landmarks(node: Node, b: Builder) -> list[Value] | None:
    """DetectionPostProcess of boxes alone: what stands behind their four numbers says nothing."""
    op, boxes = node.op, node.operand(0)
    if boxes.shape is None or not isinstance(boxes.shape[2], int) or boxes.shape[2] == 4:
        return None
    cut = Slice(starts=(0, 0, 0), ends=(None, None, 4), strides=(1, 1, 1))
    return list(b.add_many(op, [b.add(cut, [boxes], quant=boxes.quant), *node.inputs[1:]]))


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    NonMaxSuppression: (by_turns,),
    SelectBoxes: (decompose_select_boxes, select_in_turn),
    DetectionPostProcess: (without_landmarks,),
}
