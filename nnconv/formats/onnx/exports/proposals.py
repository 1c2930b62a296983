"""Choosing regions of images, in float32."""

from __future__ import annotations

import numpy as np

from nnconv.errors import plural
from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.spelled import export_in_parts
from nnconv.formats.onnx.turns import LOWEST, take_best
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import static_shape
from nnconv.ops.proposals import Decay, LimitedBoxes, Proposals

_FEW = 1024
"""So many candidates, at most, take the turns that other formats can have too: of fixed extents."""

_MOST = 1 << 24
"""So many classes, or anchors of a map, have constants of their own."""

_BELOW = np.float32(1 - 2**-24)
"""A positive float32 times this is the next lower one."""


def _floats(t: Target, value: Value) -> str:
    """A value's real numbers in float32."""
    name = t.real(value)
    return name if t.real_type(value) is DType.FLOAT32 else t.cast(name, DType.FLOAT32)


def _give(t: Target, value: Value, name: str) -> None:
    """Let float32 numbers be a result."""
    kind = t.real_type(value)
    t.set_real(value, name if kind is DType.FLOAT32 else t.cast(name, kind))


def _number(t: Target, value: float) -> str:
    return t.const(np.float32(value))


def _columns(t: Target, boxes: str) -> list[str]:
    """x1, y1, x2 and y2 of boxes [..., 4]."""
    return [t.node("Gather", [boxes, t.const(np.int64(i))], axis=-1) for i in range(4)]


# -------------------------------------------------------------------- LimitedBoxes


class _Candidates:
    """Every region as one of every class but the background, and one more that never wins.

    Names of tensors [(C - 1) * R + 1]: all of the first class stand first.
    """

    def __init__(self, node: Node, t: Target, classes: int) -> None:
        scores, boxes, images = (node.operand(i) for i in range(3))
        kinds = classes - 1
        table = t.node("Transpose", [_floats(t, scores)], perm=(1, 0))
        table = t.node("Slice", [table, t.const([1]), t.const([classes]), t.const([0])])
        places = t.node("Reshape", [_floats(t, boxes), t.const([-1, classes, 4])])
        places = t.node("Transpose", [places], perm=(1, 0, 2))
        places = t.node("Slice", [places, t.const([1]), t.const([classes]), t.const([0])])
        numbers = t.node("Reshape", [t.int64(images), t.const([-1])])
        group = self._groups(t, numbers)
        key = t.node("Mul", [t.node("Tile", [group, t.const([kinds])]), t.const([classes])])
        column = t.node("Reshape", [key, t.const([kinds, -1] if kinds else [0, 0])])
        key = t.node("Add", [column, t.const(np.arange(1, classes)[:, None])])
        self.scores = self._longer(t, table, LOWEST)
        self.boxes = t.node(
            "Concat", [t.reshape(places, [-1, 4]), t.const(np.zeros((1, 4), np.float32))], axis=0
        )
        self.keys = self._longer(t, key, np.int64(-1))
        self.images = self._longer(t, t.node("Tile", [numbers, t.const([kinds])]), np.int64(-1))
        self.columns = _columns(t, self.boxes)
        self.area = self._area(t, self.columns)
        self.order = t.node("Range", [t.const(np.int64(0)), self._size(t), t.const(np.int64(1))])

    @staticmethod
    def _groups(t: Target, numbers: str) -> str:
        """Which image of the list each region is of, where equal ones stand side by side."""
        first = t.node("Slice", [numbers, t.const([0]), t.const([1])])
        rest = t.node("Slice", [numbers, t.const([0]), t.const([-1])])
        before = t.node("Concat", [first, rest], axis=0)
        differs = t.node("Not", [t.node("Equal", [numbers, before])])
        return t.node("CumSum", [t.cast(differs, DType.INT64), t.const(np.int64(0))])

    @staticmethod
    def _longer(t: Target, name: str, last: np.generic) -> str:
        return t.node("Concat", [t.reshape(name, [-1]), t.const(np.asarray([last]))], axis=0)

    @staticmethod
    def _area(t: Target, columns: list[str]) -> str:
        x1, y1, x2, y2 = columns
        return t.node("Mul", [t.node("Sub", [x2, x1]), t.node("Sub", [y2, y1])])

    def _size(self, t: Target) -> str:
        return t.node("Squeeze", [t.node("Shape", [self.keys]), t.const([0])])

    def overlaps(self, t: Target, best: str) -> str:
        """The overlap of one with all, in graph ``t``."""
        own = [t.node("Gather", [column, best]) for column in self.columns]
        sides = []
        for low, high in ((0, 2), (1, 3)):
            end = t.node("Min", [self.columns[high], own[high]])
            start = t.node("Max", [self.columns[low], own[low]])
            sides.append(t.node("Relu", [t.node("Sub", [end, start])]))
        shared = t.node("Mul", sides)
        both = t.node("Add", [self.area, t.node("Gather", [self.area, best])])
        union = t.node("Sub", [both, shared])
        solid = t.node("Greater", [union, _number(t, 0)])
        return t.node("Where", [solid, t.node("Div", [shared, union]), _number(t, 0)])


