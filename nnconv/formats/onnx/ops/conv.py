"""Convolutions. They arrive in NCHW; weights are OHWI in the IR and OIHW in ONNX."""

from __future__ import annotations

from typing import Any

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Layout, Op
from nnconv.ops.conv import Conv2D, Conv3D
from nnconv.ops.spatial import Padding


def pads(padding: Padding) -> dict[str, Any]:
    """ONNX attributes of a padding."""
    if padding.same:
        return {"auto_pad": "SAME_UPPER"}
    return {"pads": (*padding.before, *padding.after)}


def export_conv(node: Node, t: Target) -> None:
    """Conv2D, Conv3D."""
    op = node.op
    assert isinstance(op, Conv2D | Conv3D)
    x, weights, bias = node.inputs
    assert x is not None and weights is not None
    assert op.layout is Layout.NCHW, "convolutions must be in NCHW here"
    rank = op.spatial_rank
    inputs = [t.real(x), t.weights(weights, (0, rank + 1, *range(1, rank + 1)))]
    if bias is not None:
        inputs.append(t.real(bias))
    result = t.node(
        "Conv",
        inputs,
        strides=op.stride,
        dilations=op.dilation,
        group=op.groups,
        **pads(op.padding),
    )
    t.set_real(node.outputs[0], result, op.activation)


EXPORTERS: dict[type[Op], Exporter] = {Conv2D: export_conv, Conv3D: export_conv}
