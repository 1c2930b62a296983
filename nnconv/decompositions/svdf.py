"""Svdf whose state isn't an operator's own."""

from __future__ import annotations

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.recurrent import product
from nnconv.decompositions.rnn import activated, real
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import static_shape
from nnconv.ops import elementwise as e
from nnconv.ops.reduce import ReduceSum
from nnconv.ops.shape import Concat, Reshape, Unsqueeze
from nnconv.ops.slices import Slice
from nnconv.ops.svdf import Svdf


def decompose_svdf(node: Node, b: Builder) -> list[Value] | None:
    """Svdf in floats."""
    op = node.op
    assert isinstance(op, Svdf)
    x, features, times, bias, state = (real(b, v) for v in node.inputs)
    assert x is not None
    assert features is not None
    assert times is not None
    assert state is not None
    shape = static_shape(times.shape)
    if shape is None or any(v.dtype is not w.dtype for v, w in _pairs(node, x, state)):
        return None
    filters, memory = shape
    newest = b.add(Unsqueeze(axes=(2,)), [product(b, x, features)])
    history = b.add(Reshape(shape=(-1, filters, memory)), [state])
    if memory > 1:
        cut = Slice(starts=(0, 0, 1), ends=(None,) * 3, strides=(1, 1, 1))
        history = b.add(Concat(axis=2), [b.add(cut, [history]), newest])
    else:
        history = newest
    weighted = b.add(e.Mul(), [history, times])
    grouped = b.add(Reshape(shape=(-1, filters // op.rank, op.rank * memory)), [weighted])
    result = b.add(ReduceSum(axes=(2,), keep_dims=False), [grouped])
    if bias is not None:
        result = b.add(e.Add(), [result, bias])
    last = b.add(Reshape(shape=(-1, filters * memory)), [history])
    return [activated(b, result, op.activation), last]


def _pairs(node: Node, x: Value, state: Value) -> list[tuple[Value, Value]]:
    """The results with what has the type that they come out in."""
    return list(zip(node.outputs, (x, state), strict=True))


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {Svdf: (decompose_svdf,)}
