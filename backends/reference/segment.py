"""Combining elements by the group that each belongs to."""

from __future__ import annotations

from typing import Any

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel
from nnconv.backends.reference.gather import COMBINE

from nnconv.ir.dtype import DType
from nnconv.ir.op import Op
from nnconv.ops.segment import Bucketize, Combiner, EmbeddingSparse, Segment


def segment(op: Segment, data: Array, ids: Array, count: Array | None = None) -> list[Array]:
    """Segment."""
    segments = op.num_segments if count is None else int(count.reshape(()))
    assert segments is not None
    rest = data.shape[ids.ndim :]
    start = op.reduction.start(DType.of(data))
    result = np.full((segments, *rest), start, data.dtype)
    flat, slices = ids.reshape(-1), data.reshape(ids.size, *rest)
    function: Any = COMBINE[op.reduction]
    function.at(result, flat[flat >= 0].astype(np.int64), slices[flat >= 0])
    return [result]


def embedding_sparse(
    op: EmbeddingSparse,
    ids: Array,
    indices: Array,
    weights: Array,
    table: Array,
    dense_shape: Array | None = None,
) -> list[Array]:
    """EmbeddingSparse."""
    lead = tuple(op.dense_shape or () if dense_shape is None else dense_shape.tolist())[:-1]
    places = tuple(np.moveaxis(indices[:, :-1].astype(np.int64), -1, 0))
    ones = (1,) * (table.ndim - 1)
    total = np.zeros((*lead, *table.shape[1:]), table.dtype)
    np.add.at(total, places, table[ids.astype(np.int64)] * weights.reshape(-1, *ones))
    if op.combiner is Combiner.SUM:
        return [total]
    divisor, used = np.zeros(lead, table.dtype), np.zeros(lead, bool)
    used[places] = True
    if op.combiner is Combiner.MEAN:
        np.add.at(divisor, places, weights)
    else:
        np.add.at(divisor, places, np.square(weights))
        divisor = np.sqrt(divisor)
    return [total / np.where(used, divisor, 1).reshape(*lead, *ones)]


def bucketize(op: Bucketize, x: Array) -> list[Array]:
    """Bucketize."""
    values = x if x.dtype.kind == "f" else x.astype(np.float32)
    below = values[..., None] < np.asarray(op.boundaries, np.float32).astype(values.dtype)
    return [np.sum(~below, axis=-1)]


KERNELS: dict[type[Op], Kernel] = {
    Segment: segment,
    EmbeddingSparse: embedding_sparse,
    Bucketize: bucketize,
}
