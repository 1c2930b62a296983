"""Bits of integers by arithmetic: formats may lack And, Or and shifts to the left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.constants import scalar
from nnconv.decompositions.integers import narrowed, widened
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops import elementwise as e
from nnconv.ops import numeric as n
from nnconv.ops.gather import Gather
from nnconv.ops.quantize import Bitcast, Cast
from nnconv.ops.reduce import ReduceSum
from nnconv.ops.shape import Unsqueeze


def _operands(node: Node) -> tuple[Value, Value]:
    x, y = (node.operand(i) for i in range(2))
    return x, y


# -------------------------------------------------------------------- words


def words(x: Value, b: Builder) -> Value:
    """The bits of integers as int32, those of 64 bits in a last dimension of two."""
    if x.dtype.bits >= 32:
        return x if x.dtype is DType.INT32 else b.add(Bitcast(dtype=DType.INT32), [x])
    return b.add(Cast(dtype=DType.INT32), [x])


def unworded(x: Value, dtype: DType, b: Builder) -> Value:
    """What ``words`` came from, of another value."""
    if dtype.bits >= 32:
        return x if dtype is DType.INT32 else b.add(Bitcast(dtype=dtype), [x])
    return b.add(Cast(dtype=dtype), [x])


def _common_bits(x: Value, y: Value, b: Builder) -> Value:
    """The bits that int32 numbers have in common.

    x + y is what they have in common twice, and where they differ once. Without their lowest bits
    they don't overflow; these are multiplied.
    """
    one = scalar(b, 1, x)
    halves = [b.add(e.RightShift(), [v, one]) for v in (x, y)]
    twice = b.add(e.Sub(), [b.add(e.Add(), halves), b.add(e.BitwiseXor(), halves)])
    lowest = [
        b.add(e.Sub(), [v, b.add(e.Add(), [half, half])])
        for v, half in zip((x, y), halves, strict=True)
    ]
    return b.add(e.Add(), [twice, b.add(e.Mul(), lowest)])


def bitwise_and(node: Node, b: Builder) -> Sequence[Value]:
    """By words."""
    x, y = _operands(node)
    return [unworded(_common_bits(words(x, b), words(y, b), b), x.dtype, b)]


def bitwise_or(node: Node, b: Builder) -> Sequence[Value]:
    """By words: where they differ, and what they have in common."""
    x, y = _operands(node)
    x_words, y_words = words(x, b), words(y, b)
    differing = b.add(e.BitwiseXor(), [x_words, y_words])
    either = b.add(e.Add(), [differing, _common_bits(x_words, y_words, b)])
    return [unworded(either, x.dtype, b)]


def bitwise_xor(node: Node, b: Builder) -> Sequence[Value] | None:
    """By words, where integers have 64 bits; of bools whether they differ."""
    x, y = _operands(node)
    if x.dtype is DType.BOOL:
        return [b.add(e.NotEqual(), [x, y])]
    if x.dtype.bits < 64:
        return None
    return [unworded(b.add(e.BitwiseXor(), [words(v, b) for v in (x, y)]), x.dtype, b)]


_PART, _PARTS = 4, 8
"""So many bits are looked up at once, so often for 32 of them."""


def xor_by_table(node: Node, b: Builder) -> Sequence[Value] | None:
    """Of up to 32 bits by looking up what four bits of each give, eight times at once."""
    x, y = _operands(node)
    if x.dtype is DType.BOOL or x.dtype.bits == 64 or x.shape is None or y.shape is None:
        return None
    if x.dtype.bits == 32 and x.dtype is not DType.INT32:
        return None
    rank, size = max(len(x.shape), len(y.shape)), 1 << _PART
    numbers = np.arange(size, dtype=np.int64)
    table = np.bitwise_xor(numbers[:, None], numbers)
    shifts = np.arange(_PARTS, dtype=np.int64) * _PART
    tables = (table.reshape(1, -1) << shifts[:, None]).astype(np.uint32).view(np.int32)
    weights = b.const((1 << shifts).astype(np.int32))
    places = b.const(np.arange(0, tables.size, size * size, dtype=np.int32))
    for value, factor in ((x, size), (y, 1)):
        column = b.add(Unsqueeze(axes=(len(value.shape or ()),)), [words(value, b)])
        moved = b.add(e.FloorDiv(), [column, weights])
        part = b.add(e.FloorMod(), [moved, scalar(b, size, moved)])
        if factor != 1:
            part = b.add(e.Mul(), [part, scalar(b, factor, part)])
        places = b.add(e.Add(), [places, part])
    found = b.add(Gather(axis=0), [b.const(tables.reshape(-1)), places])
    whole = b.add(ReduceSum(axes=(rank,)), [found])
    return [unworded(whole, x.dtype, b)]


def bitwise_not(node: Node, b: Builder) -> Sequence[Value]:
    """What all bits set differ in."""
    x = node.operand(0)
    if x.dtype.bits < 64:
        full = -1 if x.dtype.is_signed else x.dtype.int_range[1]
        return [b.add(e.BitwiseXor(), [x, scalar(b, full, x)])]
    pair = words(x, b)
    return [unworded(b.add(e.BitwiseXor(), [pair, scalar(b, -1, pair)]), x.dtype, b)]


# -------------------------------------------------------------------- shifts


def _steps(x: Value, amount: Value, b: Builder) -> Value:
    """An amount as int64 where bits of 64 are shifted, else as int32: what is too much stays so."""
    if x.dtype.bits == 64:
        return widened(amount, b)
    if amount.dtype.bits < 64:
        return words(amount, b)
    return b.add(Cast(dtype=DType.INT32), [b.add(e.Clip(low=-1.0, high=64.0), [amount])])


def _inside(amount: Value, bits: int, b: Builder) -> Value:
    """Whether an amount is 0 ... bits - 1."""
    least = b.add(e.GreaterEqual(), [amount, scalar(b, 0, amount)])
    return b.add(e.LogicalAnd(), [least, b.add(e.Less(), [amount, scalar(b, bits, amount)])])


def _power_of_two(amount: Value, bits: int, b: Builder) -> Value:
    """2**amount of an amount of 0 ... ``bits``, where it is 0 at ``bits``, of the amount's type."""
    table = np.zeros(bits + 1, amount.dtype.numpy)
    table[:bits] = np.left_shift(np.ones(1, table.dtype), np.arange(bits, dtype=table.dtype))
    return b.add(Gather(axis=0), [b.const(table), amount])


