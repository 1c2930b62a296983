"""Takes clamps into the ops before them."""

from __future__ import annotations

from typing import ClassVar

from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation
from nnconv.ops.elementwise import Add, Clip, Div, Mul, Sub
from nnconv.ops.pool import AveragePool2D, L2Pool2D, MaxPool2D
from nnconv.ops.quantize import Quantize
from nnconv.passes.base import Heirs, Pass
from nnconv.passes.ranges import is_implied
from nnconv.passes.weight_codes import WEIGHTED

_TAKERS = (*WEIGHTED, Add, Sub, Mul, Div, AveragePool2D, MaxPool2D, L2Pool2D)
"""Ops whose kernels clamp at no cost."""

_UNBOUNDED = 3.4e38
"""From here on a bound is none: exporters write the greatest float32 for it."""


class FuseActivationsPass(Pass):
    """Makes a Clip behind an op that nothing else reads the op's activation.

    Quantized, both must have the same parameters, so that the results stay the same. A quantized
    Clip whose result's parameters allow nothing outside of its bounds is a mere change of
    parameters, or nothing.
    """

    name: ClassVar[str] = "fuse_activations"

    def run(self, graph: Graph) -> bool:
        """Fuse the clamps of one graph."""
        modified = False
        heirs = Heirs(graph)
        for node in graph.nodes:
            if not isinstance(node.op, Clip):
                continue
            modified |= _relax(node)
            if _fuse(node, heirs.outputs):
                heirs.replace(node, node.operand(0))
                modified = True
        heirs.close()
        return modified


def _relax(node: Node) -> bool:
    """Make a quantized Clip that its result's range implies a Quantize."""
    op, x, result = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, Clip)
    if x is None or not x.type.has_codes or not result.type.has_codes or x.type == result.type:
        return False
    if result.quant is None or not result.quant.is_per_tensor:
        return False
    if not is_implied((op.low, op.high), result.type):
        return False
    node.op = Quantize(dtype=result.dtype)
    return True


def _fuse(node: Node, outputs: set[Value]) -> bool:
    """Give a Clip's clamp to what makes its operand; tells whether it could be."""
    clip, x, result = node.op, node.inputs[0], node.outputs[0]
    if not isinstance(clip, Clip) or x is None or x.producer is None:
        return False
    taker = x.producer
    if taker.graph is not node.graph or not isinstance(taker.op, _TAKERS):
        return False
    if x.use_count != 1 or x in outputs or x.dtype is not result.dtype or x.quant != result.quant:
        return False
    if not x.dtype.is_float and not x.type.has_codes:
        return False
    found = _combined(taker.op.activation, clip)
    if found is None:
        return False
    taker.op = taker.op.replace(activation=found)
    return True


def _combined(first: Activation, clip: Clip) -> Activation | None:
    """The activation that does what ``first`` and then ``clip`` do."""
    infinity = float("inf")
    low = -infinity if clip.low <= -_UNBOUNDED else clip.low
    high = infinity if clip.high >= _UNBOUNDED else clip.high
    if first is not Activation.NONE:
        if first.bounds is None:
            return None
        low, high = max(low, first.bounds[0]), min(high, first.bounds[1])
    if (low, high) == (-infinity, infinity):
        return Activation.NONE
    return next((a for a in Activation if a.bounds == (low, high)), None)
