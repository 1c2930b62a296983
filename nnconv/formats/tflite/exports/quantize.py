"""Quantization, and conversions between types of numbers."""

from __future__ import annotations

import numpy as np

from nnconv.formats.tflite.exporter import FLOAT32, Exporter, Target, has_wide_point
from nnconv.formats.tflite.types import CODES, USUAL_TYPES
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.quant import real_values
from nnconv.ir.types import TensorType
from nnconv.ops.quantize import Bitcast, Cast, Dequantize, FakeQuant, LooseCast, Quantize

_FROM_FLOAT = frozenset({DType.INT8, DType.UINT8, DType.INT16})
"""What QUANTIZE makes of floats."""

_BETWEEN = frozenset(
    {
        (DType.INT8, DType.INT8),
        (DType.INT8, DType.UINT8),
        (DType.INT8, DType.INT16),
        (DType.UINT8, DType.UINT8),
        (DType.UINT8, DType.INT8),
        (DType.UINT8, DType.INT16),
        (DType.INT16, DType.INT8),
        (DType.INT16, DType.INT16),
        (DType.INT16, DType.INT32),
        (DType.INT32, DType.INT8),
        (DType.INT32, DType.INT16),
    }
)
"""What QUANTIZE makes of codes."""

_TO_FLOAT = frozenset({DType.INT8, DType.UINT8, DType.INT16, DType.INT4, DType.UINT4})

_FROM_FLOAT32 = frozenset({DType.INT2, DType.INT4, DType.UINT4})
"""What CAST makes of float32 alone."""

_INTO_FLOAT32 = frozenset({DType.INT2, DType.INT4, DType.UINT4})
"""What CAST reads for float32 alone."""

_CASTS = USUAL_TYPES | {DType.BFLOAT16, DType.COMPLEX64}


def _operand(node: Node) -> tuple[Value, Value]:
    x = node.operand(0)
    return x, node.outputs[0]


def export_quantize(node: Node, t: Target) -> None:
    """QUANTIZE of float32 or of codes."""
    x, y = _operand(node)
    assert y.quant is not None, "the result has parameters"
    if not y.quant.is_per_tensor:
        raise t.refused("TFLite quantizes with one scale a tensor at run time")
    if x.type.has_codes:
        if (x.dtype, y.dtype) not in _BETWEEN:
            raise t.refused(f"QUANTIZE from {x.dtype} to {y.dtype} isn't known")
    elif y.dtype not in _FROM_FLOAT or x.dtype is not DType.FLOAT32:
        raise t.refused(f"QUANTIZE from {x.dtype} to {y.dtype} isn't known")
    for value in (x, y):
        _require_kernel(value, t)
    t.emit("QUANTIZE", [t.tensor(x)], y, ("QuantizeOptions", {}))


def _require_kernel(value: Value, t: Target) -> None:
    """See that kernels know the parameters of codes: those of 16 bits have no zero points."""
    if has_wide_point(value.dtype, value.quant):
        raise t.refused("codes of 16 bits have zero points")


def export_dequantize(node: Node, t: Target) -> None:
    """DEQUANTIZE; constants that it can't read stand in the file as floats.

    So do those that are a result: XNNPACK takes their floats into what reads them and leaves the
    result as it was.
    """
    x, y = _operand(node)
    if not y.goes_out and _is_narrow(x) and y.dtype is DType.FLOAT32:
        assert x.data is not None
        codes = t.const(x.data.astype(np.int8), quant=x.quant, dtype=DType.INT8, name=x.name)
        t.emit("DEQUANTIZE", [codes], y, ("DequantizeOptions", {}), version=2)
        return
    if x.data is not None and (y.goes_out or x.dtype not in _TO_FLOAT or not _reads_constant(x)):
        if x.quant is None:
            raise t.refused(f"{x.type} has no parameters")
        data = real_values(x.data, x.quant, y.dtype)
        t.alias(y, t.const(data, name=y.name))
        return
    if not x.type.has_codes:
        raise t.refused(f"{x.type} has no codes")
    if x.dtype not in _TO_FLOAT or not ((x.quant and x.quant.is_per_tensor) or x.data is not None):
        raise t.refused(f"DEQUANTIZE of {x.type} isn't known")
    _require_kernel(x, t)
    if y.dtype is DType.FLOAT32:
        t.emit("DEQUANTIZE", [t.tensor(x)], y, ("DequantizeOptions", {}))
        return
    real = t.result(
        "DEQUANTIZE",
        [t.tensor(x)],
        TensorType(DType.FLOAT32, y.shape),
        ("DequantizeOptions", {}),
    )
    _cast(t, real, DType.FLOAT32, y)


