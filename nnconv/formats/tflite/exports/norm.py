"""Ops that normalize along an axis."""

from __future__ import annotations

from nnconv.formats.tflite.exporter import FLOAT32, Exporter, Target, export_in_floats
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops import norm as n


def export_local_response(node: Node, t: Target) -> None:
    """LOCAL_RESPONSE_NORMALIZATION where the source had it: its reference kernel is wrong."""
    op, x = node.op, node.inputs[0]
    assert isinstance(op, n.LocalResponseNormalization)
    assert x is not None
    t.require(node, plain=FLOAT32)
    rank = x.type.rank
    if node.origin.format != "tflite" or op.behind or rank != 4 or op.axis != rank - 1:
        raise t.refused("the reference kernel leaves a neighbour out")
    fields = {"radius": op.radius, "bias": op.bias, "alpha": op.alpha, "beta": op.beta}
    options = ("LocalResponseNormalizationOptions", fields)
    t.emit("LOCAL_RESPONSE_NORMALIZATION", [t.tensor(x)], node.outputs[0], options)


EXPORTERS: dict[type[Op], Exporter] = {
    n.LocalResponseNormalization: export_local_response,
    n.LpNormalization: export_in_floats,
}
