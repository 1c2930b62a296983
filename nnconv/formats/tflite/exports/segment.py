"""Ops that combine elements by the group that each belongs to, or tell the group."""

from __future__ import annotations

from nnconv.formats.tflite._gen.schema import CombinerType
from nnconv.formats.tflite.exporter import FLOAT32, Exporter, Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType
from nnconv.ops import segment as s
from nnconv.ops.gather import Reduction

_NAMES = {
    Reduction.ADD: ("UNSORTED_SEGMENT_SUM", "UnsortedSegmentSumOptions"),
    Reduction.MUL: ("UNSORTED_SEGMENT_PROD", "UnsortedSegmentProdOptions"),
    Reduction.MIN: ("UNSORTED_SEGMENT_MIN", "UnsortedSegmentMinOptions"),
    Reduction.MAX: ("UNSORTED_SEGMENT_MAX", "UnsortedSegmentMaxOptions"),
}


def export_segment(node: Node, t: Target) -> None:
    """UNSORTED_SEGMENT_SUM, _PROD, _MIN, _MAX."""
    op, y = node.op, node.outputs[0]
    data, ids, count = node.operand(0), node.operand(1), node.optional(2)
    assert isinstance(op, s.Segment)
    t.require(node, plain=frozenset({DType.FLOAT32, DType.INT32}), operands=(0,))
    if op.num_segments is not None:
        segments = t.scalar(op.num_segments)
    else:
        assert count is not None, "the verifier wants the number of segments"
        segments = t.index(count)
        if count.shape != ():
            kind = TensorType(DType.INT32, ())
            segments = t.result("RESHAPE", [segments, t.ints(())], kind, ("ReshapeOptions", {}))
    name, table = _NAMES[op.reduction]
    t.emit(name, [t.tensor(data), t.index(ids), segments], y, (table, {}))


_COMBINERS = {
    s.Combiner.SUM: CombinerType.SUM,
    s.Combiner.MEAN: CombinerType.MEAN,
    s.Combiner.SQRTN: CombinerType.SQRTN,
}


def export_embedding_sparse(node: Node, t: Target) -> None:
    """EMBEDDING_LOOKUP_SPARSE: operands ids, indices, dense shape, weights, table."""
    op, y = node.op, node.outputs[0]
    ids, indices, weights, table = (node.operand(i) for i in range(4))
    shape = node.optional(4)
    assert isinstance(op, s.EmbeddingSparse)
    t.require(node, plain=FLOAT32, operands=(2, 3))
    if op.dense_shape is not None:
        dense = t.ints(op.dense_shape)
    else:
        assert shape is not None, "the verifier wants a shape"
        dense = t.index(shape)
    operands = [t.index(ids), t.index(indices), dense, t.tensor(weights), t.tensor(table)]
    fields = {"combiner": int(_COMBINERS[op.combiner])}
    t.emit("EMBEDDING_LOOKUP_SPARSE", operands, y, ("EmbeddingLookupSparseOptions", fields))


_BUCKETED = frozenset({DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64})


def export_bucketize(node: Node, t: Target) -> None:
    """BUCKETIZE."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, s.Bucketize)
    t.require(node, plain=_BUCKETED)
    options = ("BucketizeOptions", {"boundaries": op.boundaries})
    t.emit("BUCKETIZE", [t.tensor(node.inputs[0])], y, options)


EXPORTERS: dict[type[Op], Exporter] = {
    s.Segment: export_segment,
    s.EmbeddingSparse: export_embedding_sparse,
    s.Bucketize: export_bucketize,
}
