"""Gives quantized values inside a graph unsigned codes, for formats that know no others."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import QuantRule, Role
from nnconv.ir.types import TensorType
from nnconv.ops.quantize import Dequantize, Quantize
from nnconv.ops.reduce import ArgExtreme
from nnconv.passes.base import Pass

_SHIFT = 128


class UnsignPass(Pass):
    """Makes int8 codes uint8 ones of the same real values, constant data among them.

    Inputs and outputs keep theirs, with a Quantize between, and so does all of a graph in which an
    op works on the codes themselves. Weights are left to writers.

    Attributes:
        back: for formats that know both, turn a graph only if its inputs and outputs have unsigned
            codes that are turned to signed ones inside: as formats that know no others have it.
    """

    name: ClassVar[str] = "unsign"

    def __init__(self, *, back: bool = False) -> None:
        """Say whether only what was given signed codes gets unsigned ones back."""
        self.back = back

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph."""
        nodes = list(graph.nodes)
        if any(_takes_codes_as_they_are(node) for node in nodes):
            return False
        if self.back and not _is_turned_at_edges(graph):
            return False
        modified = _turn_inputs(graph) | _turn_outputs(graph)
        outputs = graph.output_set()
        turned: dict[Value, Value] = {}
        for node in nodes:
            for place, value in enumerate(node.inputs):
                data = node.op.role(place) in (Role.DATA, Role.STATE)
                if value is not None and value.data is not None and data and _is_signed(value):
                    node.replace_input_with(place, _constant(value, turned))
                    modified = True
            for value in node.outputs:
                if value in outputs or not _is_signed(value):
                    continue
                assert value.quant is not None
                value.type = _unsigned(value)
                op: Any = node.op
                if isinstance(op, Quantize):
                    node.op = op.replace(dtype=DType.UINT8)
                modified = True
        return modified


def _is_turned_at_edges(graph: Graph) -> bool:
    ends = [*graph.inputs, *graph.outputs]
    if any(map(_is_signed, ends)):
        return False
    turns = [use.node for value in graph.inputs for use in value.uses]
    turns += [value.producer for value in graph.outputs if value.producer is not None]
    return any(_is_turn(node) for node in turns)


def _is_turn(node: Node) -> bool:
    """Whether a node gives codes another sign and leaves their real values."""
    if not isinstance(node.op, Quantize):
        return False
    before, after = node.operand(0), node.outputs[0]
    if before.dtype is DType.UINT8:
        before, after = after, before
    return _is_signed(before) and after.type == _unsigned(before)


def _is_signed(value: Value) -> bool:
    quant = value.quant
    return value.dtype is DType.INT8 and quant is not None and quant.is_per_tensor


def _takes_codes_as_they_are(node: Node) -> bool:
    if node.bodies:
        return True
    if node.op.quant_rule is not QuantRule.EXACT or isinstance(node.op, ArgExtreme):
        return False
    if isinstance(node.op, Quantize | Dequantize):
        return False
    return any(v is not None and _is_signed(v) for v in (*node.inputs, *node.outputs))


def _constant(value: Value, turned: dict[Value, Value]) -> Value:
    found = turned.get(value)
    if found is None:
        assert value.data is not None
        assert value.quant is not None
        codes = (value.data.astype(np.int16) + _SHIFT).astype(np.uint8)
        found = turned[value] = Value(value.name, _unsigned(value), data=codes, origin=value.origin)
    return found


def _unsigned(value: Value) -> TensorType:
    assert value.quant is not None
    return TensorType(DType.UINT8, value.shape, value.quant.shifted(_SHIFT))


def _turn_inputs(graph: Graph) -> bool:
    """Let what computes with an input have unsigned codes of it."""
    modified = False
    for value in graph.inputs:
        uses = [use for use in value.uses if not isinstance(use.node.op, _CONVERSIONS)]
        if not uses or not _is_signed(value):
            continue
        codes = Value(f"{value.name}/unsigned", _unsigned(value), origin=value.origin)
        node = Node(Quantize(dtype=DType.UINT8), [value], [codes], origin=value.origin)
        for use in uses:
            use.node.replace_input_with(use.index, codes)
        graph.prepend(node)
        modified = True
    return modified


def _turn_outputs(graph: Graph) -> bool:
    """Let what computes an output give unsigned codes of it."""
    modified = False
    for value in dict.fromkeys(graph.outputs):
        maker = value.producer
        if maker is None or isinstance(maker.op, _CONVERSIONS) or not _is_signed(value):
            continue
        codes = Value(value.name, value.type, origin=value.origin)
        graph.replace_output(value, codes)
        value.name, value.type = f"{value.name}/unsigned", _unsigned(value)
        graph.insert_after(
            maker, Node(Quantize(dtype=DType.INT8), [value], [codes], origin=value.origin)
        )
        modified = True
    return modified


_CONVERSIONS = (Quantize, Dequantize)
