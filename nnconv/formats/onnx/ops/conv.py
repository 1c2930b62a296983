"""Convolutions. They arrive in NCHW; weights are OHWI in the IR and OIHW in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.shuffle import export_by_phases
from nnconv.formats.onnx.weights import bias, is_integer, is_integer_result, plain_real, weights
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Layout, Op
from nnconv.ops.conv import Conv2D, Conv3D, ConvTranspose2D, ConvTranspose3D
from nnconv.ops.spatial import Padding


def pads(padding: Padding) -> dict[str, Any]:
    """ONNX attributes of a padding."""
    if padding.same:
        return {"auto_pad": "SAME_LOWER" if padding.lower else "SAME_UPPER"}
    return {"pads": (*padding.before, *padding.after)}


def export_conv(node: Node, t: Target) -> None:
    """Conv2D, Conv3D.

    A depthwise convolution of several filters a channel has its channels repeated first:
    onnxruntime is fast only where each group is one filter.
    """
    op, (x, filters, bias_value), y = node.op, node.inputs, node.outputs[0]
    assert isinstance(op, Conv2D | Conv3D)
    assert x is not None
    assert filters is not None
    assert op.layout is Layout.NCHW, "convolutions must be in NCHW here"
    rank = op.spatial_rank
    integer = is_integer(t, x, filters, bias_value) and is_integer_result(t, x, y)
    groups = op.groups
    multiplier = _multiplier(op, filters)
    if multiplier > 1:
        repeated = np.repeat(np.arange(groups), multiplier)
        data = _repeated(t, x, repeated, integer=integer)
        groups *= multiplier
    else:
        data = _data(t, x, integer=integer)
    perm = (0, rank + 1, *range(1, rank + 1))
    inputs = [data, weights(t, filters, perm, x=x, integer=integer)]
    if bias_value is not None:
        inputs.append(bias(t, bias_value, x=x, weights=filters, integer=integer))
    result = t.node(
        "Conv",
        inputs,
        strides=op.stride,
        dilations=op.dilation,
        group=groups,
        **pads(op.padding),
    )
    t.set_real(y, result, op.activation)


def _data(t: Target, x: Value, *, integer: bool) -> str:
    return t.real(x) if integer or not t.is_quantized(x) else plain_real(t, x)


def _multiplier(op: Conv2D | Conv3D, filters: Value) -> int:
    """How many filters a channel has in a depthwise convolution; 1 for all others."""
    shape = filters.shape
    if op.groups == 1 or shape is None or shape[-1] != 1 or not isinstance(shape[0], int):
        return 1
    return shape[0] // op.groups


def _repeated(t: Target, x: Value, channels: np.ndarray, *, integer: bool) -> str:
    """The real values of x with its channels picked anew."""
    index = t.const(channels.astype(np.int64))
    if not integer:
        return t.node("Gather", [_data(t, x, integer=False), index], axis=1)
    codes = t.node("Gather", [t.codes(x), index], axis=1)
    return t.dequantize(codes, t.inner_quant(x), t.inner_type(x))


def export_conv_transpose(node: Node, t: Target) -> None:
    """ConvTranspose2D, ConvTranspose3D: W is [C, O/groups, spatial...].

    ONNX's op has no integer kernel; on codes it becomes a convolution of all phases, where it can.
    """
    op, (x, filters, bias_value), y = node.op, node.inputs, node.outputs[0]
    assert isinstance(op, ConvTranspose2D | ConvTranspose3D)
    assert x is not None
    assert filters is not None
    assert op.layout is Layout.NCHW, "convolutions must be in NCHW here"
    if (
        is_integer(t, x, filters, bias_value)
        and is_integer_result(t, x, y)
        and export_by_phases(node, t)
    ):
        return
    rank = op.spatial_rank
    perm = (rank + 1, 0, *range(1, rank + 1))
    inputs = [_data(t, x, integer=False), weights(t, filters, perm, x=x, integer=False)]
    offset = bias(t, bias_value, x=x, weights=filters, integer=False)
    # ONNX wants the extra extent below the stride; any more is zeros that only the bias reaches
    inner = [min(extra, step - 1) for extra, step in zip(op.output_padding, op.stride, strict=True)]
    outer = [extra - kept for extra, kept in zip(op.output_padding, inner, strict=True)]
    if offset and not any(outer):
        inputs.append(offset)
    result = t.node(
        "ConvTranspose",
        inputs,
        strides=op.stride,
        dilations=op.dilation,
        group=op.groups,
        output_padding=inner if any(inner) else None,
        **pads(op.padding),
    )
    if any(outer):
        result = _extended(t, result, outer)
        if offset:
            shape = t.const([1, -1, *[1] * rank])
            result = t.node("Add", [result, t.node("Reshape", [offset, shape])])
    t.set_real(y, result, op.activation)


def _extended(t: Target, name: str, outer: Sequence[int]) -> str:
    return t.node("Pad", [name, t.const([0] * (len(outer) + 4) + list(outer))])


EXPORTERS: dict[type[Op], Exporter] = {
    Conv2D: export_conv,
    Conv3D: export_conv,
    ConvTranspose2D: export_conv_transpose,
    ConvTranspose3D: export_conv_transpose,
}
