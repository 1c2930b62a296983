"""Ops that ONNX lacks, in the ops that TFLite's decompositions make of them."""

from __future__ import annotations

from nnconv.decompositions.base import Recorder, decompositions_of
from nnconv.decompositions.refit import in_floats
from nnconv.formats.hints import GIVE_SHAPES
from nnconv.formats.onnx.exporter import Target, exporter_of
from nnconv.ir.builder import Means
from nnconv.ir.graph import Node
from nnconv.ir.op import QuantRule


def export_in_parts(node: Node, t: Target) -> None:
    """The first decomposition that knows the node's types and extents, part by part.

    Codes that stand for real numbers are computed with as floats.
    Only for ops with which neither the layout nor the spelling of parts counts.
    """
    builder = Recorder(node, Means())
    coded = any(v is not None and v.type.has_codes for v in (*node.inputs, *node.outputs))
    first = (in_floats,) if coded and node.op.quant_rule is QuantRule.REAL else ()
    for decomposition in (*first, *decompositions_of(type(node.op))):
        values = decomposition(node, builder)
        if values is not None:
            break
        builder.drop()
    else:
        raise t.unsupported("the extents of its operands aren't known", hint=GIVE_SHAPES)
    for part in builder.added:
        exporter = exporter_of(type(part.op))
        assert exporter is not None, f"{part!r} has no ONNX form"
        t.current = part
        exporter(part, t)
    t.current = node
    for value, made in zip(node.outputs, values, strict=True):
        t.set_codes(value, t.codes(made))
    builder.drop()
