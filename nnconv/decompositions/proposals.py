"""Choosing regions of images, in float32: a While that takes boxes, then sorting.

All that a turn works on has a fixed size; what was taken is cut to its number at the end alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.suppression import MOST_TURNS
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import static_shape
from nnconv.ops import elementwise as e
from nnconv.ops.control import While
from nnconv.ops.detection import NonMaxSuppression
from nnconv.ops.gather import Gather, Reduction, TopK
from nnconv.ops.proposals import Decay, LimitedBoxes, Proposals
from nnconv.ops.quantize import Cast
from nnconv.ops.reduce import ArgMax, CumSum, ReduceMax, ReduceMin, ReduceSum
from nnconv.ops.segment import Segment
from nnconv.ops.shape import Concat, Fill, Reshape, Tile, Transpose
from nnconv.ops.slices import Slice

_OUT = float(np.finfo(np.float32).min)
"""The score of what is taken, or dropped out."""


_MOST = 1 << 22
"""So many candidates have constants of their own."""


def _float(b: Builder, value: float) -> Value:
    return b.const(np.asarray(value, np.float32))


def _int(b: Builder, value: int) -> Value:
    return b.const(np.asarray(value, np.int32))


class _Candidates(NamedTuple):
    """Every region as one of every class but the background: all of the first class stand first.

    Attributes:
        scores: [M].
        columns: x1, y1, x2 and y2 [M] of the boxes.
        area: [M].
        keys: image's number in the list times classes, and the class, [M].
        boxes: [M, 4].
        images: [M].
    """

    scores: Value
    columns: tuple[Value, ...]
    area: Value
    keys: Value
    boxes: Value
    images: Value


def _candidates(node: Node, b: Builder, rows: int, classes: int) -> _Candidates:
    scores, boxes, images = (node.operand(i) for i in range(3))
    kinds = classes - 1
    table = b.add(Transpose(perm=(1, 0)), [scores])
    table = b.add(Slice(starts=(1, 0), ends=(classes, rows), strides=(1, 1)), [table])
    places = b.add(Reshape(shape=(rows, classes, 4)), [boxes])
    places = b.add(Transpose(perm=(1, 0, 2)), [places])
    cut = Slice(starts=(1, 0, 0), ends=(classes, rows, 4), strides=(1, 1, 1))
    places = b.add(Reshape(shape=(kinds * rows, 4)), [b.add(cut, [places])])
    numbers = b.add(Reshape(shape=(rows,)), [b.add(Cast(dtype=DType.INT32), [images])])
    keys = b.add(e.Mul(), [_groups(b, numbers, rows), _int(b, classes)])
    of_kinds = b.const(np.arange(1, classes, dtype=np.int32)[:, None])
    keys = b.add(e.Add(), [b.add(Reshape(shape=(1, rows)), [keys]), of_kinds])
    columns = tuple(b.add(Gather(axis=1), [places, _int(b, i)]) for i in range(4))
    sides = [b.add(e.Sub(), [columns[i + 2], columns[i]]) for i in (0, 1)]
    return _Candidates(
        scores=b.add(Reshape(shape=(kinds * rows,)), [table]),
        columns=columns,
        area=b.add(e.Mul(), sides),
        keys=b.add(Reshape(shape=(kinds * rows,)), [keys]),
        boxes=places,
        images=b.add(Tile(repeats=(kinds,)), [numbers]),
    )


def _groups(b: Builder, numbers: Value, rows: int) -> Value:
    """Which image of the list each region is of, where equal ones stand side by side."""
    first = b.add(Slice(starts=(0,), ends=(1,), strides=(1,)), [numbers])
    if rows > 1:
        rest = b.add(Slice(starts=(0,), ends=(rows - 1,), strides=(1,)), [numbers])
        first = b.add(Concat(axis=0), [first, rest])
    differs = b.add(Cast(dtype=DType.INT32), [b.add(e.NotEqual(), [numbers, first])])
    return b.add(CumSum(axis=0), [differs])


def _overlaps(b: Builder, columns: tuple[Value, ...], area: Value, best: Value) -> Value:
    """The overlap of one with all."""
    own = [_at(b, column, best) for column in columns]
    sides = []
    for low, high in ((0, 2), (1, 3)):
        end = b.add(e.Minimum(), [columns[high], own[high]])
        start = b.add(e.Maximum(), [columns[low], own[low]])
        sides.append(b.add(e.Maximum(), [b.add(e.Sub(), [end, start]), _float(b, 0)]))
    shared = b.add(e.Mul(), sides)
    union = b.add(e.Sub(), [b.add(e.Add(), [area, _at(b, area, best)]), shared])
    solid = b.add(e.Greater(), [union, _float(b, 0)])
    divisor = b.add(e.Select(), [solid, union, _float(b, 1)])
    return b.add(e.Select(), [solid, b.add(e.Div(), [shared, divisor]), _float(b, 0)])


def _at(b: Builder, x: Value, places: Value) -> Value:
    return b.add(Gather(axis=0), [x, places])


def _factor(op: LimitedBoxes, b: Builder, overlaps: Value) -> Value:
    """What the scores are multiplied by."""
    if op.decay is Decay.GAUSSIAN:
        square = b.add(e.Mul(), [overlaps, overlaps])
        return b.add(e.Exp(), [b.add(e.Div(), [square, _float(b, -op.sigma)])])
    far = b.add(e.Less(), [overlaps, _float(b, op.iou_threshold)])
    near = _float(b, 0)
    if op.decay is Decay.LINEAR:
        near = b.add(e.Sub(), [_float(b, 1), overlaps])
    return b.add(e.Select(), [far, _float(b, 1), near])


def _taken(op: LimitedBoxes, b: Builder, found: _Candidates, count: int) -> tuple[Value, Value]:
    """When each one is taken (``count``: never), int32 [M], and its score then, else ``_OUT``."""
    lively = b.add(e.Greater(), [found.scores, _float(b, op.score_threshold)])
    live = b.add(e.Select(), [lively, found.scores, _float(b, _OUT)])
    turns = b.const(np.full(count, count, np.int32))
    values = b.const(np.full(count, _OUT, np.float32))
    first = [_int(b, 0), live, turns, values, found.keys, found.area, *found.columns]
    if not b.means.bodies:
        for _ in range(count):
            first = _turn(op, b, first, count, idle=True)
        return first[2], first[3]
    asks, body = Graph("any_left"), Graph("take_best")
    asks.inputs = [Value(v.name, v.type) for v in first]
    asked = Builder(asks, origin=b.origin)
    greatest = asked.add(ReduceMax(axes=(0,), keep_dims=False), [asks.inputs[1]])
    asks.outputs = [asked.add(e.Greater(), [greatest, _float(asked, _OUT)])]
    body.inputs = [Value(v.name, v.type) for v in first]
    body.outputs = _turn(op, Builder(body, origin=b.origin), body.inputs, count)
    types = While().infer_node([v.type for v in first], [asks, body])
    results = b.add_typed(While(), first, types, bodies=[asks, body])
    return results[2], results[3]


def _turn(
    op: LimitedBoxes, b: Builder, before: list[Value], count: int, *, idle: bool = False
) -> list[Value]:
    """Take the best, and lower the scores of its rivals; where ``idle``, there may be none left."""
    turn, live, turns, values, keys, area, *columns = before
    best = b.add(ArgMax(axis=0, keep_dims=False, dtype=DType.INT32), [live])
    order = b.const(np.arange(count, dtype=np.int32))
    is_best = b.add(e.Equal(), [order, best])
    if idle:
        is_best = b.add(e.LogicalAnd(), [is_best, b.add(e.Greater(), [live, _float(b, _OUT)])])
    rivals = b.add(e.Equal(), [keys, _at(b, keys, best)])
    overlaps = _overlaps(b, tuple(columns), area, best)
    weaker = b.add(e.Mul(), [live, _factor(op, b, overlaps)])
    stays = b.add(e.GreaterEqual(), [weaker, _float(b, op.least_score)])
    stays = b.add(e.LogicalAnd(), [stays, b.add(e.Greater(), [live, _float(b, _OUT)])])
    weaker = b.add(e.Select(), [stays, weaker, _float(b, _OUT)])
    left = b.add(e.Select(), [rivals, weaker, live])
    return [
        b.add(e.Add(), [turn, _int(b, 1)]),
        b.add(e.Select(), [is_best, _float(b, _OUT), left]),
        b.add(e.Select(), [is_best, turn, turns]),
        b.add(e.Select(), [is_best, live, values]),
        keys,
        area,
        *columns,
    ]


def _sorted(b: Builder, x: Value, count: int, *, largest: bool = False) -> Value:
    """The places in the order of the numbers; equal ones stay in order."""
    return b.add_many(TopK(axis=0, k=count, largest=largest), [x])[1]


def _then(b: Builder, order: Value, x: Value, count: int, *, largest: bool = False) -> Value:
    """Places in an order, sorted once more by other numbers."""
    return _at(b, order, _sorted(b, _at(b, x, order), count, largest=largest))


def decompose_limited_boxes(node: Node, b: Builder) -> list[Value] | None:
    """LimitedBoxes of a known number of regions."""
    op = node.op
    assert isinstance(op, LimitedBoxes)
    shape = static_shape(node.operand(0).shape)
    if shape is None:
        return None
    rows, classes = shape
    count = rows * (classes - 1)
    if count > (_MOST if b.means.bodies else MOST_TURNS):
        return None
    if count < 1:
        empty = [np.zeros((0, *([4] if i == 1 else []))) for i in range(4)]
        dtypes = [v.dtype.numpy for v in node.outputs]
        return [b.const(a.astype(dtype)) for a, dtype in zip(empty, dtypes, strict=True)]
    found = _candidates(node, b, rows, classes)
    turns, values = _taken(op, b, found, count)
    never = _int(b, rows * classes)  # behind all keys
    valid = b.add(e.Less(), [turns, _int(b, count)])
    keys = b.add(e.Select(), [valid, found.keys, never])
    order = _then(b, _sorted(b, turns, count), keys, count)
    order = _then(b, order, values, count, largest=True)
    if op.limit >= 0:
        groups = b.add(e.FloorDiv(), [keys, _int(b, classes)])
        order = _then(b, order, groups, count)
        rank = _rank(b, _at(b, groups, order), rows, count)
        within = b.add(e.Less(), [rank, _int(b, op.limit)])
        keys = b.add(e.Select(), [within, _at(b, keys, order), never])
    else:
        keys = _at(b, keys, order)
    fine = b.add(Cast(dtype=DType.INT32), [b.add(e.Less(), [keys, never])])
    total = b.add(ReduceSum(axes=(0,), keep_dims=True), [fine])
    cut = Slice(starts=(0,), ends=None, strides=(1,))
    last = b.add(cut, [_sorted(b, keys, count), None, total])
    taken = _at(b, order, last)
    kinds = b.add(e.FloorMod(), [_at(b, keys, last), _int(b, classes)])
    return [_at(b, values, taken), _at(b, found.boxes, taken), kinds, _at(b, found.images, taken)]


def _rank(b: Builder, groups: Value, rows: int, count: int) -> Value:
    """The place of each one in its group, where those of a group stand side by side."""
    ones = b.const(np.ones(count, np.int32))
    sizes = b.add(Segment(reduction=Reduction.ADD, num_segments=rows + 1), [ones, groups])
    starts = b.add(CumSum(axis=0, exclusive=True), [sizes])
    places = b.const(np.arange(count, dtype=np.int32))
    return b.add(e.Sub(), [places, _at(b, starts, groups)])


# -------------------------------------------------------------------- Proposals


def _part(b: Builder, x: Value, first: int, last: int) -> Value:
    """Columns of what has two dimensions."""
    cut = Slice(starts=(0, first), ends=(None, last), strides=(1, 1))
    return b.add(cut, [x])


def _moved(
    op: Proposals, b: Builder, boxes: Value, deltas: Value, size: Value
) -> tuple[Value, Value]:
    """Boxes [n, 4] moved, scaled and cut to an image, and whether each counts, int32 [n]."""
    extent = b.add(e.Sub(), [_part(b, boxes, 2, 4), _part(b, boxes, 0, 2)])
    half = b.add(e.Mul(), [extent, _float(b, 0.5)])
    centre = b.add(e.Add(), [_part(b, boxes, 0, 2), half])
    centre = b.add(e.Add(), [centre, b.add(e.Mul(), [_part(b, deltas, 0, 2), extent])])
    half = b.add(e.Mul(), [b.add(e.Exp(), [_part(b, deltas, 2, 4)]), half])
    edges = []
    for kind in (e.Sub, e.Add):
        positive = b.add(e.Maximum(), [b.add(kind(), [centre, half]), _float(b, 0)])
        edges.append(b.add(e.Minimum(), [positive, size]))
    low, high = edges
    extent = b.add(e.Sub(), [high, low])
    centre = b.add(e.Add(), [low, b.add(e.Mul(), [extent, _float(b, 0.5)])])
    large = b.add(e.Greater(), [extent, _float(b, op.least_size)])
    fine = b.add(e.LogicalAnd(), [large, b.add(e.Less(), [centre, size])])
    least = b.add(ReduceMin(axes=(1,)), [b.add(Cast(dtype=DType.INT32), [fine])])
    return b.add(Concat(axis=1), edges), least


def decompose_proposals(node: Node, b: Builder) -> list[Value] | None:
    """Proposals of a few images: NonMaxSuppression for each."""
    op = node.op
    assert isinstance(op, Proposals)
    scores, deltas, anchors, sizes = (node.operand(i) for i in range(4))
    shape = static_shape(scores.shape)
    if shape is None or not 0 < shape[0] <= _MOST_IMAGES:
        return None
    pictures, height, width, kinds = shape
    count = height * width * kinds
    if count > _MOST:
        return None
    places = np.stack(np.meshgrid(np.arange(width), np.arange(height)) * 2, axis=-1)
    cells = places.reshape(-1, 1, 4) * np.asarray([op.stride[1], op.stride[0]] * 2)
    corners = b.add(Reshape(shape=(1, kinds, 4)), [anchors])
    boxes = b.add(e.Add(), [b.const(cells.astype(np.float32)), corners])
    boxes = b.add(Reshape(shape=(count, 4)), [boxes])
    flipped = b.add(Gather(axis=1), [sizes, b.const(np.asarray([1, 0], np.int32))])
    moves = b.add(Reshape(shape=(pictures, count, 4)), [deltas])
    rows = b.add(Reshape(shape=(pictures, count)), [scores])
    found = [
        _proposed(op, b, boxes, _at(b, moves, _int(b, i)), _at(b, rows, _int(b, i)), flipped, i)
        for i in range(pictures)
    ]
    if pictures == 1:
        return list(found[0])
    return [b.add(Concat(axis=0), list(parts)) for parts in zip(*found, strict=True)]


_MOST_IMAGES = 32
"""A part of the graph for each of so many images: beyond that nobody would want to run it."""


def _proposed(
    op: Proposals,
    b: Builder,
    boxes: Value,
    deltas: Value,
    scores: Value,
    sizes: Value,
    picture: int,
) -> tuple[Value, Value, Value]:
    """Scores, boxes and number of an image."""
    size = b.add(Gather(axis=0), [sizes, b.const(np.asarray([picture], np.int32))])
    placed, fine = _moved(op, b, boxes, deltas, size)
    count = (scores.shape or (0,))[0]
    assert isinstance(count, int)
    if 0 < op.before < count:
        scores, best = b.add_many(TopK(axis=0, k=op.before), [scores])
        placed, fine, count = _at(b, placed, best), _at(b, fine, best), op.before
    is_fine = b.add(e.Greater(), [fine, _int(b, 0)])
    rivals = b.add(e.Select(), [is_fine, scores, _float(b, _OUT)])
    most = count if op.after < 0 else min(op.after, count)
    most = min(most, 1) if op.iou_threshold <= 0 else most
    overlap = min(max(op.iou_threshold, float(np.finfo(np.float32).tiny)), 1.0)
    chooser = NonMaxSuppression(limit=most, with_scores=False)
    given = [placed, rivals, None, _float(b, overlap), _float(b, _OUT)]
    chosen, total = b.add_many(chooser, given)
    end = b.add(Reshape(shape=(1,)), [total])
    taken = b.add(Slice(starts=(0,), ends=None, strides=(1,)), [chosen, None, end])
    number = b.add(Fill(shape=None), [_int(b, picture), end])
    return _at(b, scores, taken), _at(b, placed, taken), number


def widened(node: Node, b: Builder) -> list[Value] | None:
    """Halves are computed with in float32."""
    if not any(v is not None and v.dtype is DType.FLOAT16 for v in node.inputs):
        return None
    results = b.add_many(node.op, [_as(b, v, DType.FLOAT16, DType.FLOAT32) for v in node.inputs])
    return [
        b.add(Cast(dtype=old.dtype), [new]) if old.dtype is not new.dtype else new
        for old, new in zip(node.outputs, results, strict=True)
    ]


def _as(b: Builder, value: Value | None, old: DType, new: DType) -> Value | None:
    if value is None or value.dtype is not old:
        return value
    return b.add(Cast(dtype=new), [value])


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    LimitedBoxes: (
        widened,
        decompose_limited_boxes,
    ),
    Proposals: (
        widened,
        decompose_proposals,
    ),
}
