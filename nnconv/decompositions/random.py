"""Random draws from those that TFLite has: float32 from 0 to 1, or of mean 0 and deviation 1."""

from __future__ import annotations

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import static_shape
from nnconv.ops.elementwise import Add, Less, Mul
from nnconv.ops.quantize import Cast
from nnconv.ops.random import Bernoulli, RandomNormal, RandomUniform, Seeds
from nnconv.ops.shape import ShapeOf


def _sizes(b: Builder, like: Value) -> tuple[tuple[int, ...] | None, list[Value | None]]:
    """The attribute and the operands that give a draw the shape of a value."""
    shape = static_shape(like.shape)
    return shape, [] if shape is not None else [b.add(ShapeOf(dtype=DType.INT32), [like])]


def _moved(b: Builder, x: Value, factor: float, term: float, dtype: DType) -> Value:
    if factor != 1.0:
        x = b.add(Mul(), [x, b.const(np.asarray(factor, np.float32))])
    if term != 0.0:
        x = b.add(Add(), [x, b.const(np.asarray(term, np.float32))])
    return x if dtype is DType.FLOAT32 else b.add(Cast(dtype=dtype), [x])


def _operands(b: Builder, node: Node) -> tuple[tuple[int, ...] | None, list[Value | None]]:
    op = node.op
    assert isinstance(op, RandomUniform | RandomNormal)
    shape, like = (*node.inputs, None, None)[:2]
    if like is not None:
        return _sizes(b, like)
    return op.shape, [] if op.shape is not None else [shape]


def decompose_random_uniform(node: Node, b: Builder) -> list[Value] | None:
    """A draw from 0 to 1, times the range, from its start."""
    op = node.op
    assert isinstance(op, RandomUniform)
    shape, operands = _operands(b, node)
    plain = RandomUniform(shape=shape, seeds=op.seeds)
    if (plain, operands) == (op, list(node.inputs)):
        return None
    return [_moved(b, b.add(plain, operands), op.high - op.low, op.low, op.dtype)]


def decompose_random_normal(node: Node, b: Builder) -> list[Value] | None:
    """A draw of mean 0 and deviation 1, times the deviation, and the mean."""
    op = node.op
    assert isinstance(op, RandomNormal)
    shape, operands = _operands(b, node)
    plain = RandomNormal(shape=shape, seeds=op.seeds)
    if (plain, operands) == (op, list(node.inputs)):
        return None
    return [_moved(b, b.add(plain, operands), op.deviation, op.mean, op.dtype)]


def decompose_bernoulli(node: Node, b: Builder) -> list[Value]:
    """Whether a draw from 0 to 1 is below the probability."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, Bernoulli)
    if x.dtype is not DType.FLOAT32:
        x = b.add(Cast(dtype=DType.FLOAT32), [x])
    below = b.add(Less(), [_uniform(b, x, op.seeds), x])
    return [below if op.dtype is DType.BOOL else b.add(Cast(dtype=op.dtype), [below])]


def _uniform(b: Builder, like: Value, seeds: Seeds) -> Value:
    shape, operands = _sizes(b, like)
    return b.add(RandomUniform(shape=shape, seeds=seeds), operands)


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    RandomUniform: (decompose_random_uniform,),
    RandomNormal: (decompose_random_normal,),
    Bernoulli: (decompose_bernoulli,),
}
