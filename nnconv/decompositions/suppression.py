"""Taking boxes one after the other without a loop: so many turns, written out, as may be wanted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.decompositions.arithmetic import Arithmetic
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ops import elementwise as e
from nnconv.ops.detection import NonMaxSuppression
from nnconv.ops.gather import Gather
from nnconv.ops.reduce import ArgMax, ReduceMax
from nnconv.ops.shape import Concat, Reshape
from nnconv.ops.slices import Slice

OUT = float(np.finfo(np.float32).min)
"""The score of what is taken, or dropped out."""

MOST_TURNS = 256
"""More are no model that anybody would want."""


def by_turns(node: Node, b: Builder) -> list[Value] | None:
    """NonMaxSuppression of known numbers of boxes: each turn takes the best, if there is one left.

    Scores that aren't finite, or the least that are, count as dropped out.
    """
    op, boxes, scores = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, NonMaxSuppression)
    limit, overlap, lowest, sigma = (node.optional(i) for i in range(2, 6))
    count = scores.shape[0] if scores.shape else None
    if limit is not None or op.limit is None or not isinstance(count, int) or not count:
        return None
    if sigma is not None and sigma.data is None:
        return None
    turns = min(op.limit, count)
    if not 0 < turns <= MOST_TURNS or overlap is None or lowest is None:
        return None
    width = 0.0 if sigma is None or sigma.data is None else float(sigma.data.reshape(-1)[0])
    a = Arithmetic(b)
    sides = _Sides(boxes, a)
    least = a.do(e.Greater(), scores, lowest)
    live = a.do(e.Select(), least, scores, OUT)
    taken, values = [], []
    for _ in range(turns):
        best = b.add(ArgMax(axis=0, keep_dims=True, dtype=DType.INT32), [live])
        top = b.add(ReduceMax(axes=(0,), keep_dims=True), [live])
        some = a.do(e.Greater(), top, OUT)
        taken.append((best, some))
        values.append(a.do(e.Select(), some, top, 0.0))
        common = sides.overlaps(best)
        rivals = a.do(e.GreaterEqual(), common, overlap)
        weaker = live
        if width > 0:
            factor = b.add(e.Exp(), [a.mul(common, common, -0.5 / width)])
            weaker = a.mul(live, factor)
            rivals = a.do(e.LogicalOr(), rivals, a.do(e.LessEqual(), weaker, lowest))
        itself = b.add(e.Equal(), [best, a.ints(np.arange(count))])
        gone = b.add(e.LogicalOr(), [rivals, itself])
        live = a.do(e.Select(), gone, OUT, a.do(e.Maximum(), weaker, OUT))
    return _results(op, taken, values, a)


class _Sides:
    """The lower and upper ends of boxes along both axes, and their areas, each [n]."""

    def __init__(self, boxes: Value, a: Arithmetic) -> None:
        columns = [_column(boxes, i, a.b) for i in range(4)]
        ends = [(columns[i], columns[i + 2]) for i in (0, 1)]
        self.low = [a.do(e.Minimum(), *pair) for pair in ends]
        self.high = [a.do(e.Maximum(), *pair) for pair in ends]
        extents = [a.sub(high, low) for low, high in zip(self.low, self.high, strict=True)]
        self.area, self.a = a.mul(*extents), a

    def overlaps(self, best: Value) -> Value:
        """The overlap of each box with one of them, 0 beside one without area."""
        a = self.a

        def own(x: Value) -> Value:
            return a.b.add(Gather(axis=0), [x, best])

        shared = []
        for low, high in zip(self.low, self.high, strict=True):
            end = a.do(e.Minimum(), high, own(high))
            start = a.do(e.Maximum(), low, own(low))
            shared.append(a.do(e.Maximum(), a.sub(end, start), 0.0))
        common, area = a.mul(*shared), own(self.area)
        solid = a.do(e.Greater(), a.do(e.Minimum(), self.area, area), 0.0)
        union = a.sub(a.add(self.area, area), common)
        part = a.do(e.Div(), common, a.do(e.Select(), solid, union, 1.0))
        return a.do(e.Select(), solid, part, 0.0)


def _column(boxes: Value, index: int, b: Builder) -> Value:
    cut = Slice(starts=(0, index), ends=(None, index + 1), strides=(1, 1))
    return b.add(Reshape(shape=(-1,)), [b.add(cut, [boxes])])


def _results(
    op: NonMaxSuppression,
    taken: Sequence[tuple[Value, Value]],
    values: Sequence[Value],
    a: Arithmetic,
) -> list[Value]:
    """Indices, scores where asked for, and the count; zeros behind what was taken."""
    assert op.limit is not None
    marks = [a.cast(some, DType.INT32) for _, some in taken]
    indices = [a.b.add(e.Mul(), [best, mark]) for (best, _), mark in zip(taken, marks, strict=True)]
    total = marks[0]
    for mark in marks[1:]:
        total = a.b.add(e.Add(), [total, mark])
    free = op.limit - len(taken)
    lists = [_list(indices, np.zeros(free, np.int32), a.b)]
    if op.with_scores:
        lists.append(_list(values, np.zeros(free, np.float32), a.b))
    return [*lists, a.b.add(Reshape(shape=()), [total])]


def _list(parts: Sequence[Value], rest: np.ndarray, b: Builder) -> Value:
    several = [*parts, b.const(rest)] if rest.size else list(parts)
    return several[0] if len(several) == 1 else b.add(Concat(axis=0), several)
