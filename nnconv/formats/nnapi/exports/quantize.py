"""Quantization, and conversions between types of numbers."""

from __future__ import annotations

import numpy as np

from nnconv.errors import Reason, UnsupportedItem
from nnconv.formats.indexed import Ref
from nnconv.formats.nnapi import alike, wide
from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.formats.nnapi.operands import AS_THEY_ARE, WIDE
from nnconv.formats.refusals import NotExportable, item_of
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.quant import real_values
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops.elementwise import Clip
from nnconv.ops.quantize import Bitcast, Cast, Dequantize, LooseCast, Quantize

_CODES = frozenset({DType.UINT8, DType.INT8})


def _too_wide(node: Node, t: Target) -> UnsupportedItem | None:
    """What is wrong where 16-bit codes with operands of their own become, or come of, others."""
    for value in (node.operand(0), node.outputs[0]) if t.keeps_wide else ():
        if value.dtype in WIDE and value.type.has_codes and value.data is None:
            why = f"`{value.name}` is {value.type}, NNAPI doesn't compute with 16-bit codes"
            hint = "Quantize the inputs and outputs to 8 bits, or leave them float32."
            return item_of(node, why, reason=Reason.IMPOSSIBLE, hint=hint)
    return None


def export_quantize(node: Node, t: Target) -> None:
    """QUANTIZE of floats; codes of one type by an ADD, of two through floats.

    int32 codes, and those it stands in for, by arithmetic.
    """
    if item := _too_wide(node, t):
        raise NotExportable(item)
    x, y = node.operand(0), node.outputs[0]
    assert y.quant is not None, "the result has parameters"
    if wide.has_int32(t, y.type) and (x.dtype, x.quant) == (y.dtype, y.quant):
        t.keep(x, y)
        return
    if wide.has_int32(t, y.type) and x.dtype is DType.FLOAT32:
        wide.quantize(t, x, y)
        return
    per_tensor = x.quant is not None and x.quant.is_per_tensor and y.quant.is_per_tensor
    if y.dtype is DType.INT32 and x.type.has_codes and per_tensor:
        wide.requantize(t, x, y)
        return
    lacking = t.is_lacking(y.dtype) or t.is_lacking(x.dtype)
    if lacking and wide.is_other_sign(x, y):
        wide.shift(t, x, y)
        return
    if lacking or not y.quant.is_per_tensor or y.dtype not in _CODES:
        raise t.refused(f"NNAPI makes no {y.type} of {x.type} at run time")
    if not x.type.has_codes:
        t.emit("QUANTIZE", {"input": x}, y)
        return
    if x.dtype is y.dtype and x.quant is not None and x.quant.is_per_tensor:
        if x.quant == y.quant:
            t.keep(x, y)
        else:
            t.rescale(t.operand(x), y)
        return
    real = t.result("DEQUANTIZE", {"input": x}, TensorType(DType.FLOAT32, x.shape))
    t.emit("QUANTIZE", {"input": real}, y)


def export_dequantize(node: Node, t: Target) -> None:
    """DEQUANTIZE; constants become floats, wide codes are for operations that take them."""
    x, y = node.operand(0), node.outputs[0]
    if item := _too_wide(node, t):
        if y.goes_out:
            raise NotExportable(item)
        t.defer(y, item)
        return
    if x.data is not None:
        if x.quant is None:
            raise t.refused(f"{x.type} has no parameters")
        t.constant(y, real_values(x.data, x.quant, y.dtype))
        return
    if wide.has_int32(t, x.type) and y.dtype is DType.FLOAT32:
        wide.dequantize(t, x, y)
        return
    t.rank(x)
    t.emit("DEQUANTIZE", {"input": x}, y)


def export_cast(node: Node, t: Target) -> None:
    """CAST of stored numbers; floats become bytes in the range of these alone."""
    x, y = node.operand(0), node.outputs[0]
    if x.data is not None and (x.data.size <= _FOLDED or x.dtype is DType.BFLOAT16):
        t.constant(y, t.file.evaluate(node, [x.data])[0])
        return
    if x.dtype is y.dtype and x.quant == y.quant:
        t.keep(x, y)
        return
    if x.dtype is DType.BOOL:
        _numbers_of(t, x, y)
        return
    if t.is_lacking(x.dtype) and y.dtype is DType.INT32:
        t.keep(x, y)
        return
    if t.is_lacking(y.dtype):
        wide.cast(t, x, y)
        return
    if y.dtype is DType.BOOL:
        zero = t.const(np.zeros(1, x.dtype.numpy), quant=x.quant)
        t.emit("NOT_EQUAL", {"input0": x, "input1": zero}, y)
        return
    if DType.INT8 in (x.dtype, y.dtype) and not t.is_lacking(x.dtype):
        _signed(t, x, y)
        return
    if y.dtype is DType.UINT8 and not (x.dtype.is_float or _in_bytes(x)):
        raise t.refused("CAST to bytes takes the nearest one")
    t.emit("CAST", {"input": x}, y)