def shift_left(node: Node, b: Builder) -> Sequence[Value] | None:
    """Times a power of two, in int32 or int64, which wrap; too much is times 0."""
    x, amount = _operands(node)
    if x.dtype.bits == 64 and not b.means.int64:
        return None
    bits, steps = x.dtype.bits, _steps(x, amount, b)
    steps = b.add(e.Select(), [_inside(steps, bits, b), steps, scalar(b, bits, steps)])
    if bits == 64:
        product = b.add(e.Mul(), [widened(x, b), _power_of_two(steps, bits, b)])
        return [narrowed(product, x.dtype, b)]
    product = b.add(e.Mul(), [words(x, b), _power_of_two(steps, bits, b)])
    return [unworded(product, x.dtype, b)]


def shift_right(node: Node, b: Builder) -> Sequence[Value] | None:
    """By RightShift; amounts outside of the width leave the sign alone."""
    x, amount = _operands(node)
    if x.dtype.bits == 64 and (x.shape is None or not b.means.int64):
        return None
    bits, steps = x.dtype.bits, _steps(x, amount, b)
    inside = _inside(steps, bits, b)
    last = b.add(e.Select(), [inside, steps, scalar(b, bits - 1, steps)])
    if bits == 64:
        shifted = narrowed(_shifted_words(x, last, b), x.dtype, b)
    else:
        shifted = b.add(e.RightShift(), [x, b.add(Cast(dtype=x.dtype), [last])])
    if x.dtype.is_signed:
        return [shifted]
    zero = scalar(b, 0, x)
    if x.dtype is DType.UINT64:  # which no kernel selects
        wide = b.add(Bitcast(dtype=DType.INT64), [shifted])
        kept = b.add(e.Select(), [inside, wide, scalar(b, 0, wide)])
        return [b.add(Bitcast(dtype=DType.UINT64), [kept])]
    return [b.add(e.Select(), [inside, shifted, zero])]


