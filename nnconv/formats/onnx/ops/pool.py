"""Pooling. It arrives in NCHW."""

from __future__ import annotations

import math

import numpy as np

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.mean import float_mean, mean_codes, mean_convolution
from nnconv.formats.onnx.ops.conv import pads
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.quant import quantize
from nnconv.ops.conv import Conv2D
from nnconv.ops.pool import AveragePool2D, L2Pool2D, MaxPool2D

_MAX_POOL_TYPES = frozenset({DType.FLOAT16, DType.FLOAT32, DType.FLOAT64, DType.INT8, DType.UINT8})
"""The types of ONNX's MaxPool."""

_MOST_WEIGHTS = 1 << 20
_MOST_WINDOWS = 1 << 16
"""In one direction."""


def export_max_pool(node: Node, t: Target) -> None:
    """MaxPool2D: on codes.

    8-bit codes go through float32, which holds them exactly and takes a fifth of the time, except
    beside a quantized convolution, whose layout the integer kernel shares. Wider codes have no
    kernel of their own.
    """
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, MaxPool2D)
    assert x is not None
    dtype = t.inner_type(x)
    wide = DType.FLOAT32 if dtype.bits <= 16 else DType.FLOAT64
    direct = dtype in _MAX_POOL_TYPES and (dtype.is_float or _beside_convolution(node))
    codes = t.codes(x) if direct else t.cast(t.codes(x), wide)
    result = t.node(
        "MaxPool", [codes], kernel_shape=op.window, strides=op.stride, **pads(op.padding)
    )
    bounds = op.activation.bounds
    if bounds is None or not t.is_quantized(y):
        result = t.activate(result, op.activation, y)
    elif not direct:
        limits = quantize(np.asarray(bounds, np.float64), t.inner_quant(y), dtype)
        if tuple(limits.tolist()) != dtype.int_range:
            result = t.node(
                "Clip", [result, *(t.const(limit.astype(wide.numpy)) for limit in limits)]
            )
    else:
        result = t.clip_codes(result, t.inner_quant(y), dtype, bounds)
    t.set_codes(y, result if direct else t.cast(result, dtype))


def _beside_convolution(node: Node) -> bool:
    """Whether a convolution makes what is pooled or reads the result."""
    producer = node.inputs[0].producer if node.inputs[0] is not None else None
    near = [producer] if producer is not None else []
    near += [use.node for value in node.outputs for use in value.uses]
    return any(isinstance(n.op, Conv2D) for n in near)


def export_average_pool(node: Node, t: Target) -> None:
    """AveragePool2D: mostly as depthwise convolutions, a tenth of the time.

    A window over all there is becomes GlobalAveragePool.
    """
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, AveragePool2D)
    assert x is not None
    extents = x.shape[2:] if x.shape is not None else ()
    if op.padding.is_zero and tuple(extents) == op.window:
        t.set_real(y, t.node("GlobalAveragePool", [t.real(x)]), op.activation)
        return
    quantized = t.is_quantized(x) and t.is_quantized(y) and not op.padding.same
    unsigned = quantized and t.inner_type(x) is t.inner_type(y) is DType.UINT8
    small = _is_small(op, x, y)
    if unsigned and small and _export_mean(op, x, y, t):
        return
    result = (float_mean(op, x, t) if small else None) or t.node(
        "AveragePool",
        [t.real(x)],
        kernel_shape=op.window,
        strides=op.stride,
        count_include_pad=1 if op.count_padding else None,
        **pads(op.padding),
    )
    t.set_real(y, result, op.activation)


def _is_small(op: AveragePool2D, x: Value, y: Value) -> bool:
    """Whether a convolution's weights, and what its windows cover, are no burden to the file."""
    known = [dim for dim in (*(x.shape or ())[1:], *(y.shape or ())[1:]) if isinstance(dim, int)]
    weights = math.prod((*known[:1], *op.window))
    return weights <= _MOST_WEIGHTS and max(known, default=0) <= _MOST_WINDOWS


def _export_mean(op: AveragePool2D, x: Value, y: Value, t: Target) -> bool:
    """A mean of 8-bit codes by convolution; False where it can't be had so."""
    channels = x.shape[1] if x.shape is not None else None
    if not isinstance(channels, int):
        return False
    if op.padding.is_zero or op.count_padding:
        result = mean_convolution(channels, op.window, op.stride, t.real(x), t, op.padding)
        t.set_real(y, result, op.activation)
        return True
    codes = mean_codes(op, x, y, t)
    if codes is None:
        return False
    if op.activation.bounds is not None:
        codes = t.clip_codes(codes, t.inner_quant(y), t.inner_type(y), op.activation.bounds)
    t.set_codes(y, codes)
    return True


def export_l2_pool(node: Node, t: Target) -> None:
    """L2Pool2D: Sqrt(AveragePool(x * x)); ONNX's LpPool takes 16 times as long."""
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, L2Pool2D)
    assert x is not None
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
