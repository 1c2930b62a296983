"""Pooling. It arrives in NCHW."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnconv.formats.hints import GIVE_SHAPES
from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.exports.conv import pads
from nnconv.formats.onnx.exports.reduce import reduced
from nnconv.formats.onnx.floats import narrowed, widened
from nnconv.formats.onnx.mean import float_mean, mean_codes, mean_convolution
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Layout, Op
from nnconv.ir.quant import quantize
from nnconv.ops import pool as p
from nnconv.ops.conv import Conv2D
from nnconv.ops.spatial import spatial_dims

_MAX_POOL_TYPES = frozenset({DType.FLOAT16, DType.FLOAT32, DType.FLOAT64, DType.INT8, DType.UINT8})
"""The types of ONNX's MaxPool."""

_MaxPools = p.MaxPool1D | p.MaxPool2D | p.MaxPool3D
_Means = p.AveragePool1D | p.AveragePool2D | p.AveragePool3D
_Pools = _MaxPools | p.MaxPoolIndices | _Means | p.LpPool

_DILATED_MEAN_OPSET = 19
_DILATED_NORM_OPSET = 18
"""The first opsets whose pools have dilations; LpPool has windows beyond the padding since."""

_LAST_GLOBAL_NORM_OPSET = 21

_MOST_WEIGHTS = 1 << 20
_MOST_WINDOWS = 1 << 16
"""In one direction."""


def _shared(op: _Pools, t: Target) -> dict[str, Any]:
    """ONNX attributes that all pools share."""
    _check_gaps(op, t)
    spread = any(step != 1 for step in op.dilation)
    return {
        "kernel_shape": op.window,
        "strides": op.stride,
        **pads(op.padding),
        "dilations": op.dilation if spread else None,
        "ceil_mode": 1 if op.ceil else None,
    }


def _check_gaps(op: _Pools | p.L2Pool2D, t: Target) -> None:
    """See that auto_pad doesn't cut off what lies between windows: ONNX has it pad less than 0.

    Raises:
        NotExportable: it may; an ONNX model that is written as ONNX keeps it.
    """
    if t.plain or not op.padding.same:
        return
    reach = [(size - 1) * spread + 1 for size, spread in zip(op.window, op.dilations, strict=True)]
    if any(size < step for size, step in zip(reach, op.stride, strict=True)):
        raise t.unsupported(
            f"windows of {list(reach)} in steps of {list(op.stride)} keep an open extent",
            hint=GIVE_SHAPES,
        )


def export_max_pool(node: Node, t: Target) -> None:
    """MaxPool1D, MaxPool2D, MaxPool3D: on codes.

    8-bit codes go through float32, which holds them exactly and takes a fifth of the time, except
    beside a quantized convolution, whose layout the integer kernel shares. Wider codes have no
    kernel of their own.
    """
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, _MaxPools)
    dtype = t.inner_type(x)
    wide = DType.FLOAT32 if dtype.bits <= 16 else DType.FLOAT64
    as_is = dtype.is_float or t.plain or _beside_convolution(node)
    direct = dtype in _MAX_POOL_TYPES and as_is
    codes = t.codes(x) if direct else t.cast(t.codes(x), wide)
    result = t.node("MaxPool", [codes], **_shared(op, t))
    result = _activated(result, op.activation, y, t, wide=None if direct else wide)
    t.set_codes(y, result if direct else t.cast(result, dtype))


def _activated(
    result: str, activation: Activation, y: Value, t: Target, *, wide: DType | None
) -> str:
    """The greatest codes or numbers behind an activation; ``wide`` is the type that they have."""
    bounds = activation.bounds
    if bounds is None or (wide is None and not t.is_quantized(y)):
        return t.activate(result, activation, y)
    dtype = t.inner_type(y)
    if wide is None:
        return t.clip_codes(result, t.inner_quant(y), dtype, bounds)
    limits = np.asarray(bounds, np.float64)
    if t.is_quantized(y):
        limits = quantize(limits, t.inner_quant(y), dtype)
        if tuple(limits.tolist()) == dtype.int_range:
            return result
    return t.node("Clip", [result, *(t.const(limit.astype(wide.numpy)) for limit in limits)])


