"""Integer arithmetic spelled with the ONNX ops and kernels that there are.

ONNX lacks some integer ops (arithmetic shifts, floor division, rereading bytes), onnxruntime lacks
kernels of some types. Every function here adds nodes that give the exact result all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from nnconv.errors import Reason
from nnconv.formats.onnx.exporter import Target
from nnconv.formats.onnx.types import DATA_TYPES
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value

_NO_EXTREMES = {
    DType.INT2: DType.INT8,
    DType.INT4: DType.INT8,
    DType.UINT4: DType.UINT8,
    DType.INT16: DType.INT32,
    DType.UINT16: DType.INT32,
}
"""Types without kernels of Max, Min and Clip, and the type to go through."""

_NO_WHERE = {
    **_NO_EXTREMES,
    DType.BOOL: DType.UINT8,
    DType.UINT64: DType.INT64,  # Cast keeps all bits
}
"""Types without a kernel of Where, and the type to go through."""

_NARROW = {
    DType.INT8: DType.INT32,
    DType.UINT8: DType.INT32,
    DType.INT16: DType.INT32,
    DType.UINT16: DType.INT32,
}
"""Types that Add, Sub, Mul and Div take from opset 14 on, and the type to go through before."""

_UNSIGNED = {8: DType.UINT8, 16: DType.UINT16, 32: DType.UINT32, 64: DType.UINT64}


def through(
    t: Target, op_type: str, names: Sequence[str], dtype: DType, detours: dict[DType, DType]
) -> str:
    """A node whose operands and result are ``dtype``, by way of the detour's type if it has one."""
    wide = detours.get(dtype)
    if wide is None:
        return t.node(op_type, list(names))
    return t.cast(t.node(op_type, [t.cast(name, wide) for name in names]), dtype)


def arithmetic(t: Target, op_type: str, names: Sequence[str], dtype: DType) -> str:
    """``Add``, ``Sub``, ``Mul`` or ``Div`` of integers of any type; what doesn't fit wraps."""
    return through(t, op_type, names, dtype, _NARROW if t.opset < 14 else {})


def extreme(t: Target, op_type: str, names: Sequence[str], dtype: DType) -> str:
    """``Max`` or ``Min`` of tensors of any number type."""
    return through(t, op_type, names, dtype, _NO_EXTREMES)


def lacks_extremes(dtype: DType) -> bool:
    """Whether there are no kernels of Max, Min and Clip for a type."""
    return dtype in _NO_EXTREMES


def clip(t: Target, name: str, dtype: DType, bounds: tuple[float, float]) -> str:
    """Integers clamped to ``bounds``, which may be infinite and are whole numbers otherwise."""
    low, high = dtype.int_range
    wide = _NO_EXTREMES.get(dtype, dtype)
    limits = [t.const(np.asarray(int(min(max(bound, low), high)), wide.numpy)) for bound in bounds]
    if wide is dtype:
        return t.node("Clip", [name, *limits])
    return t.cast(t.node("Clip", [t.cast(name, wide), *limits]), dtype)


def select(t: Target, condition: str, then: str, otherwise: str, *, dtype: DType) -> str:
    """``Where`` on tensors of any type."""
    wide = _NO_WHERE.get(dtype)
    if wide is None:
        return t.node("Where", [condition, then, otherwise])
    chosen = t.node("Where", [condition, t.cast(then, wide), t.cast(otherwise, wide)])
    return t.cast(chosen, dtype)


def add_all(t: Target, names: Sequence[str]) -> str:
    """The sum of integer tensors: ONNX's Sum takes floats only."""
    return reduce(lambda a, b: t.node("Add", [a, b]), names)


# -------------------------------------------------------------------- division


def _is_safe_divisor(divisor: Value, dtype: DType) -> bool:
    """Whether dividing the least integer can't overflow (which ends the process)."""
    if dtype not in (DType.INT32, DType.INT64):
        return True  # unsigned, or computed in int32
    return divisor.data is not None and not bool(np.any(divisor.data == -1))


