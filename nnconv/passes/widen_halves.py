"""Lets a graph of float16 numbers compute in float32, between float16 weights and edges."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import QuantRule
from nnconv.ops.quantize import Cast, Dequantize, Quantize
from nnconv.ops.shape import Identity
from nnconv.passes.base import Pass

_HALVES = frozenset({DType.FLOAT16, DType.BFLOAT16})


class WidenHalvesPass(Pass):
    """Makes the float16 and bfloat16 values inside a graph float32 where something computes there.

    No CPU runtime rounds to float16 behind each op: they compute in float32 from one op to the
    next, and so does the result. Inputs, outputs and constants keep their types, a Cast that stands
    in the source rounds as it did, and graphs that only move such numbers stay.
    """

    name: ClassVar[str] = "widen_halves"

    def run(self, graph: Graph) -> bool:
        """Widen one graph; what nothing reads any more is left to prune."""
        if not any(_wants_float32(node) for node in graph.nodes):
            return False
        walk = _Walk(graph)
        for node in graph.nodes:
            walk.visit(node)
        graph.outputs = [walk.narrow(value, None) for value in graph.outputs]
        return walk.modified


def _wants_float32(node: Node) -> bool:
    """Whether a node computes with halves."""
    conversion = isinstance(node.op, Cast | Dequantize | Quantize)
    if conversion or node.op.quant_rule is not QuantRule.REAL or node.bodies:
        return False
    return any(v is not None and _is_half(v) for v in node.inputs)


def _is_half(value: Value) -> bool:
    return value.dtype in _HALVES and not value.type.has_codes


class _Walk:
    """The rewrite of one graph.

    Attributes:
        was: the types that values had which are float32 now.
        modified: whether anything changed.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.was: dict[Value, DType] = {}
        self.modified = False
        self._wide: dict[Value, Value] = {}
        self._narrow: dict[Value, Value] = {}

    def visit(self, node: Node) -> None:
        """Let one node compute in float32, if it takes that."""
        op = node.op
        if isinstance(op, Cast):
            self._visit_cast(node)
            return
        if isinstance(op, Dequantize) and op.dtype in _HALVES:
            node.op = op.replace(dtype=DType.FLOAT32)
            self._widen_results(node)
            return
        follows = op.quant_rule is QuantRule.REAL or any(v in self.was for v in node.inputs)
        fits = op.quant_rule is not QuantRule.EXACT and not node.bodies and follows
        if not fits or not self._computes(node):
            self._keep(node)

    def _visit_cast(self, node: Node) -> None:
        x, y = node.inputs[0], node.outputs[0]
        if x in self.was and y.dtype is DType.FLOAT32:
            node.op = Identity()
            self.modified = True

    def _computes(self, node: Node) -> bool:
        halves = [i for i, v in enumerate(node.inputs) if v is not None and _is_half(v)]
        widened = any(v in self.was for v in node.inputs)
        if not halves and not (widened and any(map(_is_half, node.outputs))):
            return True
        types = [
            replace(v.type, dtype=DType.FLOAT32) if v is not None and i in halves else kind
            for i, (v, kind) in enumerate(zip(node.inputs, node.input_types, strict=True))
        ]
        try:
            results = node.op.infer(types)
        except ValueError:
            return False
        if any(
            new.dtype is not (DType.FLOAT32 if _is_half(old) else old.dtype)
            for new, old in zip(results, node.outputs, strict=True)
        ):
            return False
        for index in halves:
            value = node.operand(index)
            node.replace_input_with(index, self._widened(value, node))
        self._widen_results(node)
        return True

    def _widen_results(self, node: Node) -> None:
        for value in node.outputs:
            if _is_half(value):
                self.was[value] = value.dtype
                value.type = replace(value.type, dtype=DType.FLOAT32)
        self.modified = True

    def _widened(self, value: Value, before: Node) -> Value:
        found = self._wide.get(value)
        if found is None:
            builder = Builder(self.graph, before=before, origin=value.origin)
            name = f"{value.name}/wide" if value.name else ""
            found = builder.add(Cast(dtype=DType.FLOAT32), [value], name=name)
            self._wide[value] = found
        return found

    def _keep(self, node: Node) -> None:
        for index, value in enumerate(node.inputs):
            if value is not None:
                node.replace_input_with(index, self.narrow(value, node))

    def narrow(self, value: Value, before: Node | None) -> Value:
        """A value with the type that it had."""
        kind = self.was.get(value)
        if kind is None:
            return value
        found = self._narrow.get(value)
        if found is None:
            builder = Builder(self.graph, before=before, origin=value.origin)
            found = builder.add(Cast(dtype=kind), [value], name=value.name)
            value.name = f"{value.name}/wide" if value.name else ""
            self._narrow[value] = found
        return found
