"""Finds whole quotients rounded down, which ONNX spells by what is left over: (a - a % b) / b."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ops.elementwise import Div, FloorDiv, FloorMod, Sub
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Identity
from nnconv.passes.base import Rule, RulesPass


def _round_down(node: Node, _outputs: set[Value]) -> bool:
    y, divisor = node.outputs[0], node.operand(1)
    less = node.operand(0).producer
    if y.dtype is not DType.INT64 or less is None:
        return False
    if not isinstance(less.op, Sub) or not _is_plain(node.op) or not _is_plain(less.op):
        return False
    a, rest = less.operand(0), less.operand(1).producer
    if rest is None or not isinstance(rest.op, FloorMod) or rest.inputs != (a, divisor):
        return False
    return _narrow(node, a, divisor)


def _is_plain(op: Op) -> bool:
    return isinstance(op, Div | Sub) and op.activation is Activation.NONE


def _narrow(node: Node, a: Value, divisor: Value) -> bool:
    """Divide int32 as such, by what gives no quotient beyond, and let casts back read that."""
    y, made, data = node.outputs[0], a.producer, divisor.data
    if a.dtype is not DType.INT64 or made is None or not isinstance(made.op, Cast) or data is None:
        return False
    low, high = DType.INT32.int_range
    taken = (data >= low) & (data <= high) & (data != -1) & (data != 0)
    if made.operand(0).dtype is not DType.INT32 or not taken.all():
        return False
    assert node.graph is not None
    builder = Builder(node.graph, before=node, origin=node.origin)
    small = builder.const(data.astype(np.int32), divisor.name)
    quotient = builder.add(FloorDiv(), [made.operand(0), small])
    node.op = Cast(dtype=y.dtype)
    node.set_inputs([quotient])
    for use in list(y.uses):
        if isinstance(use.node.op, Cast) and use.node.outputs[0].dtype is DType.INT32:
            use.node.op = Identity()
            use.node.set_inputs([quotient])
    return True


class WholeQuotientsPass(RulesPass):
    """Makes a FloorDiv of what is left of a number without its remainder, divided.

    It takes numbers of 32 bits that were widened: the difference may leave those.
    """

    name: ClassVar[str] = "whole_quotients"
    rules: ClassVar[Mapping[type[Op], Rule]] = {Div: _round_down}