def divide(t: Target, a: str, b: str, *, divisor: Value) -> str:
    """Integer division toward zero; ``divisor`` is ``b``'s value in the IR."""
    dtype = divisor.dtype
    if _is_safe_divisor(divisor, dtype) or dtype is DType.INT64:
        return arithmetic(t, "Div", [a, b], dtype)
    wide = t.node("Div", [t.cast(a, DType.INT64), t.cast(b, DType.INT64)])
    return t.cast(wide, dtype)


def floor_divide(t: Target, a: str, b: str, *, dtype: DType) -> str:
    """Integer division toward minus infinity: the modulus taken off, it comes out even."""
    if not dtype.is_signed:
        return t.node("Div", [a, b])
    if dtype is not DType.INT64:
        a, b = t.cast(a, DType.INT64), t.cast(b, DType.INT64)
    even = t.node("Sub", [a, t.node("Mod", [a, b])])
    quotient = t.node("Div", [even, b])
    return quotient if dtype is DType.INT64 else t.cast(quotient, dtype)


def floor_modulus(t: Target, a: str, b: str, *, divisor: Value) -> str:
    """Integer modulus with the divisor's sign; ``divisor`` is ``b``'s value in the IR."""
    dtype = divisor.dtype
    if _is_safe_divisor(divisor, dtype) or dtype is DType.INT64:
        return t.node("Mod", [a, b])
    return t.cast(t.node("Mod", [t.cast(a, DType.INT64), t.cast(b, DType.INT64)]), dtype)


# -------------------------------------------------------------------- bits


def shift_left(t: Target, x: str, amount: str, *, dtype: DType) -> str:
    """``x * 2**amount``, what doesn't fit dropped; 0 where the amount is outside of the width."""
    raw = _UNSIGNED[dtype.bits]
    shifted = t.node(
        "BitShift", [_as(t, x, dtype, raw), _amount(t, amount, dtype)], direction="LEFT"
    )
    zero = t.const(np.zeros((), raw.numpy))
    kept = select(t, _is_inside(t, amount, dtype), shifted, zero, dtype=raw)
    return _as(t, kept, raw, dtype)


def shift_out(t: Target, x: str, amount: str, *, dtype: DType) -> str:
    """``x / 2**amount``, rounded down; only the sign is left where the amount is outside.

    Negative numbers are shifted with all bits turned over: zeros come in then.
    """
    raw, inside = _UNSIGNED[dtype.bits], _is_inside(t, amount, dtype)
    zero = t.const(np.zeros((), dtype.numpy))
    negative = t.node("Less", [x, zero]) if dtype.is_signed else ""
    turned = select(t, negative, _inverted(t, x, dtype), x, dtype=dtype) if negative else x
    steps = _amount(t, amount, dtype)
    shifted = t.node("BitShift", [_as(t, turned, dtype, raw), steps], direction="RIGHT")
    kept = select(t, inside, _as(t, shifted, raw, dtype), zero, dtype=dtype)
    if not negative:
        return kept
    return select(t, negative, _inverted(t, kept, dtype), kept, dtype=dtype)


def _as(t: Target, name: str, source: DType, target: DType) -> str:
    """Integers as those of another type of the same width: the same bits."""
    return name if source is target else t.cast(name, target)


def _inverted(t: Target, name: str, dtype: DType) -> str:
    """All bits of signed integers turned over."""
    return arithmetic(t, "Sub", [t.const(np.asarray(-1, dtype.numpy)), name], dtype)


def _is_inside(t: Target, amount: str, dtype: DType) -> str:
    """Whether amounts are 0 ... width - 1: negative ones are great when seen without a sign."""
    raw = _UNSIGNED[dtype.bits]
    return t.node("Less", [_as(t, amount, dtype, raw), t.const(raw.numpy.type(dtype.bits))])


