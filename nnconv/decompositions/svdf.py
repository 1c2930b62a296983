"""Svdf whose state isn't an operator's own, and that on integers where a format has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.recurrent import product
from nnconv.decompositions.rnn import activated, real
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import static_shape
from nnconv.ops import elementwise as e
from nnconv.ops.quantize import Cast, Dequantize, Quantize
from nnconv.ops.reduce import ReduceSum
from nnconv.ops.shape import Concat, Reshape, Unsqueeze
from nnconv.ops.slices import Slice
from nnconv.ops.svdf import QuantizedSvdf, Svdf


def decompose_svdf(node: Node, b: Builder) -> list[Value] | None:
    """Svdf in floats."""
    op = node.op
    assert isinstance(op, Svdf)
    values = [real(b, v) for v in node.inputs]
    if any(v.type.has_codes for v in node.outputs):
        return None
    found = _computed(b, values, op.rank)
    if found is None:
        return None
    result, last = found
    made = [activated(b, result, op.activation), last]
    return [
        new if new.dtype is old.dtype else b.add(Cast(dtype=old.dtype), [new])
        for old, new in zip(node.outputs, made, strict=True)
    ]


def quantized_svdf(node: Node, b: Builder) -> list[Value] | None:
    """QuantizedSvdf in floats, its states rounded as its own are: at most a code beside it."""
    op = node.op
    assert isinstance(op, QuantizedSvdf)
    given = [v for v in node.inputs if v is not None]
    if not all(v.type.has_codes for v in (*given, *node.outputs)):
        return None
    kind = node.outputs[1].type

    def rounded(newest: Value) -> Value:
        codes = b.add(Quantize(dtype=kind.dtype), [newest], quant=kind.quant)
        return b.add(Dequantize(dtype=DType.FLOAT32), [codes])

    found = _computed(b, [real(b, v) for v in node.inputs], op.rank, rounded)
    if found is None:
        return None
    return [
        b.add(Quantize(dtype=old.dtype), [new], quant=old.quant)
        for old, new in zip(node.outputs, found, strict=True)
    ]


def _computed(
    b: Builder,
    values: Sequence[Value | None],
    rank: int,
    rounded: Callable[[Value], Value] = lambda newest: newest,
) -> tuple[Value, Value] | None:
    """The result, before its activation, and the state of an Svdf of real numbers."""
    x, features, times, bias, state = values
    assert x is not None
    assert features is not None
    assert times is not None
    assert state is not None
    shape = static_shape(times.shape)
    if shape is None:
        return None
    filters, memory = shape
    newest = b.add(Unsqueeze(axes=(2,)), [rounded(product(b, x, features))])
    history = b.add(Reshape(shape=(-1, filters, memory)), [state])
    if memory > 1:
        cut = Slice(starts=(0, 0, 1), ends=(None,) * 3, strides=(1, 1, 1))
        history = b.add(Concat(axis=2), [b.add(cut, [history]), newest])
    else:
        history = newest
    weighted = b.add(e.Mul(), [history, times])
    grouped = b.add(Reshape(shape=(-1, filters // rank, rank * memory)), [weighted])
    result = b.add(ReduceSum(axes=(2,), keep_dims=False), [grouped])
    if bias is not None:
        result = b.add(e.Add(), [result, bias])
    return result, b.add(Reshape(shape=(-1, filters * memory)), [history])


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    Svdf: (decompose_svdf,),
    QuantizedSvdf: (quantized_svdf,),
}