def _signed(t: Target, x: Value, y: Value) -> None:
    """Signed bytes from or to floats, which CAST doesn't know: as codes of scale 1."""
    plain = TensorType(DType.INT8, x.shape, AS_THEY_ARE)
    if x.dtype is DType.INT8 and y.dtype.is_float:
        codes = t.operand(x)
        held = t.operands[codes]  # which may have others' parameters
        if (held.scale, held.zero_point) != (1.0, 0):
            codes = t.result("CAST", {"input": codes}, plain)
        t.emit("DEQUANTIZE", {"input": codes}, y)
        return
    if not x.dtype.is_float or y.quant not in (None, AS_THEY_ARE):
        raise t.refused("CAST knows no signed bytes")
    source: Value | Ref = x
    if not _is_whole(x):
        bounds = [t.const(np.full(1, end, x.dtype.numpy)) for end in DType.INT8.int_range]
        for name, bound in zip(("MAXIMUM", "MINIMUM"), bounds, strict=True):
            inputs = {"input0": source, "input1": bound}
            source = t.result(name, inputs, TensorType(x.dtype, x.shape))
        for dtype in (DType.INT32, x.dtype):
            source = t.result("CAST", {"input": source}, TensorType(dtype, x.shape))
    t.emit("QUANTIZE", {"input": source}, y)


def _is_whole(x: Value) -> bool:
    """Whether floats are integers."""
    node = x.producer
    return node is not None and isinstance(node.op, Cast) and node.operand(0).dtype.is_integer


def _numbers_of(t: Target, x: Value, y: Value) -> None:
    """1 where a truth value is true, else 0: SELECT, whose operands have one shape."""
    numbers = None if static_shape(x.shape) is not None else alike.numbers_of(x)
    if numbers is None:
        shape = t.static(x) or (1,)
        one, zero = (t.const(np.full(shape, n, y.dtype.numpy), quant=y.quant) for n in (1, 0))
        t.emit("SELECT", {"condition": x, "input0": one, "input1": zero}, y)
        return
    if y.quant is not None:
        raise t.refused(f"the extents of `{x.name}` aren't known")
    none, kind = alike.zeros(t, numbers)
    unit = t.const(np.ones(1, np.float32))
    ones = t.result("ADD", {"input0": none, "input1": unit, "activation": 0}, kind)
    inputs = {"condition": x, "input0": ones, "input1": none}
    if y.dtype is DType.FLOAT32:
        t.emit("SELECT", inputs, y)
    else:
        t.emit("CAST", {"input": t.result("SELECT", inputs, kind)}, y)


def _in_bytes(x: Value) -> bool:
    """Whether numbers are known to be from 0 to 255."""
    if x.dtype is DType.UINT8:
        return True
    op = None if x.producer is None else x.producer.op
    return isinstance(op, Clip) and op.low >= 0 and op.high <= 255


_FOLDED = 1 << 22


def export_bitcast(node: Node, t: Target) -> None:
    """Codes under other parameters, where these are free: of constants and inputs read once."""
    x, y = node.operand(0), node.outputs[0]
    if x.dtype is not y.dtype and (item := _too_wide(node, t)):
        raise NotExportable(item)
    if x.data is not None and x.dtype is y.dtype:
        t.constant(y, x.data)
        return
    if x.dtype is y.dtype and (x.quant or None) == (y.quant or None):
        t.keep(x, y)
        return
    if x.dtype is y.dtype and t.stored(x.dtype) is DType.INT32:
        t.keep(x, y)
        return
    if x.dtype is DType.BOOL and y.dtype in _CODES:
        _numbers_of(t, x, y)
        return
    if y.dtype is DType.BOOL and x.dtype in _CODES:
        zero = t.const(np.zeros(1, x.dtype.numpy), quant=x.quant)
        t.emit("NOT_EQUAL", {"input0": x, "input1": zero}, y)
        return
    t.reinterpret(x, y)


EXPORTERS: dict[type[Op], Exporter] = {
    Quantize: export_quantize,
    Dequantize: export_dequantize,
    Cast: export_cast,
    LooseCast: export_cast,
    Bitcast: export_bitcast,
}