def _amount(t: Target, amount: str, dtype: DType) -> str:
    """Amounts without sign, those outside of the width brought inside: they don't count."""
    raw = _UNSIGNED[dtype.bits]
    return t.node("Mod", [_as(t, amount, dtype, raw), t.const(raw.numpy.type(dtype.bits))])


def shift_right(t: Target, x: str, amount: str, dtype: DType) -> str:
    """``x >> amount``, arithmetic; amounts are clamped to 0 ... width - 1.

    ONNX's BitShift is for unsigned types; a floor division by a power of two serves all.
    """
    if dtype is DType.UINT64:
        last = t.const(np.uint64(63))
        return t.node("BitShift", [x, t.node("Min", [amount, last])], direction="RIGHT")
    wide = x if dtype is DType.INT64 else t.cast(x, DType.INT64)
    steps = _clamped_amount(t, amount, dtype)
    if dtype is DType.INT64:  # 2**63 doesn't fit: in two halves
        half = t.node("Div", [steps, t.const(np.int64(2))])
        wide = floor_divide(t, wide, _power_of_two(t, half), dtype=DType.INT64)
        steps = t.node("Sub", [steps, half])
    shifted = floor_divide(t, wide, _power_of_two(t, steps), dtype=DType.INT64)
    return shifted if dtype is DType.INT64 else t.cast(shifted, dtype)


def _clamped_amount(t: Target, amount: str, dtype: DType) -> str:
    wide = amount if dtype is DType.INT64 else t.cast(amount, DType.INT64)
    return t.node("Clip", [wide, t.const(np.int64(0)), t.const(np.int64(dtype.bits - 1))])


def _power_of_two(t: Target, exponent: str) -> str:
    """2**exponent for int64 exponents of 0 ... 62, from a table."""
    return t.node("Gather", [t.const(np.int64(1) << np.arange(63, dtype=np.int64)), exponent])


def bitwise(t: Target, kind: str, a: str, b: str, *, dtype: DType) -> str:
    """``And``, ``Or`` or ``Xor`` of the bits of integers (or of bools)."""
    if dtype is DType.BOOL:
        return t.node(kind, [a, b])
    if t.opset >= 18:
        return t.node(f"Bitwise{kind}", [a, b])
    weights = t.const(np.left_shift(np.int64(1), np.arange(dtype.bits, dtype=np.int64)))
    left, right = (_bits(t, name, dtype) for name in (a, b))
    digits = t.cast(t.node(kind, [left, right]), DType.INT64)
    return t.cast(t.node("MatMul", [digits, weights]), dtype)


def _bits(t: Target, name: str, dtype: DType) -> str:
    """The bits of integers as bools, lowest first, in a new last dimension."""
    steps = t.const(np.uint64(1) << np.arange(dtype.bits, dtype=np.uint64))
    spread = t.node("Unsqueeze", [_as_uint64(t, name, dtype), t.const([-1])])
    digit = t.node("Mod", [t.node("Div", [spread, steps]), t.const(np.uint64(2))])
    return t.cast(digit, DType.BOOL)


def _as_uint64(t: Target, name: str, dtype: DType) -> str:
    """The bit pattern of integers, not their sign, in uint64."""
    if dtype.is_signed and dtype.bits < 64:
        name = t.cast(name, _UNSIGNED[dtype.bits])
    return name if dtype is DType.UINT64 else t.cast(name, DType.UINT64)


