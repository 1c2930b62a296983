"""Between which numbers the results of ops lie, as far as is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ops import elementwise as e
from nnconv.ops.activation import HardSigmoid
from nnconv.ops.moves import Move
from nnconv.ops.norm import L2Normalization, Softmax
from nnconv.ops.pool import AveragePool2D, MaxPool2D
from nnconv.ops.reduce import ReduceMax, ReduceMean
from nnconv.ops.resize import ResizeBilinear, ResizeNearest
from nnconv.ops.shape import Concat, Stack
from nnconv.ops.slices import Pad

Bounds: TypeAlias = tuple[float, float]

ANY: Bounds = (-math.inf, math.inf)

_FIXED: dict[type[Op], Bounds] = {
    **dict.fromkeys((e.Abs, e.Exp, e.Sqrt, e.Square), (0.0, math.inf)),
    **dict.fromkeys((HardSigmoid, e.Sigmoid, Softmax), (0.0, 1.0)),
    **dict.fromkeys((L2Normalization, e.Tanh), (-1.0, 1.0)),
}

_BETWEEN = (
    *(AveragePool2D, Concat, MaxPool2D, Move),
    *(ReduceMax, ReduceMean, ResizeBilinear, ResizeNearest),
)
"""Ops whose results lie between those of their operands, or are 0."""


def bounds_of(node: Node, known: Mapping[Value, Bounds]) -> Bounds:
    """Between which numbers a node's results lie, given what is known of its operands."""
    op = node.op
    low, high = _FIXED.get(type(op), ANY)
    if isinstance(op, e.Clip):
        low, high = op.low, op.high
    elif isinstance(op, _BETWEEN):
        moved = node.inputs if isinstance(op, Concat | Stack) else node.inputs[:1]
        sides = [ANY if v is None else known.get(v, ANY) for v in moved]
        if isinstance(op, Pad):
            given = len(node.inputs) > _PUT_IN and node.inputs[_PUT_IN] is not None
            sides.append(ANY if given else (op.value, op.value))
        low = min(0.0, *(side[0] for side in sides))
        high = max(0.0, *(side[1] for side in sides))
    activation = getattr(op, "activation", Activation.NONE)
    if activation.bounds is not None:
        low, high = max(low, activation.bounds[0]), min(high, activation.bounds[1])
    return low, high


_PUT_IN = 2
"""The operand with the number that a Pad puts in."""
