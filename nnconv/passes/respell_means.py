"""Finds means of windows that are spelled as depthwise convolutions, or with a move behind.

``float_mean`` writes such ONNX files, as onnxruntime is quicker at them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Layout, Op
from nnconv.ir.types import static_shape
from nnconv.ops.conv import Conv2D
from nnconv.ops.elementwise import Mul
from nnconv.ops.pool import AveragePool2D
from nnconv.ops.reduce import Reduction
from nnconv.ops.shape import Reshape, Squeeze
from nnconv.passes.base import Rule, RulesPass
from nnconv.passes.terms import is_plain

_TOLERANCE = 1e-5


def _drop_dims(node: Node, outputs: set[Value]) -> bool:
    """Let a reduction do without the dimensions that a move behind it takes away."""
    x, y = node.inputs[0], node.outputs[0]
    maker = None if x is None else x.producer
    if maker is None or x is None or not isinstance(maker.op, Reduction):
        return False
    op = maker.op
    if not op.keep_dims or op.axes is None or x.shape is None or x.quant != y.quant:
        return False
    shape = tuple(dim for axis, dim in enumerate(x.shape) if axis not in op.axes)
    if y.shape != shape or None in shape or x.use_count != 1 or x in outputs:
        return False
    node.op = op.replace(keep_dims=False)
    node.set_inputs(maker.inputs)
    return True


def _weight(node: Node, op: Conv2D) -> float | None:
    """The one weight of a plain depthwise convolution of floats."""
    x, weights = node.inputs[:2]
    bias = node.optional(2)
    if op.layout is not Layout.NHWC or op.padding.same or max(op.dilation) > 1:
        return None
    if x is None or x.shape is None or weights is None or weights.data is None:
        return None
    if not is_plain(x) or not is_plain(weights) or not op.groups == x.shape[3] == len(weights.data):
        return None
    if bias is not None and (bias.data is None or bool(np.any(bias.data))):
        return None
    first = weights.data.flat[0]
    return float(first) if first > 0 and bool(np.all(weights.data == first)) else None


def _as_mean(node: Node, outputs: set[Value]) -> bool:
    """Make a depthwise convolution of floats with equal weights the mean that it is.

    With pads, the product behind it, which makes up for what they take from the mean, is part of
    it.
    """
    op = node.op
    assert isinstance(op, Conv2D)
    weight = _weight(node, op)
    if weight is None:
        return False
    weights = node.operand(1)
    assert weights.data is not None
    window = (weights.data.shape[1], weights.data.shape[2])
    pool = AveragePool2D(
        window=window, stride=op.stride, padding=op.padding, activation=op.activation
    )
    if op.padding.is_zero:
        if not np.isclose(weight * window[0] * window[1], 1, rtol=_TOLERANCE):
            return False
        node.op = pool
        node.set_inputs([node.inputs[0]])
        return True
    y = node.outputs[0]
    if op.activation is not Activation.NONE or y.use_count != 1 or y in outputs:
        return False
    product = y.uses[0].node
    factors = _factors(product, y)
    counts = _counts(node, window, op)
    if factors is None or counts is None or factors.shape != counts.shape:
        return False
    if not np.allclose(factors * weight * counts, 1, rtol=_TOLERANCE):
        return False
    assert isinstance(product.op, Mul)
    product.op = pool.replace(activation=product.op.activation)
    product.set_inputs([node.inputs[0]])
    return True


def _factors(product: Node, y: Value) -> np.ndarray | None:
    """What a product multiplies each place of ``y`` with: [H, W]."""
    if not isinstance(product.op, Mul) or product.outputs[0].shape != y.shape:
        return None
    other = next((v for v in product.inputs if v is not y), None)
    shape = static_shape((y.shape or ())[1:3])
    if other is None or other.data is None or not is_plain(other) or shape is None:
        return None
    data = other.data.reshape((1,) * (4 - other.data.ndim) + other.data.shape)
    if data.shape[0] != 1 or data.shape[3] != 1:
        return None
    return np.broadcast_to(data[0, :, :, 0], shape)


def _counts(node: Node, window: tuple[int, int], op: Conv2D) -> np.ndarray | None:
    """How many elements each window covers: [H, W]."""
    x, y = node.operand(0), node.outputs[0]
    given, made = static_shape((x.shape or ())[1:3]), static_shape((y.shape or ())[1:3])
    if given is None or made is None:
        return None
    sides = []
    for i in range(2):
        starts = np.arange(made[i]) * op.stride[i] - op.padding.before[i]
        ends = np.minimum(starts + window[i], given[i])
        sides.append(ends - np.maximum(starts, 0))
    return np.outer(*sides)


class RespellMeansPass(RulesPass):
    """Makes means of what they are spelled as. Layouts are settled."""

    name: ClassVar[str] = "respell_means"
    rules: ClassVar[Mapping[type[Op], Rule]] = {
        Conv2D: _as_mean,
        Reshape: _drop_dims,
        Squeeze: _drop_dims,
    }