def reread(t: Target, name: str, old: DType, new: DType) -> str:
    """The bytes of ``old`` elements as ``new`` ones, lowest first.

    Raises:
        NotExportable: where a float is on one side, before opset 26.
    """
    if t.opset >= 26 and old.bits >= 8 and new.bits >= 8:
        if old.bits == new.bits and (old.is_float or new.is_float):
            return _bit_cast(t, name, new)
        if old.is_float:
            raw = _UNSIGNED[old.bits]
            return reread(t, _bit_cast(t, name, raw), raw, new)
        if new.is_float:
            return _bit_cast(t, reread(t, name, old, _UNSIGNED[new.bits]), new)
    if not all(kind is DType.BOOL or (kind.is_integer and kind.bits >= 8) for kind in (old, new)):
        raise t.unsupported(
            f"ONNX has no op that rereads {old} as {new}",
            reason=Reason.IMPOSSIBLE,
            hint="BitCast comes with opset 26.",
            opset=26,
        )
    if old.bits == new.bits:
        return t.cast(name, new)
    if old.bits > new.bits:
        weights = np.arange(0, old.bits, new.bits, dtype=np.uint64)
        spread = t.node("Unsqueeze", [_as_uint64(t, name, old), t.const([-1])])
        parts = t.node("Div", [spread, t.const(np.uint64(1) << weights)])
        # Mod rather than a narrowing Cast alone: it says what is meant
        digit = t.node("Mod", [parts, t.const(np.uint64(1 << new.bits))])
        return t.cast(t.cast(digit, _UNSIGNED[new.bits]), new)
    shifts = np.arange(0, new.bits, old.bits, dtype=np.int64)
    pattern = t.cast(_as_uint64(t, name, old), DType.INT64)
    # onnxruntime sums int64 elements in float64; its integer MatMul is exact
    whole = t.node("MatMul", [pattern, t.const(np.int64(1) << shifts)])
    return whole if new is DType.INT64 else t.cast(whole, new)


def _bit_cast(t: Target, name: str, dtype: DType) -> str:
    return t.node("BitCast", [name], to=int(DATA_TYPES[dtype]))


# -------------------------------------------------------------------- conversions


def saturated(t: Target, name: str, source: DType, target: DType) -> str:
    """Floats as integers: toward zero, clamped to the type's range; NaN gives the greatest.

    That is TFLite's rule; ONNX leaves these cases open. What is not below the range's end (NaN is
    not) takes the greatest value.
    """
    low, high = target.int_range
    if source not in (DType.FLOAT32, DType.FLOAT64):
        name, source = t.cast(name, DType.FLOAT32), DType.FLOAT32
    kind = source.numpy.type
    bounded = t.node("Max", [name, t.const(kind(low))])
    inside = t.node("Less", [name, t.const(kind(high + 1))])
    wide = _cast_target(target)
    top = -1 if target is DType.UINT64 else high  # -1: all bits set, seen as int64
    whole = t.cast(bounded, target if target is DType.UINT64 else wide)
    if target is DType.UINT64:
        whole = t.cast(whole, wide)
    chosen = t.node("Where", [inside, whole, t.const(np.asarray(top, wide.numpy))])
    return chosen if wide is target else t.cast(chosen, target)


def _cast_target(target: DType) -> DType:
    """The integer type with a Where kernel to cast floats to before the last Cast."""
    if target.bits >= 32:
        return DType.INT64 if target is DType.UINT64 else target
    return DType.INT32


def requantized(t: Target, x: Value, y: Value) -> str:
    """Codes of ``x`` as codes of ``y``, computed in float64: 32-bit codes don't fit float32.

    Both must have one set of parameters each.
    """
    assert x.quant is not None
    assert y.quant is not None
    low, high = y.dtype.int_range
    moved = t.cast(t.stored(x), DType.FLOAT64)
    if x.quant.zero_point[0]:
        moved = t.node("Sub", [moved, t.const(np.float64(x.quant.zero_point[0]))])
    ratio = np.float64(x.quant.scale[0]) / np.float64(y.quant.scale[0])
    steps = t.node("Round", [t.node("Mul", [moved, t.const(ratio)])])
    if y.quant.zero_point[0]:
        steps = t.node("Add", [steps, t.const(np.float64(y.quant.zero_point[0]))])
    bounds = [t.const(np.float64(low)), t.const(np.float64(high))]
    bounded = t.node("Clip", [steps, *bounds])
    return t.cast(bounded, y.dtype)
