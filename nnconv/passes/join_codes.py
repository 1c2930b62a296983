"""Makes constant codes that are widened by arithmetic constants with parameters."""

from __future__ import annotations

from typing import ClassVar

from nnconv.ir.builder import Builder
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.types import TensorType
from nnconv.ops.affine import widened
from nnconv.ops.norm import LogSoftmax, Softmax
from nnconv.ops.quantize import Dequantize
from nnconv.ops.rewrite import constant_behind, transposed
from nnconv.ops.shape import Transpose
from nnconv.passes.base import Pass


class JoinCodesPass(Pass):
    """Turns (codes - zero point) * scale of a constant into a Dequantize of it.

    So the constant is known as the weights that it is, and keeps its small type in the file. A
    Transpose behind it becomes one of the codes. A Softmax doesn't see a zero point, so
    that a file may leave it out before one: there it comes back.
    """

    name: ClassVar[str] = "join_codes"

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph."""
        modified = False
        for node in graph.nodes:
            if isinstance(node.op, Transpose):
                modified |= _turn(node)
                continue
            if isinstance(node.op, Softmax | LogSoftmax):
                modified |= _level(node)
                continue
            found = widened(node)
            if found is None or (found.codes.data is None and found.codes.quant != found.quant):
                continue
            old = found.codes
            codes = old
            if old.data is not None:
                kind = TensorType(old.dtype, old.shape, found.quant)
                codes = Value(old.name, kind, data=old.data, origin=old.origin)
            node.op = Dequantize(dtype=node.outputs[0].dtype)
            node.set_inputs([codes])
            modified = True
        return modified


def _level(node: Node) -> bool:
    """Let a Softmax of codes times their scale read what they stand for: all are moved alike."""
    x = node.inputs[0]
    maker = None if x is None else x.producer
    found = None if maker is None else widened(maker)
    if found is None or x is None or maker is None or x.use_count != 1:
        return False
    quant = found.codes.quant
    if quant is None or not quant.is_per_tensor or quant.scale != found.quant.scale:
        return False
    if not found.quant.is_per_tensor:
        return False
    maker.op = Dequantize(dtype=x.dtype)
    maker.set_inputs([found.codes])
    return True


def _turn(node: Node) -> bool:
    """Turn the codes instead of what is widened from them."""
    x, y = node.inputs[0], node.outputs[0]
    perm = node.op.perm  # type: ignore[attr-defined]
    if x is None or perm is None or x.data is not None or constant_behind(x) is None:
        return False
    assert node.graph is not None
    turned = transposed(Builder(node.graph, before=node, origin=node.origin), x, perm)
    turned.name = y.name
    if y in node.graph.outputs:
        node.graph.replace_output(y, turned)
    y.replace_all_uses_with(turned)
    node.graph.remove(node)
    return True
