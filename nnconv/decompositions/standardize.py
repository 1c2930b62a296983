"""Normalizations by means, differences, products: what is constant in them is worked out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.floats import of_half_floats
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import static_shape
from nnconv.ops import elementwise as e
from nnconv.ops import standardize as s
from nnconv.ops.quantize import Cast
from nnconv.ops.reduce import ReduceMean
from nnconv.ops.rewrite import reshaped
from nnconv.ops.shape import BroadcastTo, Reshape


def _number(b: Builder, number: float, like: Value) -> Value:
    return b.const(np.asarray(number, like.dtype.numpy))


def _as(b: Builder, value: Value | None, like: Value) -> Value:
    assert value is not None, "the verifier wants parameters"
    return value if value.dtype is like.dtype else b.add(Cast(dtype=like.dtype), [value])


def _along(b: Builder, value: Value, axis: int, rank: int) -> Value:
    """Parameters of each index of ``axis``, to broadcast against ``rank`` dimensions."""
    return reshaped(b, value, (-1, *[1] * (rank - 1 - axis)))


def by_constants(node: Node, b: Builder) -> list[Value] | None:
    """BatchNormalization: a product and a sum."""
    op, x = node.op, node.operand(0)
    parameters = node.inputs[1:]
    assert isinstance(op, s.BatchNormalization)
    if x.shape is None:
        return None
    scale, offset, mean, variance = (_as(b, v, x) for v in parameters)
    moved = b.add(e.Add(), [variance, _number(b, op.epsilon, variance)])
    factor = b.add(e.Div(), [scale, b.add(e.Sqrt(), [moved])])
    term = b.add(e.Sub(), [offset, b.add(e.Mul(), [mean, factor])])
    factor, term = (_along(b, v, op.axis, len(x.shape)) for v in (factor, term))
    return [b.add(e.Add(), [b.add(e.Mul(), [x, factor]), term])]


class Standard:
    """What is standardized over ``axes``, its mean, and the inverse of its deviation."""

    def __init__(self, b: Builder, x: Value, axes: Sequence[int], epsilon: float) -> None:
        over = ReduceMean(axes=tuple(axes), keep_dims=True)
        self.mean = b.add(over, [x])
        apart = b.add(e.Sub(), [x, self.mean])
        variance = b.add(over, [b.add(e.Mul(), [apart, apart])])
        self.inverse = b.add(e.Rsqrt(), [b.add(e.Add(), [variance, _number(b, epsilon, x)])])
        self.value = b.add(e.Mul(), [apart, self.inverse])


def instance(node: Node, b: Builder) -> list[Value] | None:
    """InstanceNormalization."""
    op, x = node.op, node.operand(0)
    parameters = node.inputs[1:]
    assert isinstance(op, s.InstanceNormalization)
    if x.shape is None:
        return None
    rank = len(x.shape)
    axes = [i for i in range(1, rank) if i != op.axis]
    scale, offset = (_along(b, _as(b, v, x), op.axis, rank) for v in parameters)
    scaled = b.add(e.Mul(), [Standard(b, x, axes, op.epsilon).value, scale])
    return [b.add(e.Add(), [scaled, offset])]


def group(node: Node, b: Builder) -> list[Value] | None:
    """GroupNormalization: the channels as [groups, channels of a group], spatial ones as one."""
    op, x = node.op, node.operand(0)
    parameters = node.inputs[1:]
    assert isinstance(op, s.GroupNormalization)
    if x.shape is None or not isinstance(x.shape[op.axis], int):
        return None
    rank, channels = len(x.shape), x.shape[op.axis]
    assert isinstance(channels, int)
    last = op.axis == rank - 1
    rest = [d for i, d in enumerate(x.shape) if i not in (0, op.axis)]
    area = static_shape(tuple(rest))
    known = (x.shape[0], None if area is None else int(np.prod(area)))
    if sum(not isinstance(d, int) for d in known) > 1 or (not last and op.axis != 1):
        return None
    n, count = (d if isinstance(d, int) else -1 for d in known)
    each = channels // op.groups
    dims = (n, count, op.groups, each) if last else (n, op.groups, each, count)
    shape = static_shape(x.shape)
    if shape is None and sum(not isinstance(d, int) for d in x.shape) > 1:
        return None
    whole = tuple(d if isinstance(d, int) else -1 for d in x.shape)
    parts = b.add(Reshape(shape=dims), [x])
    value = Standard(b, parts, (1, 3) if last else (2, 3), op.epsilon).value
    value = b.add(Reshape(shape=whole), [value])
    factors = []
    for parameter in parameters:
        factor = _as(b, parameter, x)
        if op.by_group:
            column = reshaped(b, factor, (op.groups, 1))
            spread = b.add(BroadcastTo(shape=(op.groups, each)), [column])
            factor = b.add(Reshape(shape=(channels,)), [spread])
        factors.append(_along(b, factor, op.axis, rank))
    return [b.add(e.Add(), [b.add(e.Mul(), [value, factors[0]]), factors[1]])]


def layer(node: Node, b: Builder) -> list[Value] | None:
    """LayerNormalization."""
    op = node.op
    x, scale, offset = node.operand(0), node.optional(1), node.optional(2)
    assert isinstance(op, s.LayerNormalization)
    if x.shape is None:
        return None
    found = Standard(b, x, range(op.axis, len(x.shape)), op.epsilon)
    result = b.add(e.Mul(), [found.value, _as(b, scale, x)])
    if offset is not None:
        result = b.add(e.Add(), [result, _as(b, offset, x)])
    if not op.statistics:
        return [result]
    return [result, *(_as(b, v, node.outputs[1]) for v in (found.mean, found.inverse))]


def rms(node: Node, b: Builder) -> list[Value] | None:
    """RmsNormalization."""
    op = node.op
    x, scale = node.operand(0), node.optional(1)
    assert isinstance(op, s.RmsNormalization)
    if x.shape is None:
        return None
    over = ReduceMean(axes=tuple(range(op.axis, len(x.shape))), keep_dims=True)
    mean = b.add(over, [b.add(e.Mul(), [x, x])])
    inverse = b.add(e.Rsqrt(), [b.add(e.Add(), [mean, _number(b, op.epsilon, x)])])
    return [b.add(e.Mul(), [b.add(e.Mul(), [x, inverse]), _as(b, scale, x)])]


def mean_variance(node: Node, b: Builder) -> list[Value] | None:
    """MeanVarianceNormalization."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, s.MeanVarianceNormalization)
    over = ReduceMean(axes=op.axes, keep_dims=True)
    apart = b.add(e.Sub(), [x, b.add(over, [x])])
    root = b.add(e.Sqrt(), [b.add(over, [b.add(e.Mul(), [apart, apart])])])
    return [b.add(e.Div(), [apart, b.add(e.Add(), [root, _number(b, 1e-9, x)])])]


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    s.BatchNormalization: (of_half_floats, by_constants),
    s.InstanceNormalization: (of_half_floats, instance),
    s.GroupNormalization: (of_half_floats, group),
    s.LayerNormalization: (of_half_floats, layer),
    s.RmsNormalization: (of_half_floats, rms),
    s.MeanVarianceNormalization: (of_half_floats, mean_variance),
}