def shift_by_division(node: Node, b: Builder) -> Sequence[Value] | None:
    """RightShift of up to 32 bits: the quotient by a power of two, rounded down.

    2**31 is beyond int32: there is nothing but the sign then.
    """
    x, amount = _operands(node)
    if x.dtype.bits == 64 or x.dtype is DType.UINT32:
        return None
    steps, word = words(amount, b), words(x, b)
    most = min(x.dtype.bits, 31) - 1
    last = scalar(b, most, steps)
    powers = b.const(np.left_shift(np.int32(1), np.arange(most + 1, dtype=np.int32)))
    places = b.add(e.Maximum(), [b.add(e.Minimum(), [steps, last]), scalar(b, 0, steps)])
    moved = b.add(e.FloorDiv(), [word, b.add(Gather(axis=0), [powers, places])])
    if x.dtype is not DType.INT32:
        return [unworded(moved, x.dtype, b)]
    far = b.add(e.Minimum(), [b.add(e.Maximum(), [word, scalar(b, -1, word)]), scalar(b, 0, word)])
    return [b.add(e.Select(), [b.add(e.Greater(), [steps, last]), far, moved])]


def _shifted_words(x: Value, amount: Value, b: Builder) -> Value:
    """64-bit integers shifted right by an int64 amount of 0 ... 63, as int64.

    Each word is shifted by the amount's rest of 32; what falls out of the upper one comes into the
    lower one. From 32 on, the upper one is the result.
    """
    pair = b.add(Bitcast(dtype=DType.INT32), [x])
    assert x.shape is not None
    last = len(x.shape)
    low, high = (b.add(Gather(axis=last), [pair, b.const(np.asarray(i, np.int32))]) for i in (0, 1))
    rest = b.add(e.FloorMod(), [amount, scalar(b, 32, amount)])

    def shifted(word: Value, *, signed: bool) -> Value:
        kind = DType.INT32 if signed else DType.UINT32
        raw = word if signed else b.add(Bitcast(dtype=kind), [word])
        moved = b.add(e.RightShift(), [raw, b.add(Cast(dtype=kind), [rest])])
        return b.add(Cast(dtype=DType.INT64), [moved])

    upper = shifted(high, signed=x.dtype.is_signed)
    whole = b.add(Cast(dtype=DType.INT64), [_unless(high, signed=x.dtype.is_signed, b=b)])
    lost = b.add(e.Sub(), [whole, b.add(e.Mul(), [upper, _power_of_two(rest, 32, b)])])
    left = b.add(e.Sub(), [scalar(b, 32, rest), rest])
    fallen = b.add(e.Mul(), [lost, _power_of_two(left, 33, b)])
    lower = b.add(e.Add(), [shifted(low, signed=False), fallen])
    joined = b.add(e.Add(), [b.add(e.Mul(), [upper, scalar(b, 1 << 32, upper)]), lower])
    far = b.add(e.GreaterEqual(), [amount, scalar(b, 32, amount)])
    return b.add(e.Select(), [far, upper, joined])


def _unless(word: Value, *, signed: bool, b: Builder) -> Value:
    return word if signed else b.add(Bitcast(dtype=DType.UINT32), [word])


BITWISE: dict[type[Op], tuple[Decomposition, ...]] = {
    n.BitwiseNot: (bitwise_not,),
    n.BitwiseAnd: (bitwise_and,),
    n.BitwiseOr: (bitwise_or,),
    n.ShiftLeft: (shift_left,),
    n.ShiftRight: (shift_right,),
}
