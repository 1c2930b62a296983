"""Quantization in simpler ops."""

from __future__ import annotations

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.bounds import bounds_of
from nnconv.decompositions.constants import round_small
from nnconv.decompositions.unsigned import as_float, from_float
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.quant import Quant
from nnconv.ops import elementwise as e
from nnconv.ops.quantize import (
    Bitcast,
    Cast,
    Dequantize,
    DynamicQuantize,
    FakeQuant,
    LooseCast,
    Quantize,
)
from nnconv.ops.reduce import ReduceMax, ReduceMin


def decompose_dynamic_quantize(node: Node, b: Builder) -> list[Value] | None:
    """DynamicQuantize by its formula."""
    x = node.operand(0)
    if x.type.rank is None:
        return None
    codes, scale, point = dynamic_codes(x, b)
    to_byte = Cast(dtype=DType.UINT8)
    return [b.add(to_byte, [codes]), scale, b.add(to_byte, [point])]


def dynamic_codes(x: Value, b: Builder) -> tuple[Value, Value, Value]:
    """What DynamicQuantize makes of data of known rank: codes, scale and zero point, as float32.

    Where all of x is 0, the scale is 1.
    """
    assert x.type.rank is not None
    zero, axes = b.const(np.asarray(0, np.float32)), tuple(range(x.type.rank))
    least = b.add(e.Minimum(), [b.add(ReduceMin(axes=axes), [x]), zero])
    greatest = b.add(e.Maximum(), [b.add(ReduceMax(axes=axes), [x]), zero])
    span = b.add(e.Sub(), [greatest, least])
    scale = b.add(e.Div(), [span, b.const(np.asarray(255, np.float32))])
    some = b.add(e.Greater(), [scale, zero])
    step = b.add(e.Select(), [some, scale, b.const(np.asarray(1, np.float32))])
    whole = round_small(b.add(e.Div(), [b.add(e.Neg(), [least]), step]), b)
    point = b.add(e.Clip(low=0.0, high=255.0), [whole])
    steps = round_small(b.add(e.Div(), [x, step]), b)  # 255 at most: x is within its span
    codes = b.add(e.Clip(low=0.0, high=255.0), [b.add(e.Add(), [steps, point])])
    return codes, step, point


def quantize_widened(node: Node, b: Builder) -> list[Value] | None:
    """Quantize of narrow codes to int32 of finer steps, of which float32 holds no such numbers.

    The whole part of the ratio of scales is multiplied as integers, its fraction as floats.
    """
    x, y = node.operand(0), node.outputs[0]
    if x.quant is None or y.quant is None or y.dtype is not DType.INT32 or x.dtype.bits > 16:
        return None
    if not (x.quant.is_per_tensor and y.quant.is_per_tensor):
        return None
    whole, fraction = divmod(x.quant.scale[0] / y.quant.scale[0], 1.0)
    start = x.quant.zero_point[0]
    far = max(abs(end - start) for end in x.dtype.int_range)
    if whole < 1 or far * (whole + 1) + abs(y.quant.zero_point[0]) > y.dtype.int_range[1]:
        return None
    plain = b.add(Bitcast(dtype=x.dtype), [x])
    steps = b.add(Cast(dtype=DType.INT32), [plain])
    if start:
        steps = b.add(e.Sub(), [steps, b.const(np.asarray(start, np.int32))])
    codes = b.add(e.Mul(), [steps, b.const(np.asarray(int(whole), np.int32))])
    if fraction:
        real = b.add(Cast(dtype=DType.FLOAT32), [steps])
        part = b.add(e.Round(), [b.add(e.Mul(), [real, b.const(np.asarray(fraction, np.float32))])])
        codes = b.add(e.Add(), [codes, b.add(LooseCast(dtype=DType.INT32), [part])])
    if y.quant.zero_point[0]:
        codes = b.add(e.Add(), [codes, b.const(np.asarray(y.quant.zero_point[0], np.int32))])
    return list(b.add_typed(Bitcast(dtype=y.dtype), [codes], [y.type]))


