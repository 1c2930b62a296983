"""Moves codes in place of the real numbers that they stand for."""

from __future__ import annotations

from typing import ClassVar

from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation
from nnconv.ir.types import TensorType
from nnconv.ops.elementwise import Clip
from nnconv.ops.pool import MaxPool2D
from nnconv.ops.quantize import Dequantize, Quantize
from nnconv.ops.shape import Reshape, Squeeze, Transpose, Unsqueeze
from nnconv.ops.slices import Slice
from nnconv.passes.base import Pass

_RESHAPES = (Reshape, Squeeze, Unsqueeze, Transpose)


class MoveCodesPass(Pass):
    """Puts moves behind a Dequantize or in front of a Quantize on the codes' side of it.

    They move a quarter of the bytes there. onnxruntime's optimizer wants them there as well, and
    goes wrong where it has to see to that itself: on x64 it fails to load a file of opset 21 or
    more in which one follows a DequantizeLinear of int8; and it rounds a graph's output where a
    move of that and then a QuantizeLinear follow. Where a move is only a part of an op, the
    exporter of Dequantize keeps onnxruntime from that.
    """

    name: ClassVar[str] = "move_codes"

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph; what nothing reads any more is left to prune."""
        modified = False
        outputs = graph.output_set()
        for node in graph.nodes:
            codes = _codes_behind(node)
            if codes is not None:
                _move_before(node, codes)
                modified = True
            while isinstance(node.op, Quantize):
                move = _move_of(node, outputs)
                if move is None:
                    break
                node = _quantize_before(node, move)  # noqa: PLW2901 # a chain, upward
                modified = True
        return modified


def _is_move(node: Node) -> bool:
    op = node.op
    return isinstance(op, (*_RESHAPES, Slice)) or (
        isinstance(op, MaxPool2D)
        and (op.activation is Activation.NONE or op.activation.bounds is not None)
    )


def _codes_behind(node: Node) -> Value | None:
    """The codes behind a move's operand, if they can be moved instead of it."""
    x = node.inputs[0] if node.inputs else None
    if x is None or not _is_move(node):
        return None
    before = x.producer
    if before is None or before.graph is not node.graph or not isinstance(before.op, Dequantize):
        return None
    codes = before.inputs[0]
    if codes is None or codes.data is not None or not codes.dtype.is_integer:
        return None
    return codes if codes.quant is not None and codes.quant.is_per_tensor else None


def _move_before(node: Node, codes: Value) -> None:
    """Let ``node`` dequantize what the move makes of ``codes``."""
    x, result, graph = node.operand(0), node.outputs[0], node.graph
    assert x.producer is not None
    assert graph is not None
    moved = Value(result.name, TensorType(codes.dtype, result.shape, codes.quant))
    move, bounds = node.op, None
    if isinstance(move, MaxPool2D):
        bounds, move = move.activation.bounds, move.replace(activation=Activation.NONE)
    graph.insert_before(node, Node(move, [codes, *node.inputs[1:]], [moved], origin=node.origin))
    if bounds is None:
        node.op = x.producer.op
        node.set_inputs([moved])
        return
    real = Value(result.name, TensorType(result.dtype, result.shape))
    graph.insert_before(node, Node(x.producer.op, [moved], [real], origin=node.origin))
    node.op = Clip(low=bounds[0], high=bounds[1])
    node.set_inputs([real])


def _move_of(node: Node, outputs: set[Value]) -> Node | None:
    """The move whose result a Quantize alone reads, if codes can be moved instead."""
    x, quant = node.inputs[0], node.outputs[0].quant
    move = None if x is None else x.producer
    if x is None or move is None or move.graph is not node.graph or not _is_move(move):
        return None
    source = move.inputs[0]
    if source is None or source.data is not None or not source.dtype.is_float:
        return None
    # A move that takes elements out comes first where nothing is amiss: fewer are quantized then.
    wanted = isinstance(move.op, _RESHAPES) or source in outputs
    if isinstance(move.op, MaxPool2D) and move.op.activation is not Activation.NONE:
        return None  # an activation is one of real values
    alone = x.use_count == 1 and x not in outputs
    return move if wanted and alone and quant is not None and quant.is_per_tensor else None


def _quantize_before(node: Node, move: Node) -> Node:
    """Let ``node`` move the codes of what ``move`` moves; gives the new Quantize."""
    source, result, graph = move.operand(0), node.outputs[0], node.graph
    assert graph is not None
    codes = Value(result.name, TensorType(result.dtype, source.shape, result.quant))
    quantize = Node(node.op, [source], [codes], origin=node.origin)
    graph.insert_before(node, quantize)
    node.op = move.op
    node.set_inputs([codes, *move.inputs[1:]])
    return quantize
