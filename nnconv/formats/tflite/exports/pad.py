"""Pads of constants; other modes are decomposed, or mirrored where extents aren't known."""

from __future__ import annotations

import numpy as np

from nnconv.errors import plural
from nnconv.formats.tflite._gen.schema import MirrorPadMode
from nnconv.formats.tflite.exporter import Target
from nnconv.formats.tflite.window import MOST_PADS
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.quant import quantize
from nnconv.ir.types import static_shape
from nnconv.ops.slices import Pad, PadMode

_CODES = frozenset({DType.INT8, DType.UINT8, DType.INT16})
_PADDED = frozenset({DType.FLOAT16, DType.FLOAT32, DType.INT32, DType.INT64, DType.BOOL})

MOST_DIMENSIONS = 5
"""The highest rank of PAD and PADV2."""


def export_pad(node: Node, t: Target) -> None:
    """PAD with zeros, PADV2 with another value, MIRROR_PAD of extents that aren't known."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, Pad)
    t.require(node, plain=_PADDED, codes=_CODES, operands=[0])
    if x.shape is None or len(x.shape) > MOST_DIMENSIONS:
        raise t.refused(f"its operand is {x.type}, of at most {MOST_DIMENSIONS} dimensions")
    pads = _pads(op, node, t)
    if op.mode is PadMode.CONSTANT:
        version = 2 if x.dtype is DType.INT8 else 1
        value = _value(op, node, t)
        if value is None:
            t.emit("PAD", [t.tensor(x), pads], y, ("PadOptions", {}), version=version)
        else:
            operands = [t.tensor(x), pads, value]
            t.emit("PADV2", operands, y, ("PadV2Options", {}), version=version)
        return
    if op.mode not in (PadMode.REFLECT, PadMode.SYMMETRIC):
        raise t.refused(f"mode {op.mode.value}")
    if _is_pickable(op, x):
        raise t.refused("elements picked by their places take a fraction of the time")
    mode = MirrorPadMode.REFLECT if op.mode is PadMode.REFLECT else MirrorPadMode.SYMMETRIC
    t.emit("MIRROR_PAD", [t.tensor(x), pads], y, ("MirrorPadOptions", {"mode": mode}))


def _pads(op: Pad, node: Node, t: Target) -> int:
    """The operand [rank, 2] of counts."""
    if op.before is None or op.after is None:
        pads = node.operand(1)
        if op.flat or op.axes is not None:
            raise t.refused("its counts are computed at run time in another order")
        return t.index(pads)
    if min((*op.before, *op.after), default=0) < 0:
        raise t.refused("it cuts elements off")
    if max((*op.before, *op.after), default=0) > MOST_PADS:
        raise t.refused(f"it puts {plural(max((*op.before, *op.after)), 'element')} in")
    return t.const(np.asarray(list(zip(op.before, op.after, strict=True)), np.int32).reshape(-1, 2))


def _value(op: Pad, node: Node, t: Target) -> int | None:
    """The tensor of what is put in; None for real zeros."""
    x, given = node.operand(0), node.optional(2)
    if given is not None:
        if given.quant != x.quant:
            raise t.refused("what it puts in has other parameters")
        return t.tensor(given)
    if not op.value:
        return None
    value = np.asarray(op.value, np.float64)
    if x.type.has_codes:
        assert x.quant is not None
        code = quantize(value, x.quant, x.dtype)
        return t.const(code, quant=x.quant)
    with np.errstate(over="ignore"):
        return t.const(value.astype(x.dtype.numpy))


def _is_pickable(op: Pad, x: Value) -> bool:
    return op.before is not None and static_shape(x.shape) is not None
