"""Projections to numbers by those to bits."""

from __future__ import annotations

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import static_shape
from nnconv.ops.elementwise import Add, Mul
from nnconv.ops.hashing import LshProjection
from nnconv.ops.reduce import ReduceSum
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


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    LshProjection: (decompose_lsh_projection,),
}
