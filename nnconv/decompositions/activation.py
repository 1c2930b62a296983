"""Activations by exponentials, clamps and choices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.constants import scalar, times
from nnconv.decompositions.floats import of_integers
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ops import activation as a
from nnconv.ops import elementwise as e

_RELU = e.Clip(low=0.0, high=math.inf)


def softplus(node: Node, b: Builder) -> Sequence[Value]:
    """max(x, 0) + log(1 + e**-|x|), which doesn't overflow."""
    x = node.operand(0)
    power = b.add(e.Exp(), [b.add(e.Neg(), [b.add(e.Abs(), [x])])])
    rest = b.add(e.Log(), [b.add(e.Add(), [power, scalar(b, 1, x)])])
    return [b.add(e.Add(), [b.add(_RELU, [x]), rest])]


def softsign(node: Node, b: Builder) -> Sequence[Value]:
    """Softsign as x / (1 + |x|)."""
    x = node.operand(0)
    return [b.add(e.Div(), [x, b.add(e.Add(), [b.add(e.Abs(), [x]), scalar(b, 1, x)])])]


def mish(node: Node, b: Builder) -> Sequence[Value]:
    """Mish as x * n / (n + 2) with p = e**x and n = p * (p + 2), p bounded where that is x."""
    x = node.operand(0)
    two = scalar(b, 2, x)
    power = b.add(e.Exp(), [b.add(e.Minimum(), [x, scalar(b, 20, x)])])
    factor = b.add(e.Mul(), [power, b.add(e.Add(), [power, two])])
    gate = b.add(e.Div(), [factor, b.add(e.Add(), [factor, two])])
    return [b.add(e.Mul(), [x, gate])]


def swish(node: Node, b: Builder) -> Sequence[Value]:
    """Swish as x * sigmoid(alpha * x)."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, a.Swish)
    return [b.add(e.Mul(), [x, b.add(e.Sigmoid(), [times(x, op.alpha, b)])])]


def _rise(x: Value, b: Builder) -> Value:
    """e**min(x, 0) - 1."""
    power = b.add(e.Exp(), [b.add(e.Minimum(), [x, scalar(b, 0, x)])])
    return b.add(e.Sub(), [power, scalar(b, 1, x)])


def selu(node: Node, b: Builder) -> Sequence[Value]:
    """Selu as gamma * max(x, 0) + gamma * alpha * (e**min(x, 0) - 1)."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, a.Selu)
    above = times(b.add(_RELU, [x]), op.gamma, b)
    return [b.add(e.Add(), [above, times(_rise(x, b), op.gamma * op.alpha, b)])]


def celu(node: Node, b: Builder) -> Sequence[Value]:
    """max(x, 0) + alpha * (e**min(x / alpha, 0) - 1), for a positive alpha."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, a.Celu)
    if op.alpha == 0:
        return [b.add(_RELU, [x])]
    scaled = x if op.alpha == 1 else b.add(e.Div(), [x, scalar(b, op.alpha, x)])
    if op.alpha > 0:
        below = times(_rise(scaled, b), op.alpha, b)
    else:
        power = b.add(e.Sub(), [b.add(e.Exp(), [scaled]), scalar(b, 1, x)])
        below = b.add(e.Minimum(), [times(power, op.alpha, b), scalar(b, 0, x)])
    return [b.add(e.Add(), [b.add(_RELU, [x]), below])]


def thresholded(node: Node, b: Builder) -> Sequence[Value]:
    """The elements greater than alpha, 0 for the others."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, a.ThresholdedRelu)
    above = b.add(e.Greater(), [x, scalar(b, op.alpha, x)])
    return [b.add(e.Select(), [above, x, scalar(b, 0, x)])]


def hard_sigmoid(node: Node, b: Builder) -> Sequence[Value]:
    """relu6(6 * (alpha * x + beta)) / 6: kernels clamp to 6 as they add."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, a.HardSigmoid)
    scaled = times(x, 6 * op.alpha if abs(6 * op.alpha - 1) > 1e-7 else 1.0, b)
    moved = b.add(e.Add(activation=Activation.RELU6), [scaled, scalar(b, 6 * op.beta, x)])
    return [times(moved, 1 / 6, b)]


def shrink(node: Node, b: Builder) -> Sequence[Value]:
    """Elements further than lambd from 0 moved toward it by bias, 0 for the others."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, a.Shrink)
    above = b.add(e.Greater(), [x, scalar(b, op.lambd, x)])
    below = b.add(e.Less(), [x, scalar(b, -op.lambd, x)])
    bias = scalar(b, op.bias, x)
    high = b.add(e.Select(), [above, b.add(e.Sub(), [x, bias]), scalar(b, 0, x)])
    return [b.add(e.Select(), [below, b.add(e.Add(), [x, bias]), high])]


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    a.Softplus: (of_integers, softplus),
    a.Softsign: (of_integers, softsign),
    a.Mish: (of_integers, mish),
    a.Swish: (of_integers, swish),
    a.Selu: (of_integers, selu),
    a.Celu: (of_integers, celu),
    a.ThresholdedRelu: (of_integers, thresholded),
    a.HardSigmoid: (of_integers, hard_sigmoid),
    a.Shrink: (of_integers, shrink),
}