def _is_narrow(x: Value) -> bool:
    """Whether these are constants of fewer than 8 bits with parameters of channels.

    DEQUANTIZE reads those as bytes alone; as floats they would take four times the room.
    """
    quant = x.quant
    few = x.data is not None and x.dtype.bits < 8 and x.type.has_codes
    return few and quant is not None and not quant.is_per_tensor and not quant.block


def _reads_constant(x: Value) -> bool:
    """Whether DEQUANTIZE reads these constants' parameters."""
    if x.quant is None or x.quant.block:
        return False
    return x.quant.is_per_tensor or (x.dtype in (DType.INT8, DType.UINT8))


def export_cast(node: Node, t: Target) -> None:
    """CAST; float16 weights have a DEQUANTIZE, which is worked out once instead of in each run."""
    x, y = _operand(node)
    if x.data is not None and x.dtype is DType.FLOAT16 and y.dtype is DType.FLOAT32:
        t.emit("DEQUANTIZE", [t.tensor(x)], y, ("DequantizeOptions", {}))
        return
    if x.data is not None and (x.data.size <= 1 or x.dtype is DType.BFLOAT16):
        (data,) = t.file.evaluate(node, [x.data])
        t.alias(y, t.const(data, name=y.name))
        return
    made = x.dtype is DType.FLOAT32 and y.dtype in _FROM_FLOAT32
    read = y.dtype is DType.FLOAT32 and x.dtype in _INTO_FLOAT32
    if not (made or read or (x.dtype in _CASTS and y.dtype in _CASTS)):
        raise t.refused(f"CAST from {x.dtype} to {y.dtype} isn't known")
    _cast(t, t.tensor(x), x.dtype, y)


def _cast(t: Target, tensor: int, old: DType, y: Value) -> None:
    options = {"in_data_type": CODES[old], "out_data_type": CODES[y.dtype]}
    t.emit("CAST", [tensor], y, ("CastOptions", options))


def export_loose_cast(node: Node, t: Target) -> None:
    """CAST, which saturates; of fewer than 8 bits the low ones are wanted instead."""
    op = node.op
    assert isinstance(op, LooseCast)
    if op.dtype.bits < 8:
        t.require(node, plain=FLOAT32)
        raise t.refused(f"CAST to {op.dtype} saturates")
    export_cast(node, t)


def export_bitcast(node: Node, t: Target) -> None:
    """BITCAST; where only the parameters are others, a RESHAPE hands the codes on."""
    x, y = _operand(node)
    if x.data is not None and x.dtype is y.dtype:
        t.alias(y, t.const(x.data, quant=y.quant, dtype=y.dtype, name=y.name))
        return
    t.emit("BITCAST", [t.tensor(x)], y)


def export_fake_quant(node: Node, t: Target) -> None:
    """FAKE_QUANT."""
    op = node.op
    assert isinstance(op, FakeQuant)
    t.require(node, plain=FLOAT32)
    fields = {"min": op.low, "max": op.high, "num_bits": op.bits, "narrow_range": op.narrow}
    options = ("FakeQuantOptions", fields)
    t.emit("FAKE_QUANT", [t.tensor(node.inputs[0])], node.outputs[0], options)


EXPORTERS: dict[type[Op], Exporter] = {
    Quantize: export_quantize,
    Dequantize: export_dequantize,
    Cast: export_cast,
    LooseCast: export_loose_cast,
    Bitcast: export_bitcast,
    FakeQuant: export_fake_quant,
}
