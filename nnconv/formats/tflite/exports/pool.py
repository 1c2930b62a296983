"""Pooling of two spatial dimensions, channels-last."""

from __future__ import annotations

import math

from nnconv.decompositions.base import Refused
from nnconv.formats.tflite._gen.schema import Padding as Scheme
from nnconv.formats.tflite.exporter import (
    ACTIVATION_CODES,
    FLOAT32,
    NO_TYPES,
    Exporter,
    Options,
    Target,
    export_in_floats,
)
from nnconv.formats.tflite.window import padded, require_channels_last, scheme_of
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ir.types import Dim
from nnconv.ops import pool as p
from nnconv.ops.elementwise import Clip
from nnconv.ops.spatial import Padding

_Pool = p.MaxPool2D | p.AveragePool2D | p.L2Pool2D

_VERSIONS = {DType.INT8: 2, DType.INT16: 3}


def _options(op: _Pool, scheme: Scheme, t: Target) -> Options:
    fields = {
        "padding": scheme,
        "stride_h": op.stride[0],
        "stride_w": op.stride[1],
        "filter_height": op.window[0],
        "filter_width": op.window[1],
        "fused_activation_function": t.activation(op.activation),
    }
    return "Pool2DOptions", fields


def _operand(node: Node, t: Target, op: _Pool) -> tuple[Value, tuple[Dim, ...]]:
    x = node.operand(0)
    return x, require_channels_last(t, x, op.layout, 4)


def _version(x: Value) -> int:
    return _VERSIONS.get(x.dtype, 1) if x.type.has_codes else 1


def _refused(x: Value, why: str) -> Refused:
    """The exception for a pool that is decomposed: in floats, where it is of codes."""
    if x.type.has_codes:
        return Refused(why, types=FLOAT32, operands=(0,))
    return Refused(why)


def _lowest(x: Value) -> float | None:
    """What never is the greatest; None for real zero, with which there are quicker kernels."""
    if x.dtype.is_float:
        return None if _is_positive(x) else -math.inf
    low = x.dtype.int_range[0]
    return None if x.quant is not None and x.quant.zero_point == (low,) else low


def _is_positive(x: Value) -> bool:
    """Whether the op that makes a value leaves nothing below 0."""
    if x.producer is None:
        return False
    op = x.producer.op
    bounds = getattr(op, "activation", Activation.NONE).bounds
    if bounds is not None:
        return bool(bounds[0] >= 0)
    return isinstance(op, Clip) and op.low >= 0


def _room_for_all(op: p.MaxPool2D) -> Padding | None:
    """Padding that holds each window of ceil_mode whatever the extents are.

    None where a window could begin behind the data: ONNX leaves those out.
    """
    before, after = op.padding.before, op.padding.after
    sides = list(zip(op.window, op.stride, after, strict=True))
    if op.padding.same or any(size < step + behind for size, step, behind in sides):
        return None
    return Padding(before, tuple(behind + step - 1 for _, step, behind in sides))


def export_max_pool(node: Node, t: Target) -> None:
    """MAX_POOL_2D; other paddings than SAME by a PADV2 of the lowest number, or PAD."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, p.MaxPool2D)
    x, extents = _operand(node, t, op)
    t.require(node, plain=FLOAT32, codes=ACTIVATION_CODES)
    if any(spread > 1 for spread in op.dilation):
        raise _refused(x, "it has dilations")
    scheme = scheme_of(extents, op.padding, op.window, op.stride, (1, 1))
    padding = op.reached(extents) or _room_for_all(op)
    if padding is None:
        raise t.refused("ceil_mode of extents that aren't known")
    if padding != op.padding:
        scheme = scheme_of(extents, padding, op.window, op.stride, (1, 1))
    options = _options(op, Scheme.VALID if scheme is None else scheme, t)
    data = t.tensor(x) if scheme is not None else padded(t, x, padding, fill=_lowest(x))
    t.emit("MAX_POOL_2D", [data], y, options, version=_version(x), quant=x.quant)


def export_average_pool(node: Node, t: Target) -> None:
    """AVERAGE_POOL_2D, which leaves padding out; padding that counts is a PAD."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, p.AveragePool2D)
    x, extents = _operand(node, t, op)
    t.require(node, plain=FLOAT32, codes=ACTIVATION_CODES)
    if x.quant != y.quant:
        raise Refused("its result has other parameters", types=FLOAT32, operands=(0,))
    if not op.is_plain and (op.reached(extents) != op.padding or max(op.dilations) > 1):
        raise _refused(x, "it has dilations, or windows that reach beyond the padding")
    scheme = scheme_of(extents, op.padding, op.window, op.stride, (1, 1))
    if scheme is Scheme.SAME and op.count_padding:
        scheme = None
    if scheme is None and not op.count_padding:
        raise _refused(x, "it leaves padding out that isn't SAME")
    options = _options(op, Scheme.VALID if scheme is None else scheme, t)
    data = t.tensor(x) if scheme is not None else padded(t, x, op.padding)
    t.emit("AVERAGE_POOL_2D", [data], y, options, version=_version(x))


def export_l2_pool(node: Node, t: Target) -> None:
    """L2_POOL_2D."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, p.L2Pool2D)
    x, extents = _operand(node, t, op)
    t.require(node, plain=FLOAT32, codes=NO_TYPES)
    if not op.is_plain:
        raise t.refused("it has dilations, or windows that reach beyond the padding")
    scheme = scheme_of(extents, op.padding, op.window, op.stride, (1, 1))
    if scheme is None:
        raise t.refused("it leaves padding out that isn't SAME")
    t.emit("L2_POOL_2D", [t.tensor(x)], y, _options(op, scheme, t))


EXPORTERS: dict[type[Op], Exporter] = {
    p.MaxPool2D: export_max_pool,
    p.AveragePool2D: export_average_pool,
    p.L2Pool2D: export_l2_pool,
    p.LpPool: export_in_floats,
    p.GlobalLpPool: export_in_floats,
}
