"""Projections to numbers by those to bits; tables by comparing all keys."""

from __future__ import annotations

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import static_shape
from nnconv.ops.elementwise import Add, Clip, Equal, Greater, Mul, Select
from nnconv.ops.gather import Gather
from nnconv.ops.hashing import HashtableLookup, LshProjection
from nnconv.ops.quantize import Bitcast, Cast
from nnconv.ops.reduce import ArgMax, ReduceMax, ReduceSum
from nnconv.ops.shape import Reshape


def decompose_lsh_projection(node: Node, b: Builder) -> list[Value] | None:
    """Bits times powers of two, summed; int32 wraps."""
    op = node.op
    assert isinstance(op, LshProjection)
    shape = static_shape(node.operand(0).shape)
    if op.dense or shape is None:
        return None
    count, width = shape
    bits = b.add(LshProjection(dense=True), node.inputs)
    powers = (1 << np.arange(width - 1, -1, -1, dtype=np.int64)).astype(np.int32)
    table = b.add(Reshape(shape=shape), [bits])
    numbers = b.add(ReduceSum(axes=(1,)), [b.add(Mul(), [table, b.const(powers)])])
    if not op.apart:
        return [numbers]
    offsets = (np.arange(count, dtype=np.int64) << width).astype(np.int32)
    return [b.add(Add(), [numbers, b.const(offsets)])]


def decompose_hashtable_lookup(node: Node, b: Builder) -> list[Value] | None:
    """HashtableLookup: every key is compared with every other."""
    lookups, keys, table = (node.operand(i) for i in range(3))
    rank = table.type.rank
    if rank is None:
        return None
    column = b.add(Reshape(shape=(-1, 1)), [lookups])
    same = b.add(Equal(), [column, b.add(Reshape(shape=(1, -1)), [keys])])
    places = b.add(ArgMax(axis=1), [b.add(Cast(dtype=DType.INT32), [same])])
    hits = b.add(ReduceMax(axes=(1,)), [b.add(Cast(dtype=DType.INT32), [same])])
    rows = b.add(Gather(axis=0), [table, places], quant=table.quant)
    spread = b.add(Reshape(shape=(-1, *[1] * (rank - 1))), [hits])
    found = b.add(Greater(), [spread, b.const(np.zeros(1, np.int32))])
    nothing = b.const(np.zeros(1, table.dtype.numpy), quant=table.quant)
    kind = node.outputs[1].type
    counts = b.add(Cast(dtype=DType.UINT8), [b.add(Clip(low=0.0, high=1.0), [hits])])
    if kind.quant is not None:
        counts = b.add(Bitcast(dtype=DType.UINT8), [counts], quant=kind.quant)
    return [b.add(Select(), [found, rows, nothing], quant=table.quant), counts]


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    HashtableLookup: (decompose_hashtable_lookup,),
    LshProjection: (decompose_lsh_projection,),
}