def _factor(op: LimitedBoxes, t: Target, overlaps: str) -> str:
    """What the scores are multiplied by."""
    if op.decay is Decay.GAUSSIAN:
        square = t.node("Mul", [overlaps, overlaps])
        return t.node("Exp", [t.node("Div", [t.node("Neg", [square]), _number(t, op.sigma)])])
    far = t.node("Less", [overlaps, _number(t, op.iou_threshold)])
    near = _number(t, 0)
    if op.decay is Decay.LINEAR:
        near = t.node("Sub", [_number(t, 1), overlaps])
    return t.node("Where", [far, _number(t, 1), near])


def _taken(op: LimitedBoxes, t: Target, found: _Candidates) -> tuple[str, str]:
    """Who is taken, int64 [n], and the scores then: a Loop, each turn takes the best of all."""
    lively = t.node("Greater", [found.scores, _number(t, op.score_threshold)])
    start = t.node("Where", [lively, found.scores, t.const(LOWEST)])

    def weaken(inner: Target, live: str, best: str) -> str:
        rivals = inner.node("Equal", [found.keys, inner.node("Gather", [found.keys, best])])
        factor = _factor(op, inner, found.overlaps(inner, best))
        weaker = inner.node("Mul", [live, factor])
        stays = inner.node("GreaterOrEqual", [weaker, _number(inner, op.least_score)])
        weaker = inner.node("Where", [stays, weaker, inner.const(LOWEST)])
        left = inner.node("Where", [rivals, weaker, live])
        is_best = inner.node("Equal", [found.order, best])
        return inner.node("Where", [is_best, inner.const(LOWEST), left])

    return take_best(t, start, weaken)


def _sorted(t: Target, name: str, *, largest: bool = False) -> str:
    """The places [n] in the order of the numbers; equal ones stay in order."""
    count = t.node("Shape", [name])
    return t.nodes_of("TopK", [name, count], 2, axis=0, largest=int(largest))[1]


def _best(op: LimitedBoxes, t: Target, keys: str, scores: str, classes: int) -> str:
    """The places of the ``limit`` best of each image, from the best score."""
    by_key = _sorted(t, keys)
    order = t.node("Gather", [by_key, _sorted(t, _at(t, scores, by_key), largest=True)])
    if op.limit < 0:
        return order
    groups = t.node("Div", [keys, t.const(np.int64(classes))])
    order = t.node("Gather", [order, _sorted(t, _at(t, groups, order))])
    _, _, which, counts = t.nodes_of("Unique", [_at(t, groups, order)], 4, axis=0)
    starts = t.node("CumSum", [counts, t.const(np.int64(0))], exclusive=1)
    count = t.node("Squeeze", [t.node("Shape", [keys]), t.const([0])])
    places = t.node("Range", [t.const(np.int64(0)), count, t.const(np.int64(1))])
    rank = t.node("Sub", [places, t.node("Gather", [starts, which])])
    return t.node("Compress", [order, t.node("Less", [rank, t.const(np.int64(op.limit))])], axis=0)


def _at(t: Target, name: str, places: str) -> str:
    return t.node("Gather", [name, places])


def export_limited_boxes(node: Node, t: Target) -> None:
    """LimitedBoxes: a Loop that takes boxes, then sorting; of few ones in known extents alone."""
    op, scores = node.op, node.operand(0)
    assert isinstance(op, LimitedBoxes)
    classes = None if scores.shape is None else scores.shape[1]
    if not isinstance(classes, int):
        raise t.unsupported("the number of classes isn't known")
    if classes > _MOST:
        raise t.unsupported(f"{plural(classes, 'class', 'classes')} are too many")
    rows = (scores.shape or (None,))[0]
    if isinstance(rows, int) and 0 < rows * (classes - 1) <= _FEW:
        export_in_parts(node, t)
        return
    found = _Candidates(node, t, classes)
    taken, values = _taken(op, t, found)
    keys = _at(t, found.keys, taken)
    order = _best(op, t, keys, values, classes)
    order = _at(t, order, _sorted(t, _at(t, keys, order)))
    taken = _at(t, taken, order)
    kinds = t.node("Mod", [_at(t, keys, order), t.const(np.int64(classes))])
    _give(t, node.outputs[0], _at(t, values, order))
    _give(t, node.outputs[1], _at(t, found.boxes, taken))
    t.set_stored(node.outputs[2], t.cast(kinds, DType.INT32))
    t.set_stored(node.outputs[3], t.cast(_at(t, found.images, taken), DType.INT32))


