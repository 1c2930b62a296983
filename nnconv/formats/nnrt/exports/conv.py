"""Convolutions. Their bias is written even where the op has none."""

from __future__ import annotations

import numpy as np

from nnconv.formats.nnrt.exporter import Exporter, Input, Target
from nnconv.formats.nnrt.weighted import bias_tensor, check_weighted, repeated
from nnconv.formats.nnrt.window import extents_of, padding_params
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops import conv as c


def export_conv_2d(node: Node, t: Target) -> None:
    """CONV2D; DEPTHWISE_CONV2D_NATIVE where each group is one channel."""
    op, x, weights = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, c.Conv2D)
    extents_of(t, x, op.layout)
    filters = t.static(weights)
    integer = check_weighted(node, t)
    depthwise = op.groups > 1 and filters[3] == 1
    inputs: dict[str, Input] = {
        "input": x,
        "weight": weights,
        "bias": bias_tensor(node, t, filters[0], integer=integer),
    }
    params = {
        "stride": list(op.stride),
        "dilation": list(op.dilation),
        **padding_params(t, op.padding),
        "activationType": t.activation(op.activation),
    }
    if not depthwise:
        params["group"] = op.groups
    name = "DEPTHWISE_CONV2D_NATIVE" if depthwise else "CONV2D"
    t.emit(name, inputs, node.outputs, params)


def export_conv_transpose_2d(node: Node, t: Target) -> None:
    """CONV2D_TRANSPOSE: the padding says what is cut off."""
    op, x, weights = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, c.ConvTranspose2D)
    extents_of(t, x, op.layout)
    filters = t.static(weights)
    if op.size is not None or op.padding.same:
        raise t.refused("its extents are given, and those of its operand aren't known")
    integer = check_weighted(node, t)
    inputs: dict[str, Input] = {
        "input": x,
        "weight": weights if op.groups == 1 else _ungrouped(node, t, filters, op.groups),
        "bias": bias_tensor(node, t, filters[0] * op.groups, integer=integer, groups=op.groups),
    }
    params = {
        "stride": list(op.stride),
        "dilation": list(op.dilation),
        **padding_params(t, op.padding),
        "group": op.groups,
        "outputPads": list(op.output_padding) if any(op.output_padding) else [],
        "activationType": t.activation(op.activation),
    }
    t.emit("CONV2D_TRANSPOSE", inputs, node.outputs, params)


def _ungrouped(node: Node, t: Target, filters: tuple[int, ...], groups: int) -> Input:
    """[O / groups, H, W, I] as [O, H, W, I / groups]."""
    weights = node.operand(1)
    if weights.data is None:
        raise t.refused("filters of several groups that aren't known")
    outputs, height, width, depth = filters
    parts = weights.data.reshape(outputs, height, width, groups, depth // groups)
    whole = parts.transpose(3, 0, 1, 2, 4).reshape(groups * outputs, height, width, -1)
    quant = repeated(weights.quant, groups)
    return t.const(np.ascontiguousarray(whole), quant=quant, name=weights.name)


EXPORTERS: dict[type[Op], Exporter] = {
    c.Conv2D: export_conv_2d,
    c.ConvTranspose2D: export_conv_transpose_2d,
}
