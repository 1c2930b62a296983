"""Gives codes of fewer than 8 bits as many, for formats that know no narrower ones."""

from __future__ import annotations

from typing import Any, ClassVar

from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation, QuantRule, Role
from nnconv.ir.types import TensorType
from nnconv.ops.elementwise import Clip
from nnconv.ops.quantize import Dequantize, Quantize
from nnconv.ops.shape import Concat
from nnconv.passes.base import Pass
from nnconv.passes.weight_codes import WEIGHTED

_WIDER = {DType.INT2: DType.INT8, DType.INT4: DType.INT8, DType.UINT4: DType.UINT8}


class WidenCodesPass(Pass):
    """Makes narrow codes that are moved, made of numbers or read as such those of a wider type.

    They have the same parameters; what is quantized is clamped to what the narrow type holds.
    Weights of products on codes are ``WidenWeightsPass``'s job. Others are left to writers, and so
    is all of a graph whose inputs or outputs are narrow codes, or where an op does anything else
    with them.
    """

    name: ClassVar[str] = "widen_codes"

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph."""
        ends = {*graph.inputs, *graph.outputs}
        touched = [node for node in graph.nodes if any(map(_is_narrow, _codes_of(node)))]
        if not touched or any(map(_is_narrow, ends)) or not all(map(_only_moves, touched)):
            return False
        wide: dict[Value, Value] = {}
        for node in touched:
            for place, value in enumerate(node.inputs):
                if value is None or value.data is None or not _is_narrow(value):
                    continue
                if value not in wide:
                    kind = _wider(value)
                    wide[value] = Value(value.name, kind, data=value.data, origin=value.origin)
                node.replace_input_with(place, wide[value])
            if isinstance(node.op, Quantize):
                _clamp(node)
            for value in node.outputs:
                if _is_narrow(value):
                    value.type = _wider(value)
        return True


class WidenWeightsPass(Pass):
    """Makes constant narrow weights that products of codes read those of a wider type.

    They have the same parameters.
    """

    name: ClassVar[str] = "widen_weights"

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph."""
        wide: dict[Value, Value] = {}
        for node in graph.nodes:
            if not isinstance(node.op, WEIGHTED) or not node.operand(0).type.has_codes:
                continue
            weights = node.operand(1)
            if weights.data is None or weights.dtype not in _WIDER or not weights.type.has_codes:
                continue
            if weights not in wide:
                kind = _wider(weights)
                origin = weights.origin
                wide[weights] = Value(weights.name, kind, data=weights.data, origin=origin)
            node.replace_input_with(1, wide[weights])
        return bool(wide)


def _codes_of(node: Node) -> list[Value]:
    """What a node makes, and takes as data."""
    data = [v for i, v in enumerate(node.inputs) if v is not None and node.op.role(i) is Role.DATA]
    return [*data, *node.outputs]


def _is_narrow(value: Value) -> bool:
    quant = value.quant
    return value.dtype in _WIDER and quant is not None and quant.is_per_tensor


def _only_moves(node: Node) -> bool:
    """Whether a node does nothing with codes but move them, make them or read them."""
    if node.bodies:
        return False
    if isinstance(node.op, Concat):
        alike = len({v.quant for v in _codes_of(node)}) == 1
        return alike and node.op.activation is Activation.NONE
    return isinstance(node.op, Quantize | Dequantize) or node.op.quant_rule is QuantRule.CODES


def _wider(value: Value) -> TensorType:
    return TensorType(_WIDER[value.dtype], value.shape, value.quant)


def _clamp(node: Node) -> None:
    """Let a Quantize make wider codes, of numbers that the narrow ones stand for."""
    op: Any = node.op
    x, y = node.operand(0), node.outputs[0]
    if not _is_narrow(y):
        return
    assert node.graph is not None
    assert y.quant is not None
    low, high = ((code - y.quant.zero_point[0]) * y.quant.scale[0] for code in y.dtype.int_range)
    b = Builder(node.graph, before=node, origin=node.origin)
    if x.type.has_codes:
        x = b.add(Dequantize(dtype=DType.FLOAT32), [x])
    node.set_inputs([b.add(Clip(low=low, high=high), [x]), *node.inputs[1:]])
    node.op = op.replace(dtype=_WIDER[y.dtype])