# -------------------------------------------------------------------- Proposals


def _moved(op: Proposals, node: Node, t: Target, height: int, width: int) -> tuple[str, str]:
    """All boxes [N, n, 4], and whether each is large enough and centred in its image, [N, n]."""
    deltas, anchors, sizes = (node.operand(i) for i in (1, 2, 3))
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    places = np.stack([columns * op.stride[1], rows * op.stride[0]] * 2, axis=-1)
    cells = t.const(places.reshape(-1, 1, 4).astype(np.float32))
    boxes = t.reshape(t.node("Add", [cells, _floats(t, anchors)]), [-1, 4])

    def part(name: str, first: int, last: int) -> str:
        return t.node("Slice", [name, t.const([first]), t.const([last]), t.const([-1])])

    extent = t.node("Sub", [part(boxes, 2, 4), part(boxes, 0, 2)])
    half = t.node("Mul", [extent, _number(t, 0.5)])
    centre = t.node("Add", [part(boxes, 0, 2), half])
    move = t.reshape(_floats(t, deltas), [-1, height * width * _anchors(node), 4])
    centre = t.node("Add", [centre, t.node("Mul", [part(move, 0, 2), extent])])
    half = t.node("Mul", [t.node("Exp", [part(move, 2, 4)]), half])
    most = t.node("Gather", [_floats(t, sizes), t.const([1, 0])], axis=1)
    most = t.node("Unsqueeze", [most, t.const([1])])

    def cut(name: str) -> str:
        return t.node("Min", [t.node("Max", [name, _number(t, 0)]), most])

    low, high = (cut(t.node(kind, [centre, half])) for kind in ("Sub", "Add"))
    extent = t.node("Sub", [high, low])
    centre = t.node("Add", [low, t.node("Mul", [extent, _number(t, 0.5)])])
    large = t.node("Greater", [extent, _number(t, op.least_size)])
    fine = t.node("And", [large, t.node("Less", [centre, most])])
    both = t.node("ReduceMin", [t.cast(fine, DType.INT32), *_axes(t)], keepdims=0, **_axes_of(t))
    return t.node("Concat", [low, high], axis=2), t.cast(both, DType.BOOL)


def _axes(t: Target) -> list[str]:
    return [t.const([2])] if t.opset >= 18 else []


def _axes_of(t: Target) -> dict[str, list[int]]:
    return {} if t.opset >= 18 else {"axes": [2]}


def _anchors(node: Node) -> int:
    scores = node.operand(0)
    assert scores.shape is not None
    count = scores.shape[3]
    assert isinstance(count, int)
    return count


def export_proposals(node: Node, t: Target) -> None:
    """Proposals: NonMaxSuppression of the best boxes."""
    op, scores = node.op, node.operand(0)
    assert isinstance(op, Proposals)
    extents = None if scores.shape is None else static_shape(scores.shape[1:])
    if extents is None:
        raise t.unsupported("the extents of the map aren't known")
    height, width, anchors = extents
    count = height * width * anchors
    if count > _MOST:
        raise t.unsupported(f"a map of {plural(count, 'anchor')} is too large")
    boxes, fine = _moved(op, node, t, height, width)
    values = t.reshape(_floats(t, scores), [-1, count])
    if 0 < op.before < count:
        values, places = t.nodes_of("TopK", [values, t.const([op.before])], 2, axis=1)
        fine = t.node("GatherElements", [fine, places], axis=1)
        wide = t.node("Unsqueeze", [places, t.const([2])])
        boxes = t.node(
            "GatherElements", [boxes, t.node("Tile", [wide, t.const([1, 1, 4])])], axis=1
        )
    rivals = t.node("Where", [fine, values, t.const(LOWEST)])
    rows = t.node("Unsqueeze", [rivals, t.const([1])])
    most = count if op.after < 0 else op.after
    if op.iou_threshold <= 0:
        most = min(most, 1)
    overlap = float(np.clip(np.float32(op.iou_threshold) * _BELOW, 0, 1))
    settings = [t.const([most]), _number(t, overlap), _number(t, float(np.finfo(np.float32).min))]
    chosen = t.node("NonMaxSuppression", [boxes, rows, *settings])
    places = t.node("Gather", [chosen, t.const([0, 2])], axis=1)
    _give(t, node.outputs[0], t.node("GatherND", [values, places]))
    _give(t, node.outputs[1], t.node("GatherND", [boxes, places]))
    images = t.node("Gather", [chosen, t.const(np.int64(0))], axis=1)
    t.set_stored(node.outputs[2], t.cast(images, DType.INT32))


EXPORTERS: dict[type[Op], Exporter] = {
    LimitedBoxes: export_limited_boxes,
    Proposals: export_proposals,
}
