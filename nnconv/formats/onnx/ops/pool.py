"""Pooling. It arrives in NCHW."""

from __future__ import annotations

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.ops.conv import pads
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.pool import AveragePool2D, L2Pool2D, MaxPool2D


def export_max_pool(node: Node, t: Target) -> None:
    """MaxPool2D: on codes."""
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, MaxPool2D) and x is not None
    result = t.node(
        "MaxPool", [t.codes(x)], kernel_shape=op.window, strides=op.stride, **pads(op.padding)
    )
    if op.activation.bounds is not None and t.is_quantized(y):
        quant, dtype = t.inner_quant(y), t.inner_type(y)
        t.set_codes(y, t.clip_codes(result, quant, dtype, op.activation.bounds))
    else:
        t.set_codes(y, t.activate(result, op.activation, y))


def export_average_pool(node: Node, t: Target) -> None:
    """AveragePool2D."""
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, AveragePool2D) and x is not None
    result = t.node(
        "AveragePool",
        [t.real(x)],
        kernel_shape=op.window,
        strides=op.stride,
        count_include_pad=1 if op.count_padding else None,
        **pads(op.padding),
    )
    t.set_real(y, result, op.activation)


def export_l2_pool(node: Node, t: Target) -> None:
    """L2Pool2D: Sqrt(AveragePool(x * x)); ONNX's LpPool takes 16 times as long."""
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, L2Pool2D) and x is not None
    name = t.real(x)
    mean = t.node(
        "AveragePool",
        [t.node("Mul", [name, name])],
        kernel_shape=op.window,
        strides=op.stride,
        **pads(op.padding),
    )
    t.set_real(y, t.node("Sqrt", [mean]), op.activation)


EXPORTERS: dict[type[Op], Exporter] = {
    MaxPool2D: export_max_pool,
    AveragePool2D: export_average_pool,
    L2Pool2D: export_l2_pool,
}
