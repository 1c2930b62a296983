"""Ops that combine elements by the group that each belongs to, or tell the group."""

from __future__ import annotations

import numpy as np

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.exports.shape import Extent, combine, extent
from nnconv.formats.onnx.scatter import cut, full, rank_of, scatter, shape_of
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops.gather import Reduction
from nnconv.ops.segment import Bucketize, Combiner, EmbeddingSparse, Segment


def export_segment(node: Node, t: Target) -> None:
    """Segment: ScatterND into what segments start from; a last segment catches negative ids."""
    op, y = node.op, node.outputs[0]
    data, ids, count = node.operand(0), node.operand(1), node.optional(2)
    assert isinstance(op, Segment)
    segments: Extent = (
        op.num_segments if op.num_segments is not None else t.reshape(t.int64(count), [1])
    )
    rest = shape_of(t, data, rank_of(t, ids))
    catches = ids.data is None or bool(np.any(ids.data < 0))
    places = t.int64(ids)
    rows = segments
    if catches:
        rows = combine(t, "Add", segments, 1)
        last = t.const([segments]) if isinstance(segments, int) else segments
        negative = t.node("Less", [places, t.const(np.int64(0))])
        places = t.node("Where", [negative, last, places])
    dtype = t.real_type(data)
    start = op.reduction.start(dtype)
    result = scatter(
        t,
        full(t, start, [rows, *rest], dtype),
        t.node("Unsqueeze", [places, t.const([-1])]),
        t.real(data),
        reduction=op.reduction,
        dtype=dtype,
        start=t.const(np.asarray(start, dtype.numpy)),
        depth=1,
    )
    if catches:
        result = cut(t, result, 0, -1)
    t.set_real(y, result)


def export_embedding_sparse(node: Node, t: Target) -> None:
    """EmbeddingSparse: Gather, Mul, ScatterND; then Div where entries met."""
    op, y = node.op, node.outputs[0]
    ids, indices, weights, table = (node.operand(i) for i in range(4))
    dense = node.optional(4)
    assert isinstance(op, EmbeddingSparse)
    dims = indices.shape[1] if indices.shape is not None else None
    assert isinstance(dims, int)
    lead: list[Extent]
    if op.dense_shape is not None:
        lead = list(op.dense_shape[:-1])
    else:
        sizes = t.int64(dense)
        lead = [cut(t, sizes, axis, axis + 1) for axis in range(dims - 1)]
    row, dtype = shape_of(t, table, 1), t.real_type(table)
    ends = [t.const([0]), t.const([-1]), t.const([1])]
    places = t.node("Slice", [t.int64(indices), *ends])
    weight = t.real(weights)

    def added(updates: str, sizes: list[Extent]) -> str:
        zero = t.const(np.zeros((), dtype.numpy))
        base = full(t, 0, sizes, dtype)
        return scatter(
            t,
            base,
            places,
            updates,
            reduction=Reduction.ADD,
            dtype=dtype,
            start=zero,
            depth=len(lead),
        )

    rows = t.node("Gather", [t.real(table), t.int64(ids)])
    spread = t.reshape(weight, [-1, *[1] * len(row)]) if row else weight
    total = added(t.node("Mul", [rows, spread]), [*lead, *row])
    if op.combiner is Combiner.SUM:
        t.set_real(y, total)
        return
    if op.combiner is Combiner.MEAN:
        divisor = added(weight, lead)
    else:
        divisor = t.node("Sqrt", [added(t.node("Mul", [weight, weight]), lead)])
    count = added(full(t, 1, [extent(t, ids, 0)], dtype), lead)
    one, nothing = t.const(np.ones((), dtype.numpy)), t.const(np.zeros((), dtype.numpy))
    divisor = t.node("Where", [t.node("Greater", [count, nothing]), divisor, one])
    if row:
        axes = list(range(len(lead), len(lead) + len(row)))
        divisor = t.node("Unsqueeze", [divisor, t.const(axes)])
    t.set_real(y, t.node("Div", [total, divisor]))


def export_bucketize(node: Node, t: Target) -> None:
    """Bucketize: how many boundaries x isn't less than."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, Bucketize)
    t.set_stored(y, _boundaries_met(op, x, t))


def _boundaries_met(op: Bucketize, x: Value, t: Target) -> str:
    name, kind = t.stored(x), DType.FLOAT64
    if x.dtype is not DType.FLOAT64:
        kind = DType.FLOAT32
        name = name if x.dtype is kind else t.cast(name, kind)
    spread = t.node("Unsqueeze", [name, t.const([-1])])
    bounds = t.const(np.asarray(op.boundaries, np.float32).astype(kind.numpy))
    met = t.node("Not", [t.node("Less", [spread, bounds])])
    return t.node("ReduceSum", [t.cast(met, DType.INT32), t.const([-1])], keepdims=0)


EXPORTERS: dict[type[Op], Exporter] = {
    Segment: export_segment,
    EmbeddingSparse: export_embedding_sparse,
    Bucketize: export_bucketize,
}
