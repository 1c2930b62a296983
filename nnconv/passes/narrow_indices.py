"""Lets index operands be read in the type that they had before they were widened."""

from __future__ import annotations

from typing import ClassVar

from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Value
from nnconv.ir.op import Role
from nnconv.ops.quantize import Cast
from nnconv.passes.base import Pass


class NarrowIndicesPass(Pass):
    """Takes the Cast from int32 to int64 off operands that are indices.

    ONNX asks for int64 nearly everywhere, TFLite works in int32. The Casts are left to prune.
    """

    name: ClassVar[str] = "narrow_indices"

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph."""
        modified = False
        for node in graph.nodes:
            formal = node.op.operands
            for place, value in enumerate(node.inputs):
                operand = formal[min(place, len(formal) - 1)] if formal else None
                if operand is None or operand.role is not Role.INDEX or value is None:
                    continue
                narrow = _narrow(value)
                if narrow is None or narrow.dtype not in operand.types:
                    continue
                node.replace_input_with(place, narrow)
                modified = True
        return modified


def _narrow(value: Value) -> Value | None:
    """What an int64 value was widened from; None if it wasn't."""
    node = value.producer
    if value.dtype is not DType.INT64 or node is None or not isinstance(node.op, Cast):
        return None
    source = node.inputs[0]
    return source if source is not None and source.dtype is DType.INT32 else None
