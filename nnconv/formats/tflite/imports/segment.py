"""Combining elements by the group that each belongs to."""

from __future__ import annotations

import numpy as np

from nnconv.formats.tflite._gen.schema import CombinerType
from nnconv.formats.tflite.importer import Importer, Source
from nnconv.ops.elementwise import Add
from nnconv.ops.gather import Gather, Reduction
from nnconv.ops.segment import Bucketize, Combiner, EmbeddingSparse, Segment

SEGMENTS = {
    "UNSORTED_SEGMENT_SUM": Reduction.ADD,
    "UNSORTED_SEGMENT_PROD": Reduction.MUL,
    "UNSORTED_SEGMENT_MIN": Reduction.MIN,
    "UNSORTED_SEGMENT_MAX": Reduction.MAX,
}

COMBINERS = {
    CombinerType.SUM: Combiner.SUM,
    CombinerType.MEAN: Combiner.MEAN,
    CombinerType.SQRTN: Combiner.SQRTN,
}


def import_unsorted_segment(s: Source) -> None:
    """UNSORTED_SEGMENT_SUM, _PROD, _MIN, _MAX."""
    count = s.ints(2)
    op = Segment(reduction=SEGMENTS[s.op.name], num_segments=None if count is None else count[0])
    s.emit(op, [s.operand(0), s.operand(1), s.operand(2) if count is None else None])


def import_segment_sum(s: Source) -> None:
    """SEGMENT_SUM: the ids rise, so that the last one tells how many segments there are."""
    data, ids = s.operand(0), s.operand(1)
    known = s.ints(1)
    if known is not None:
        count = known[-1] + 1 if known else 0
        s.emit(Segment(reduction=Reduction.ADD, num_segments=count), [data, ids, None])
        return
    last = s.add(Gather(axis=0, from_end=True), [ids, s.const(np.asarray(-1, np.int32))])
    count_value = s.add(Add(), [last, s.const(np.ones((), ids.dtype.numpy))])
    s.emit(Segment(reduction=Reduction.ADD, num_segments=None), [data, ids, count_value])


def import_embedding_lookup_sparse(s: Source) -> None:
    """EMBEDDING_LOOKUP_SPARSE: operands ids, indices, dense shape, weights, table."""
    number = s.options.int("combiner")
    if number not in {int(code) for code in CombinerType}:
        raise s.fail(f"combiner {number} is unknown")
    shape = s.ints(2)
    op = EmbeddingSparse(combiner=COMBINERS[CombinerType(number)], dense_shape=shape)
    dense = s.operand(2) if shape is None else None
    s.emit(op, [s.operand(0), s.operand(1), s.operand(3), s.operand(4), dense])


def import_bucketize(s: Source) -> None:
    """BUCKETIZE."""
    s.emit(Bucketize(boundaries=s.options.floats("boundaries")), [s.operand(0)])


IMPORTERS: dict[str, Importer] = {
    **dict.fromkeys(SEGMENTS, import_unsorted_segment),
    "SEGMENT_SUM": import_segment_sum,
    "EMBEDDING_LOOKUP_SPARSE": import_embedding_lookup_sparse,
    "BUCKETIZE": import_bucketize,
}
