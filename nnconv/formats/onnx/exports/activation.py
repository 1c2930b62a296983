"""Activations: ONNX has each of them, but not at every opset."""

from __future__ import annotations

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.single import one_node
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops import activation as a

NAMES: dict[type[Op], str] = {
    a.Softplus: "Softplus",
    a.Softsign: "Softsign",
    a.Selu: "Selu",
    a.ThresholdedRelu: "ThresholdedRelu",
    a.HardSigmoid: "HardSigmoid",
}
"""Ops that are one node at every opset, with attributes of the same names."""

_BFLOAT16 = 22
"""The opset that brought bfloat16 to most functions."""


def export_named(node: Node, t: Target) -> None:
    """One node."""
    name, attributes = NAMES[type(node.op)], node.op.attributes()
    t.set_real(node.outputs[0], one_node(t, name, node.operand(0), narrow=_BFLOAT16, **attributes))


def export_celu(node: Node, t: Target) -> None:
    """Celu: of float32 alone before opset 28, then float64 by its formula."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, a.Celu)
    if x.dtype is not DType.FLOAT64 or t.opset >= 28:
        t.set_real(y, one_node(t, "Celu", x, narrow=28, least=28, alpha=op.alpha))
        return
    name, zero, alpha = t.real(x), t.floats(0.0, x), t.floats(op.alpha, x)
    power = t.node("Exp", [t.node("Div", [name, alpha])])
    below = t.node("Mul", [t.node("Sub", [power, t.floats(1.0, x)]), alpha])
    parts = [t.node("Max", [name, zero]), t.node("Min", [below, zero])]
    t.set_real(y, t.node("Add", parts))


def export_mish(node: Node, t: Target) -> None:
    """Mish; before opset 18 what it stands for."""
    x, y = node.operand(0), node.outputs[0]
    if t.opset >= 18:
        t.set_real(y, one_node(t, "Mish", x, narrow=_BFLOAT16))
        return
    gate = t.node("Tanh", [one_node(t, "Softplus", x, narrow=_BFLOAT16)])
    t.set_real(y, t.node("Mul", [t.real(x), gate]))


def export_swish(node: Node, t: Target) -> None:
    """Swish: x * Sigmoid(alpha * x), which onnxruntime takes at every opset and fuses again.

    Its kernel of the op itself is for opset 24 alone.
    """
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, a.Swish)
    name = t.real(x)
    if t.plain and t.opset == 24:
        t.set_real(y, t.node("Swish", [name], alpha=op.alpha))
        return
    scaled = name if op.alpha == 1 else t.node("Mul", [name, t.floats(op.alpha, x)])
    t.set_real(y, t.node("Mul", [name, t.node("Sigmoid", [scaled])]))


def export_shrink(node: Node, t: Target) -> None:
    """Shrink, which takes every number type but bfloat16."""
    x, y = node.operand(0), node.outputs[0]
    result = one_node(t, "Shrink", x, narrow=99, **node.op.attributes())
    t.set_real(y, result)


EXPORTERS: dict[type[Op], Exporter] = {
    **dict.fromkeys(NAMES, export_named),
    a.Celu: export_celu,
    a.Mish: export_mish,
    a.Swish: export_swish,
    a.Shrink: export_shrink,
}
