"""Takes out quantization to 16 bits inside a graph, for formats that compute with no such codes."""

from __future__ import annotations

from typing import ClassVar

from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import QuantRule
from nnconv.ops.quantize import Dequantize, Quantize
from nnconv.passes.base import Pass
from nnconv.passes.to_floats import WIDE


class DropWideCodesPass(Pass):
    """Lets floats pass by a Quantize to 16 bits and the Dequantize behind it.

    Results then differ by up to half a step of the codes; what saturated does so no longer.
    """

    name: ClassVar[str] = "drop_wide_codes"

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph; what nothing reads any more is left to prune."""
        modified = False
        for node in graph.nodes:
            source = _source(node.inputs[0]) if isinstance(node.op, Dequantize) else None
            y = node.outputs[0] if node.outputs else None
            if source is None or y is None or source.dtype is not y.dtype:
                continue
            if y in graph.outputs and source in (*graph.inputs, *graph.outputs):
                continue
            source.name = source.name if y not in graph.outputs else y.name
            y.replace_all_uses_with(source)
            graph.replace_output(y, source)
            modified = True
        return modified


def _source(codes: Value | None) -> Value | None:
    """What a value of 16-bit codes was quantized from."""
    if codes is None or codes.dtype not in WIDE or codes.producer is None:
        return None
    if not isinstance(codes.producer.op, Quantize):
        return None
    real = codes.producer.inputs[0]
    return None if real is None or real.type.has_codes else real


def computes_wide_codes(graph: Graph) -> bool:
    """Whether a graph computes with 16-bit codes, instead of moving or converting them alone."""
    return any(map(_computes, graph.nodes))


def _computes(node: Node) -> bool:
    if isinstance(node.op, Quantize) or node.op.quant_rule is not QuantRule.REAL:
        return False
    if isinstance(node.op, Dequantize) and not node.outputs[0].use_count:
        return False
    values = (*node.inputs, *node.outputs)
    return any(v is not None and v.dtype in WIDE and v.type.has_codes for v in values)
