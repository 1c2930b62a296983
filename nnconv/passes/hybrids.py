"""Gives weights that were codes beside floats in a TFLite file back to the products."""

from __future__ import annotations

from typing import ClassVar

from nnconv.ir.graph import HYBRID_MARK, Graph, Node, Value
from nnconv.ops.conv import Conv2D
from nnconv.ops.matmul import FullyConnected
from nnconv.ops.quantize import Dequantize
from nnconv.passes.base import Pass
from nnconv.passes.weight_codes import weights_as_codes


class HybridsPass(Pass):
    """Lets products read marked constants themselves, instead of a Dequantize of them.

    TFLite's kernels then quantize the data too: that is what the source had. Other weights of
    floats are left: the error would be new.
    """

    name: ClassVar[str] = "hybrids"

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph."""
        modified = False
        for node in graph.nodes:
            if not isinstance(node.op, FullyConnected | Conv2D):
                continue
            codes = _marked(node)
            if codes is not None:
                node.replace_input_with(1, codes)
                modified = True
        return modified


def _marked(node: Node) -> Value | None:
    x, weights = node.inputs[:2]
    maker = None if weights is None else weights.producer
    if x is None or maker is None or not isinstance(maker.op, Dequantize):
        return None
    codes = maker.inputs[0]
    if codes is None or codes.data is None or codes.origin.op != HYBRID_MARK:
        return None
    if x.quant is not None or node.outputs[0].quant is not None:
        return None
    signed = weights_as_codes(codes)
    return None if isinstance(signed, str) else signed