def quantize_by_arithmetic(node: Node, b: Builder) -> list[Value] | None:
    """Quantize by its formula, on float32: for codes that no kernel makes."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, Quantize)
    if y.quant is None or y.quant.block:
        return None
    if x.type.has_codes:
        real = b.add(Dequantize(dtype=DType.FLOAT32), [x])
        return [b.add(op, [real], quant=y.quant)]
    if x.dtype is not DType.FLOAT32:
        wide = b.add(Cast(dtype=DType.FLOAT32), [x])
        return [b.add(op, [wide], quant=y.quant)]
    scale, point = _spread(y.quant, x, b)
    low, high = y.dtype.int_range
    steps = b.add(e.Div(), [x, scale])
    if len(set(y.quant.zero_point)) == 1:  # bounds first: some formats round small numbers alone
        (start,) = set(y.quant.zero_point)
        steps = b.add(e.Round(), [b.add(e.Clip(low=low - start, high=high - start), [steps])])
        codes = b.add(e.Add(), [steps, point]) if start else steps
    else:
        rounded = b.add(e.Add(), [b.add(e.Round(), [steps]), point])
        codes = b.add(e.Clip(low=low, high=high), [rounded])
    number = b.add(Cast(dtype=y.dtype), [codes])
    return list(b.add_typed(Bitcast(dtype=y.dtype), [number], [y.type]))


def dequantize_by_arithmetic(node: Node, b: Builder) -> list[Value] | None:
    """Dequantize by its formula, on float32: for codes that no kernel reads."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, Dequantize)
    if x.quant is None or x.quant.block:
        return None
    scale, point = _spread(x.quant, x, b)
    number = b.add(Cast(dtype=DType.FLOAT32), [b.add(Bitcast(dtype=x.dtype), [x])])
    real = b.add(e.Mul(), [b.add(e.Sub(), [number, point]), scale])
    return [real if op.dtype is DType.FLOAT32 else b.add(Cast(dtype=op.dtype), [real])]


def _spread(quant: Quant, x: Value, b: Builder) -> tuple[Value, Value]:
    """Scale and zero point as constants that broadcast against ``x``."""
    shape: tuple[int, ...] = ()
    if quant.axis is not None and not quant.is_per_tensor:
        assert x.type.rank is not None, "parameters of channels have an axis"
        shape = (-1, *(1,) * (x.type.rank - 1 - quant.axis))
    scale, point = (np.asarray(n, np.float32) for n in (quant.scale, quant.zero_point))
    return b.const(scale.reshape(shape)), b.const(point.reshape(shape))


def cast_of_numbers(node: Node, b: Builder) -> list[Value] | None:
    """A Cast from or to codes, by the numbers that are stored."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    if not x.type.has_codes and not y.type.has_codes:
        return None
    number = b.add(Bitcast(dtype=x.dtype), [x]) if x.type.has_codes else x
    if number.dtype is not y.dtype:
        number = b.add(op, [number])
    if not y.type.has_codes:
        return [number]
    return list(b.add_typed(Bitcast(dtype=y.dtype), [number], [y.type]))


def cast_by_bits(node: Node, b: Builder) -> list[Value] | None:
    """A Cast from or to uint64 by int64 of the same bits."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, Cast)
    if x.dtype is DType.UINT64:
        same = b.add(Bitcast(dtype=DType.INT64), [x])
        if op.dtype is DType.INT64:
            return [same]
        if op.dtype.is_float:
            found = as_float(x, op.dtype if op.dtype.bits >= 32 else DType.FLOAT32, b)
            return [found if found.dtype is op.dtype else b.add(op, [found])]
        return [b.add(Cast(dtype=op.dtype), [same])]
    if op.dtype is DType.UINT64:
        if x.dtype.is_float:
            single = x if x.dtype.bits >= 32 else b.add(Cast(dtype=DType.FLOAT32), [x])
            return [from_float(single, op, b)]
        wide = x if x.dtype is DType.INT64 else b.add(Cast(dtype=DType.INT64), [x])
        return [b.add(Bitcast(dtype=DType.UINT64), [wide])]
    return None


