"""Convolutions. They arrive in NCHW; weights are OHWI in the IR and OIHW in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.floats import narrowed, widened
from nnconv.formats.onnx.shuffle import export_by_phases
from nnconv.formats.onnx.weights import (
    bias,
    is_integer,
    is_integer_result,
    product_operand,
    turned_back,
    weight_order,
    weights,
)
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Layout, Op, Perm
from nnconv.ir.types import element_count
from nnconv.ops import conv as c
from nnconv.ops.spatial import Padding

_Convs = c.Conv1D | c.Conv2D | c.Conv3D
_Transposed = c.ConvTranspose1D | c.ConvTranspose2D | c.ConvTranspose3D


def pads(padding: Padding) -> dict[str, Any]:
    """ONNX attributes of a padding."""
    if padding.same:
        return {"auto_pad": "SAME_LOWER" if padding.lower else "SAME_UPPER"}
    return {"pads": (*padding.before, *padding.after)}


def export_conv(node: Node, t: Target) -> None:
    """Conv1D, Conv2D, Conv3D.

    A depthwise convolution of several filters a channel has its channels repeated first:
    onnxruntime is fast only where each group is one filter.
    """
    op, y = node.op, node.outputs[0]
    x, filters, bias_value = node.operand(0), node.operand(1), node.optional(2)
    assert isinstance(op, _Convs)
    assert op.layout is Layout.NCHW, "convolutions must be in NCHW here"
    integer = is_integer(t, x, filters, bias_value) and is_integer_result(t, x, y)
    groups = op.groups
    multiplier = 1 if t.plain else _multiplier(op, filters)
    if multiplier > 1:
        repeated = np.repeat(np.arange(groups), multiplier)
        data = _repeated(t, x, repeated, integer=integer)
        groups *= multiplier
    else:
        data = product_operand(t, x, integer=integer)
    inputs = [data, weights(t, filters, weight_order(op), x=x, integer=integer)]
    if bias_value is not None:
        inputs.append(bias(t, bias_value, x=x, weights=filters, integer=integer))
    result = t.node(
        "Conv",
        [narrowed(t, x, name=name) for name in inputs],
        strides=op.stride,
        dilations=op.dilation,
        group=groups,
        **pads(op.padding),
    )
    t.set_real(y, widened(t, result, y), op.activation)


def _multiplier(op: _Convs, filters: Value) -> int:
    """How many filters a channel has in a depthwise convolution; 1 for all others."""
    shape = filters.shape
    if op.groups == 1 or shape is None or shape[-1] != 1 or not isinstance(shape[0], int):
        return 1
    return shape[0] // op.groups


def _repeated(t: Target, x: Value, channels: np.ndarray, *, integer: bool) -> str:
    """The real values of x with its channels picked anew."""
    index = t.const(channels.astype(np.int64))
    if not integer:
        return t.node("Gather", [product_operand(t, x, integer=False), index], axis=1)
    codes = t.node("Gather", [t.codes(x), index], axis=1)
    return t.dequantize(codes, t.inner_quant(x), t.inner_type(x))


def export_conv_transpose(node: Node, t: Target) -> None:
    """ConvTranspose1D to ConvTranspose3D: W is [C, O/groups, spatial...].

    ONNX's op has no integer kernel; on codes it becomes a convolution of all phases, where it can.
    """
    op, y = node.op, node.outputs[0]
    x, filters, bias_value = node.operand(0), node.operand(1), node.optional(2)
    assert isinstance(op, _Transposed)
    assert op.layout is Layout.NCHW, "convolutions must be in NCHW here"
    if (
        not t.plain
        and is_integer(t, x, filters, bias_value)
        and is_integer_result(t, x, y)
        and export_by_phases(node, t)
    ):
        return
    rank = op.spatial_rank
    perm = weight_order(op)
    inputs = [product_operand(t, x, integer=False), weights(t, filters, perm, x=x, integer=False)]
    inputs = [narrowed(t, x, name=name) for name in inputs]
    offset = bias(t, bias_value, x=x, weights=filters, integer=False)
    offset = narrowed(t, x, name=offset) if offset else ""
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
        **_ends(op),
    )
    if any(outer):
        result = _extended(t, result, outer)
        if offset:
            shape = t.const([1, -1, *[1] * rank])
            result = t.node("Add", [result, t.node("Reshape", [offset, shape])])
    t.set_real(y, widened(t, result, y), op.activation)


def _ends(op: _Transposed) -> dict[str, Any]:
    """ONNX attributes that tell how far a transposed convolution reaches."""
    if op.size is None:
        return pads(op.padding)
    return {
        "output_shape": op.size,
        "auto_pad": "NOTSET" if op.padding.lower else "SAME_UPPER",
    }


def _extended(t: Target, name: str, outer: Sequence[int]) -> str:
    return t.node("Pad", [name, t.const([0] * (len(outer) + 4) + list(outer))])


def export_conv_integer(node: Node, t: Target) -> None:
    """ConvInteger.

    onnxruntime takes one zero point of the weights. Where each filter has its own, the sums of what
    the windows meet, times the zero points, are taken off.
    """
    op, y = node.op, node.outputs[0]
    x, filters = node.optional(0), node.operand(1)
    points = node.inputs[2:]
    assert isinstance(op, c.ConvInteger)
    assert op.layout is Layout.NCHW, "convolutions must be in NCHW here"
    first, second = (*points, None, None)[:2]
    data, weight = t.stored(x), _turned(t, filters, weight_order(op))
    attributes = {
        "strides": op.stride,
        "dilations": op.dilation,
        "group": op.groups,
        **pads(op.padding),
    }
    offset = _scalar(t, first)
    if second is None or element_count(second.shape) == 1:
        inputs = [data, weight, offset, _scalar(t, second)]
        while not inputs[-1]:
            inputs.pop()
        t.set_stored(y, t.node("ConvInteger", inputs, **attributes))
        return
    inputs = [data, weight, offset] if offset else [data, weight]
    result = t.node("ConvInteger", inputs, **attributes)
    one = t.const(np.ones((), filters.dtype.numpy))
    ones = t.node("Expand", [one, t.node("Shape", [weight])])
    inputs = [data, ones, offset] if offset else [data, ones]
    sums = t.node("ConvInteger", inputs, **attributes)
    factors = t.reshape(t.cast(t.stored(second), DType.INT32), [-1, *[1] * len(op.stride)])
    t.set_stored(y, t.node("Sub", [result, t.node("Mul", [sums, factors])]))


def _scalar(t: Target, value: Value | None) -> str:
    if value is None:
        return ""
    name = t.stored(value)
    return name if value.shape == () else t.reshape(name, [])


def _turned(t: Target, filters: Value, perm: Perm) -> str:
    """Integers of weights in ONNX's order."""
    if filters.data is not None:
        return t.const(filters.data.transpose(perm), filters.dtype, name=filters.name)
    before = turned_back(filters, perm)
    if before is not None:
        return t.stored(before)
    return t.node("Transpose", [t.stored(filters)], perm=perm)


EXPORTERS: dict[type[Op], Exporter] = {
    c.Conv1D: export_conv,
    c.Conv2D: export_conv,
    c.Conv3D: export_conv,
    c.ConvInteger: export_conv_integer,
    c.ConvTranspose1D: export_conv_transpose,
    c.ConvTranspose2D: export_conv_transpose,
    c.ConvTranspose3D: export_conv_transpose,
}