def export_max_pool_indices(node: Node, t: Target) -> None:
    """MaxPoolIndices: MaxPool with its second result."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, p.MaxPoolIndices)
    dtype = t.inner_type(x)
    wide = DType.FLOAT32 if dtype.bits <= 16 else DType.FLOAT64
    direct = dtype in _MAX_POOL_TYPES
    codes = t.codes(x) if direct else t.cast(t.codes(x), wide)
    order = 1 if op.column_major else None
    values, places = t.nodes_of("MaxPool", [codes], 2, storage_order=order, **_shared(op, t))
    values = _activated(values, op.activation, y, t, wide=None if direct else wide)
    t.set_codes(y, values if direct else t.cast(values, dtype))
    t.set_codes(node.outputs[1], places)


def _beside_convolution(node: Node) -> bool:
    """Whether a convolution makes what is pooled or reads the result."""
    producer = node.inputs[0].producer if node.inputs[0] is not None else None
    near = [producer] if producer is not None else []
    near += [use.node for value in node.outputs for use in value.uses]
    return any(isinstance(n.op, Conv2D) for n in near)


def export_average_pool(node: Node, t: Target) -> None:
    """AveragePool1D to AveragePool3D: in 2-D mostly as depthwise convolutions, a tenth of the time.

    A window over all there is becomes GlobalAveragePool.
    """
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, _Means)
    if t.plain or not op.is_plain or not isinstance(op, p.AveragePool2D):
        t.set_real(y, _mean_node(op, x, y, t), op.activation)
        return
    extents = x.shape[2:] if x.shape is not None else ()
    if op.padding.is_zero and tuple(extents) == op.window:
        t.set_real(y, t.node("GlobalAveragePool", [t.real(x)]), op.activation)
        return
    quantized = t.is_quantized(x) and t.is_quantized(y) and not op.padding.same
    unsigned = quantized and t.inner_type(x) is t.inner_type(y) is DType.UINT8
    small = _is_small(op, x, y)
    if unsigned and small and _export_mean(op, x, y, t):
        return
    result = (float_mean(op, x, t) if small else None) or _mean_node(op, x, y, t)
    t.set_real(y, result, op.activation)


def _mean_node(op: _Means, x: Value, y: Value, t: Target) -> str:
    if any(step != 1 for step in op.dilation):
        t.require_opset(_DILATED_MEAN_OPSET, "AveragePool dilations")
    counted = 1 if op.count_padding else None
    inputs = [narrowed(t, x)]
    return widened(t, t.node("AveragePool", inputs, count_include_pad=counted, **_shared(op, t)), y)


def _is_small(op: p.AveragePool2D, x: Value, y: Value) -> bool:
    """Whether a convolution's weights, and what its windows cover, are no burden to the file."""
    known = [dim for dim in (*(x.shape or ())[1:], *(y.shape or ())[1:]) if isinstance(dim, int)]
    weights = math.prod((*known[:1], *op.window))
    return weights <= _MOST_WEIGHTS and max(known, default=0) <= _MOST_WINDOWS


def _export_mean(op: p.AveragePool2D, x: Value, y: Value, t: Target) -> bool:
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
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, p.L2Pool2D)
    _check_gaps(op, t)
    name = t.real(x)
    mean = t.node(
        "AveragePool",
        [t.node("Mul", [name, name])],
        kernel_shape=op.window,
        strides=op.stride,
        **pads(op.padding),
    )
    t.set_real(y, t.node("Sqrt", [mean]), op.activation)


def export_lp_pool(node: Node, t: Target) -> None:
    """LpPool."""
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, p.LpPool)
    if not op.is_plain:
        t.require_opset(_DILATED_NORM_OPSET, "LpPool dilations and ceil_mode")
    result = t.node("LpPool", [narrowed(t, x)], p=op.p, **_shared(op, t))
    t.set_real(y, widened(t, result, y), op.activation)


def export_global_lp_pool(node: Node, t: Target) -> None:
    """GlobalLpPool, in NCHW and up to opset 21, where onnxruntime has it; else a reduction."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, p.GlobalLpPool)
    if op.layout is Layout.NCHW and t.opset <= _LAST_GLOBAL_NORM_OPSET:
        t.set_real(y, widened(t, t.node("GlobalLpPool", [narrowed(t, x)], p=op.p), y))
        return
    if x.type.rank is None:
        raise t.unsupported("the rank isn't known")
    name, dims = narrowed(t, x), tuple(spatial_dims(x.type.rank, op.layout))
    if op.p in (1, 2):
        result = reduced(t, f"ReduceL{op.p}", name, dims, keep_dims=True)
    else:
        kind = np.float16 if t.real_type(x) is DType.FLOAT16 else np.float32
        powers = t.node("Pow", [t.node("Abs", [name]), t.const(kind(op.p))])
        total = reduced(t, "ReduceSum", powers, dims, keep_dims=True)
        result = t.node("Pow", [total, t.const(kind(1 / op.p))])
    t.set_real(y, widened(t, result, y))


def export_max_unpool(node: Node, t: Target) -> None:
    """MaxUnpool: onnxruntime has it for float32, by way of which all others go."""
    op, y = node.op, node.outputs[0]
    x, indices = node.operand(0), node.optional(1)
    rest = node.inputs[2:]
    assert isinstance(op, p.MaxUnpool)
    direct = x.dtype in (DType.FLOAT32, DType.FLOAT16)
    name = t.stored(x) if direct else t.cast(t.stored(x), DType.FLOAT32)
    inputs = [name, t.codes(indices)]
    if op.shape is not None:
        inputs.append(t.const(list(op.shape)))
    elif rest and rest[0] is not None:
        inputs.append(t.int64(rest[0]))
    result = t.node(
        "MaxUnpool", inputs, kernel_shape=op.window, strides=op.stride, **pads(op.padding)
    )
    t.set_stored(y, result if direct else t.cast(result, y.dtype))


EXPORTERS: dict[type[Op], Exporter] = {
    p.MaxPool1D: export_max_pool,
    p.MaxPool2D: export_max_pool,
    p.MaxPool3D: export_max_pool,
    p.MaxPoolIndices: export_max_pool_indices,
    p.AveragePool1D: export_average_pool,
    p.AveragePool2D: export_average_pool,
    p.AveragePool3D: export_average_pool,
    p.L2Pool2D: export_l2_pool,
    p.LpPool: export_lp_pool,
    p.GlobalLpPool: export_global_lp_pool,
    p.MaxUnpool: export_max_unpool,
}
