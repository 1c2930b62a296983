"""Values of the shape of others whose extents aren't known, for operations that don't broadcast.

Zeros of the shape of a number are its codes of 8 bits times 0: those are finite whatever it is.
"""

from __future__ import annotations

import numpy as np

from nnconv.formats.indexed import Ref
from nnconv.formats.nnapi.exporter import Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.quant import Quant
from nnconv.ir.types import TensorType, broadcast_shapes, static_shape
from nnconv.ops import elementwise as e
from nnconv.ops.quantize import Cast

_TRUTHS = (
    e.Equal, e.NotEqual, e.Less, e.LessEqual, e.Greater, e.GreaterEqual,
    e.LogicalAnd, e.LogicalOr, e.LogicalNot, Cast,
)  # fmt: skip
"""Ops whose result has the shape of their operands together."""

_BYTES = Quant.per_tensor(1.0)


def numbers_of(value: Value) -> list[Value] | None:
    """Numbers that have, broadcast together, the shape of a value; None if none are known."""
    if value.dtype is not DType.BOOL:
        return [value]
    if static_shape(value.shape) is not None:
        return [Value("", TensorType(DType.FLOAT32, value.shape))]
    made = value.producer
    if made is None or not isinstance(made.op, _TRUTHS):
        return None
    found: list[Value] = []
    for operand in made.inputs:
        numbers = None if operand is None else numbers_of(operand)
        if numbers is None:
            return None
        found += numbers
    return found


def zeros(t: Target, values: list[Value]) -> tuple[Ref, TensorType]:
    """Zeros, float32, of the shape that numbers have if broadcast together; with their type."""
    total, kind = _zeros_of(t, values[0])
    for value in values[1:]:
        more, other = _zeros_of(t, value)
        assert kind.shape is not None
        assert other.shape is not None
        kind = TensorType(DType.FLOAT32, broadcast_shapes((kind.shape, other.shape)))
        total = t.result("ADD", {"input0": total, "input1": more, "activation": 0}, kind)
    return total, kind


def _zeros_of(t: Target, value: Value) -> tuple[Ref, TensorType]:
    t.rank(value)
    shape = static_shape(value.shape)
    if shape is not None:
        kind = TensorType(DType.FLOAT32, shape or (1,))
        return t.const(np.zeros(shape or (1,), np.float32)), kind
    return zeroed(t, t.operand(value), value.type)


def zeroed(t: Target, operand: Ref, source: TensorType) -> tuple[Ref, TensorType]:
    """Zeros, float32, in the place of numbers of a type; with their type."""
    kind = TensorType(DType.FLOAT32, source.shape)
    if source.dtype is DType.INT32:
        real = t.result("CAST", {"input": operand}, kind)
    elif source.dtype.is_integer:
        real = t.result("DEQUANTIZE", {"input": operand}, kind)
    else:
        codes = TensorType(DType.UINT8, source.shape, _BYTES)
        bounded = t.result("QUANTIZE", {"input": operand}, codes)
        real = t.result("DEQUANTIZE", {"input": bounded}, kind)
    zero = t.const(np.zeros(1, np.float32))
    return t.result("MUL", {"input0": real, "input1": zero, "activation": 0}, kind), kind


def false(t: Target, like: Ref, kind: TensorType) -> Ref:
    """False everywhere, of the shape of some numbers."""
    inputs = {"input0": like, "input1": like}
    return t.result("LESS", inputs, TensorType(DType.BOOL, kind.shape))