_SMALL = frozenset({DType.INT2, DType.INT4, DType.UINT4})


def cast_by_floats(node: Node, b: Builder) -> list[Value] | None:
    """A Cast from or to fewer than 8 bits by float32, which holds their numbers."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, Cast)
    if x.dtype is op.dtype or x.dtype is DType.FLOAT32 or not _SMALL & {x.dtype, op.dtype}:
        return None
    number = b.add(Cast(dtype=DType.FLOAT32), [x])
    if op.dtype is DType.FLOAT32:
        return None
    return [b.add((LooseCast if op.dtype.is_integer else Cast)(dtype=op.dtype), [number])]


def cast_to_low_bits(node: Node, b: Builder) -> list[Value] | None:
    """A LooseCast to fewer than 8 bits: the low ones, found in floats."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, LooseCast)
    if op.dtype.bits >= 8 or x.dtype is not DType.FLOAT32:
        return None
    least = b.const(np.asarray(op.dtype.int_range[0], np.float32))
    span = b.const(np.asarray(1 << op.dtype.bits, np.float32))
    whole = b.add(Cast(dtype=DType.FLOAT32), [b.add(Cast(dtype=DType.INT32), [x])])
    low = b.add(e.FloorMod(), [b.add(e.Sub(), [whole, least]), span])
    return [b.add(Cast(dtype=op.dtype), [b.add(e.Add(), [low, least])])]


def fake_quant_by_arithmetic(node: Node, b: Builder) -> list[Value] | None:
    """FakeQuant by its formula."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, FakeQuant)
    if x.type.has_codes:
        return None
    scale, low, high = (b.const(np.asarray(n, x.dtype.numpy)) for n in op.grid())
    half = b.const(np.asarray(0.5, x.dtype.numpy))
    inside = b.add(e.Minimum(), [b.add(e.Maximum(), [x, low]), high])
    steps = b.add(e.Div(), [b.add(e.Sub(), [inside, low]), scale])
    whole = b.add(e.Floor(), [b.add(e.Add(), [steps, half])])
    return [b.add(e.Add(), [b.add(e.Mul(), [whole, scale]), low])]


def cast_of_bytes(node: Node, b: Builder) -> list[Value] | None:
    """A Cast between integers, one of 8 bits, by floats: of others the low bits first."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, Cast)
    kinds = (x.dtype, op.dtype)
    if not all(kind in _WHOLE for kind in kinds) or x.dtype is op.dtype or not _BYTES & {*kinds}:
        return None
    if DType.INT32 not in kinds:
        return [b.add(op, [b.add(Cast(dtype=DType.INT32), [x])])]
    if op.dtype in _BYTES:
        least = op.dtype.int_range[0]
        low, high = bounds_of(x)
        if low < least or high > op.dtype.int_range[1]:
            start, count = (b.const(np.asarray(n, x.dtype.numpy)) for n in (least, 1 << 8))
            moved = b.add(e.Sub(), [x, start]) if least else x
            x = b.add(e.FloorMod(), [moved, count])
            x = b.add(e.Add(), [x, start]) if least else x
        real = b.add(Cast(dtype=DType.FLOAT32), [x])
        return [b.add(LooseCast(dtype=op.dtype), [real])]
    real = b.add(Cast(dtype=DType.FLOAT32), [x])
    return [b.add(op, [real])]


_BYTES = frozenset({DType.INT8, DType.UINT8})
_WHOLE = frozenset({*_BYTES, DType.INT16, DType.UINT16, DType.INT32})


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    Quantize: (quantize_widened, quantize_by_arithmetic),
    Dequantize: (dequantize_by_arithmetic,),
    FakeQuant: (fake_quant_by_arithmetic,),
    DynamicQuantize: (decompose_dynamic_quantize,),
    Cast: (cast_of_numbers, cast_by_bits, cast_by_floats, cast_of_bytes),
    LooseCast: (cast_of_numbers, cast_by_bits, cast_to_low_bits),
}
