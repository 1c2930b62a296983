"""Counting n-grams by comparing each place of a sequence with each of them."""

from __future__ import annotations

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops.elementwise import Add, Equal, LogicalAnd, Minimum
from nnconv.ops.matmul import FullyConnected
from nnconv.ops.ngrams import NGram, TfIdf
from nnconv.ops.quantize import Cast
from nnconv.ops.reduce import ReduceSum
from nnconv.ops.shape import Concat, Squeeze, Unsqueeze
from nnconv.ops.slices import Slice

_MOST = 1 << 24
"""Comparisons of places and n-grams: beyond that nobody would want to run it."""


def _counts(b: Builder, x: Value, grams: list[NGram], distance: int) -> Value | None:
    """The counts [N, G] in x [N, L, 1] of n-grams of one length, ``distance`` between numbers."""
    length, rows = len(grams[0].numbers), (x.shape or (None,) * 3)[1]
    assert isinstance(rows, int), "the caller knows the length"
    places = rows - distance * (length - 1)
    if places < 1:
        return None
    found = None
    for item in range(length):
        start = item * distance
        cut = Slice(starts=(0, start, 0), ends=(None, start + places, None), strides=(1, 1, 1))
        part = b.add(cut, [x]) if places < rows else x
        wanted = np.asarray([[[g.numbers[item] for g in grams]]], x.dtype.numpy)
        same = b.add(Equal(), [part, b.const(wanted)])
        found = same if found is None else b.add(LogicalAnd(), [found, same])
    assert found is not None
    numbers = b.add(Cast(dtype=DType.FLOAT32), [found])
    return b.add(ReduceSum(axes=(1,), keep_dims=False), [numbers])


def decompose_tf_idf(node: Node, b: Builder) -> list[Value] | None:
    """TfIdf of sequences of known length."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, TfIdf)
    if x.shape is None or not isinstance(x.shape[-1], int):
        return None
    if x.shape[-1] * len(op.grams) * (op.skips + 1) * op.longest > _MOST:
        return None
    single = len(x.shape) == 1
    x = b.add(Unsqueeze(axes=(0, 2) if single else (2,)), [x])
    totals, grams = [], []
    for group in op.counted().values():
        parts = [_counts(b, x, group, d) for d in op.distances(len(group[0].numbers))]
        given = [v for v in parts if v is not None]
        if not given:
            continue
        total = given[0]
        for more in given[1:]:
            total = b.add(Add(), [total, more])
        totals.append(total)
        grams += group
    if not totals:
        return None
    total = totals[0] if len(totals) == 1 else b.add(Concat(axis=1), totals)
    if op.mode == "IDF":
        total = b.add(Minimum(), [total, b.const(np.ones((), np.float32))])
    weights = np.zeros((op.size, len(grams)), np.float32)
    for column, gram in enumerate(grams):
        weights[gram.place, column] = 1.0 if op.mode == "TF" else gram.weight
    result = b.add(FullyConnected(), [total, b.const(weights)])
    if not single:
        return [result]
    return [b.add(Squeeze(axes=(0,)), [result])]


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {TfIdf: (decompose_tf_idf,)}
