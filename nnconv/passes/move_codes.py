"""Moves codes in place of the real numbers that they stand for."""

from __future__ import annotations

from typing import ClassVar

from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation
from nnconv.ir.types import TensorType
from nnconv.ops.pool import MaxPool2D
from nnconv.ops.quantize import Dequantize
from nnconv.ops.shape import Reshape, Squeeze, Transpose, Unsqueeze
from nnconv.ops.slices import Slice

_MOVES = (Reshape, Squeeze, Unsqueeze, Transpose, Slice)


class MoveCodesPass:
    """Puts moves behind a Dequantize in front of it, where they take a quarter of the bytes.

    onnxruntime's optimizer wants them there as well: on x64 it fails to load a file of opset 21 or
    more in which one follows a DequantizeLinear of int8.
    """

    name: ClassVar[str] = "move_codes"
    requires: ClassVar[tuple[str, ...]] = ()

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph; what nothing reads any more is left to prune."""
        modified = False
        for node in graph.nodes:
            codes = _codes(node)
            if codes is not None:
                _exchange(node, codes)
                modified = True
        return modified


def _codes(node: Node) -> Value | None:
    """The codes behind a node's operand, if they can be moved instead of it."""
    op = node.op
    if not isinstance(op, _MOVES) and not (
        isinstance(op, MaxPool2D) and op.activation is Activation.NONE
    ):
        return None
    x = node.inputs[0]
    before = None if x is None else x.producer
    if before is None or before.graph is not node.graph or not isinstance(before.op, Dequantize):
        return None
    codes = before.inputs[0]
    if codes is None or codes.data is not None or not codes.dtype.is_integer:
        return None
    return codes if codes.quant is not None and codes.quant.is_per_tensor else None


def _exchange(node: Node, codes: Value) -> None:
    """Let ``node`` dequantize what the move makes of ``codes``."""
    x, result = node.inputs[0], node.outputs[0]
    assert x is not None
    assert x.producer is not None
    assert node.graph is not None
    moved = Value(result.name, TensorType(codes.dtype, result.shape, codes.quant))
    move = Node(node.op, [codes, *node.inputs[1:]], [moved], origin=node.origin)
    node.graph.insert_before(node, move)
    node.op = x.producer.op
    node.set_inputs([moved])
