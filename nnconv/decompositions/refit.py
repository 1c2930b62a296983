"""The same op on other element types, between conversions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nnconv.decompositions.bounds import bounds_of
from nnconv.decompositions.unsigned import DIVISIONS, ORDERED, from_order, in_order
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import FLOATS, DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op, QuantRule, Role
from nnconv.ir.types import TensorType
from nnconv.ops.blocks import SpaceToBatch
from nnconv.ops.diagonal import MatrixDiag, MatrixSetDiag
from nnconv.ops.elementwise import Add, Clip, FloorDiv, Mul, Sigmoid, Sub, Tanh
from nnconv.ops.gather import OneHot
from nnconv.ops.moves import Move
from nnconv.ops.quantize import Bitcast, Cast, Dequantize, LooseCast, Quantize
from nnconv.ops.shape import Concat
from nnconv.ops.slices import DynamicUpdateSlice, Pad, PadMode

_PREFERRED = (
    DType.FLOAT32,
    DType.BOOL,
    DType.INT8,
    DType.UINT8,
    DType.INT16,
    DType.UINT16,
    DType.INT32,
    DType.UINT32,
    DType.INT64,
    DType.UINT64,
    DType.FLOAT64,
)
"""The order in which element types are tried in the place of another."""

_NEAREST = {DType.FLOAT64: DType.FLOAT32, DType.UINT64: DType.INT64}
"""What takes a type's place where nothing holds all its numbers."""


def refit(
    node: Node, builder: Builder, allowed: frozenset[DType], operands: Sequence[int]
) -> list[Value] | None:
    """The node's op on operands of ``allowed`` types; None where that can't be.

    Codes are computed with in floats, as what they stand for; other numbers are cast to a type that
    holds them all.
    """
    if node.bodies or any(v is not None and v.dtype is DType.STRING for v in node.inputs):
        return None
    moved = as_bits(node, builder, allowed, operands)
    if moved is not None:
        return moved
    if any(v is not None and v.type.has_codes for v in (*node.inputs, *node.outputs)):
        return in_floats(node, builder)
    values = [v for i in operands if (v := node.inputs[i]) is not None]
    if moves_in_halves(node, builder, allowed, values):
        return in_halves(node, builder, operands)
    if adds_up_small(node, allowed, values):
        return _as_floats(node, builder, {i: v for i in operands if (v := node.inputs[i])})
    wraps = any(v.dtype is DType.UINT64 for v in values)
    if wraps and isinstance(node.op, (*DIVISIONS, Clip)):
        return None
    if _is_clamped(node) and all(v.dtype.is_integer for v in node.outputs):
        return split_activation(node, builder)  # numbers wrap before they are clamped
    exact = node.op.quant_rule is QuantRule.EXACT or all(v.dtype.is_integer for v in values)
    target = common_type([v.dtype for v in values], allowed, exact=exact)
    if target is None or all(v.dtype is target for v in values):
        return None
    ends = (*values, *node.outputs)
    if isinstance(node.op, Cast) and target.is_float and all(v.dtype.is_integer for v in ends):
        target = DType.INT32  # whose low bits a narrower integer keeps; floats saturate
    inputs = list(node.inputs)
    flipped = wraps and target is DType.INT64 and isinstance(node.op, ORDERED)
    for i in operands:
        value = inputs[i]
        if value is None or value.dtype is target:
            continue
        if flipped and value.dtype is DType.UINT64:
            inputs[i] = in_order(value, builder)
        else:
            inputs[i] = builder.add(Cast(dtype=target), [value], name=value.name)
    return _converted(node, builder, inputs, flipped=flipped)


_CARRIERS = {
    bits: tuple(d for d in (*_PREFERRED[1:], *FLOATS) if d.bits == bits) for bits in (8, 16, 32, 64)
}
"""Types that can carry the bits of others, by their width, the best first."""

_WIDE = (DType.INT32, DType.INT64, DType.FLOAT32)
"""Types that can carry what carries fewer bits."""


def as_bits(
    node: Node, builder: Builder, allowed: frozenset[DType], operands: Sequence[int]
) -> list[Value] | None:
    """An op that moves elements without looking at them, done on another type of their width.

    None if it isn't one, or no such type is allowed.
    """
    if not _moves_bits(node):
        return None
    if isinstance(node.op, Pad) and len(node.inputs) > 2 and node.inputs[2] is not None:
        x, put_in = node.inputs[0], node.inputs[2]
        alike = x is not None and (x.dtype, x.quant) == (put_in.dtype, put_in.quant)
        operands = (0, 2) if alike else operands  # what it puts in is of the same bits
    values = [v for i in operands if (v := node.inputs[i]) is not None]
    exact = node.op.quant_rule is QuantRule.EXACT
    kinds_of = {(v.dtype, None if exact else v.quant) for v in (*values, *node.outputs)}
    if not values or len(kinds_of) != 1:
        return None
    old = values[0].type
    carriers = tuple(
        d
        for d in _CARRIERS.get(old.dtype.bits, ())
        if builder.means.bitcasts or d.is_float is old.dtype.is_float
    )
    carrier = wide = next((d for d in carriers if d in allowed), None)
    if carrier is old.dtype and not old.has_codes:
        return None
    if carriers and wide is None:
        others = (d for d in carriers if d is not DType.BOOL)  # whose numbers are 0 and 1
        carrier = old.dtype if old.dtype.is_integer else next(others)
        wide = next((d for d in _WIDE if d.bits > carrier.bits and d in allowed), None)
    if carrier is None or wide is None:
        return None
    if old.dtype is DType.BOOL and wide is not carrier:
        return None  # its numbers can be cast
    inputs = list(node.inputs)
    for i in operands:
        value = inputs[i]
        if value is not None:
            value = builder.add(Bitcast(dtype=carrier), [value], name=value.name)
            inputs[i] = value if wide is carrier else builder.add(Cast(dtype=wide), [value])
    kinds = [TensorType(wide, v.shape) for v in node.outputs]
    results = builder.add_typed(node.op, inputs, kinds, names=[v.name for v in node.outputs])
    if wide is not carrier:
        loose = wide.is_float and carrier.is_integer
        back = (LooseCast if loose else Cast)(dtype=carrier)
        results = tuple(builder.add(back, [v]) for v in results)
    return [
        builder.add_typed(Bitcast(dtype=old.dtype), [new], [was.type], names=[was.name])[0]
        for new, was in zip(results, node.outputs, strict=True)
    ]


_HALF = 1 << 16


def moves_in_halves(
    node: Node, builder: Builder, allowed: frozenset[DType], values: Sequence[Value]
) -> bool:
    """Whether it is an op that moves int32, and floats alone could be moved."""
    return (
        _moves_bits(node)
        and not builder.means.bitcasts
        and bool(values)
        and DType.FLOAT32 in allowed
        and not any(d.is_integer and d.bits >= _WHOLE for d in allowed)
        and all(v.dtype is DType.INT32 and v.quant is None for v in (*values, *node.outputs))
    )


_WHOLE = 32


def in_halves(node: Node, b: Builder, operands: Sequence[int]) -> list[Value]:
    """An op that moves int32, done on floats: these hold the upper and lower 16 bits exactly.

    Or all bits, where it can be told that the numbers are small.
    """
    values = {i: v for i in operands if (v := node.inputs[i]) is not None}
    if all(bounds_of(v).size < _EXACT for v in values.values()):
        return _as_floats(node, b, values)
    half = b.const(np.asarray(_HALF, np.int32))
    highs = {i: b.add(FloorDiv(), [v, half]) for i, v in values.items()}
    lows = {i: b.add(Sub(), [v, b.add(Mul(), [highs[i], half])]) for i, v in values.items()}
    return [
        b.add(Add(), [b.add(Mul(), [high, half]), low])
        for high, low in zip(*(_as_floats(node, b, side) for side in (highs, lows)), strict=True)
    ]


_EXACT = 1 << 24
"""float32 holds all integers up to here."""

_QUOTIENT = 1 << 22
"""Up to here a quotient that is no integer isn't rounded to one."""


def adds_up_small(node: Node, allowed: frozenset[DType], values: Sequence[Value]) -> bool:
    """Whether it is a sum, product or quotient of int32 that floats hold, like what comes of it."""
    every = [*values, *node.outputs]
    if not isinstance(node.op, Add | Sub | Mul | FloorDiv) or DType.FLOAT32 not in allowed:
        return False
    if any(v.dtype is not DType.INT32 or v.quant is not None for v in every):
        return False
    most = _QUOTIENT if isinstance(node.op, FloorDiv) else _EXACT
    return DType.INT32 not in allowed and all(bounds_of(v).size < most for v in every)


def _as_floats(node: Node, b: Builder, values: Mapping[int, Value]) -> list[Value]:
    """A node's op on other operands, int32 that floats hold, as floats."""
    inputs = list(node.inputs)
    made: dict[Value, Value] = {}
    for place, value in values.items():
        if value not in made:
            made[value] = b.add(Cast(dtype=DType.FLOAT32), [value])
        inputs[place] = made[value]
    kinds = [TensorType(DType.FLOAT32, v.shape) for v in node.outputs]
    return [b.add(Cast(dtype=DType.INT32), [v]) for v in b.add_typed(node.op, inputs, kinds)]


def _moves_bits(node: Node) -> bool:
    """Whether the node's data operands may be any bits, as long as the results are the same."""
    op = node.op
    if isinstance(op, Pad):
        given = len(node.inputs) > 2 and node.inputs[2] is not None
        return given or op.mode is not PadMode.CONSTANT or (op.value == 0 and not _is_coded(node))
    if isinstance(op, Concat):
        return op.activation is Activation.NONE
    if isinstance(op, SpaceToBatch) and _is_coded(node):
        return op.pads is not None and not any(side for pair in op.pads for side in pair)
    return isinstance(op, Move | DynamicUpdateSlice | OneHot | MatrixDiag | MatrixSetDiag)


def _is_coded(node: Node) -> bool:
    return any(v is not None and v.type.has_codes for v in node.inputs)


_HALVES = (DType.FLOAT16, DType.BFLOAT16)


def _is_clamped(node: Node) -> bool:
    return getattr(node.op, "activation", Activation.NONE) is not Activation.NONE


def of_halves(node: Node, builder: Builder) -> list[Value] | None:
    """The node's op on halves, computed in float32."""
    places = [
        i
        for i, v in enumerate(node.inputs)
        if v is not None and v.dtype in _HALVES and node.op.role(i) is Role.DATA
    ]
    if not places or _moves_bits(node) or isinstance(node.op, Bitcast | Cast):
        return None
    return refit(node, builder, frozenset({DType.FLOAT32}), places)


def in_floats(node: Node, builder: Builder) -> list[Value] | None:
    """The node's op between Dequantize and Quantize."""
    if node.op.quant_rule is QuantRule.EXACT or isinstance(node.op, Quantize | Dequantize):
        return None
    inputs = [
        builder.add(Dequantize(dtype=DType.FLOAT32), [v], name=v.name)
        if v is not None and v.type.has_codes
        else v
        for v in node.inputs
    ]
    return _converted(node, builder, inputs)


def split_activation(node: Node, builder: Builder) -> list[Value] | None:
    """The node without its fused activation, and that as a node of its own."""
    op: Any = node.op
    activation: Activation = op.activation
    types = [v.type for v in node.outputs]
    (made,) = builder.add_typed(
        op.replace(activation=Activation.NONE), node.inputs, types, names=[node.outputs[0].name]
    )
    if activation.bounds is not None:
        low, high = activation.bounds
        then: Op = Clip(low=low, high=high)
    else:
        then = Tanh() if activation is Activation.TANH else Sigmoid()
    return [builder.add_typed(then, [made], types)[0]]


def _converted(
    node: Node, builder: Builder, inputs: Sequence[Value | None], *, flipped: bool = False
) -> list[Value] | None:
    try:
        types = node.op.infer([None if v is None else v.type for v in inputs])
    except ValueError:
        return None
    kinds = [
        TensorType(kind.dtype, old.shape, None)
        for kind, old in zip(types, node.outputs, strict=True)
    ]
    results = builder.add_typed(node.op, inputs, kinds, names=[v.name for v in node.outputs])
    return [
        from_order(new, builder)
        if flipped and old.dtype is DType.UINT64
        else _back(builder, new, old)
        for new, old in zip(results, node.outputs, strict=True)
    ]


def _back(builder: Builder, new: Value, old: Value) -> Value:
    if old.type.has_codes and old.quant is not None:
        return builder.add(Quantize(dtype=old.dtype), [new], quant=old.quant, name=old.name)
    if new.dtype is old.dtype:
        return new
    if new.dtype.is_float and _leaves(new, old.dtype):
        new = builder.add(Cast(dtype=DType.INT32), [new])  # which wraps around, floats saturate
    return builder.add(Cast(dtype=old.dtype), [new], name=old.name)


def _leaves(value: Value, dtype: DType) -> bool:
    """Whether floats are known to be numbers that int32 holds, not all of which ``dtype`` does."""
    if not dtype.is_integer or dtype.bits >= _WHOLE:
        return False
    found, (low, high) = bounds_of(value), dtype.int_range
    return found.size < _EXACT and not (low <= found.low and found.high <= high)


def common_type(
    sources: Sequence[DType], allowed: frozenset[DType], *, exact: bool = False
) -> DType | None:
    """The type among ``allowed`` that holds all numbers of ``sources`` with the fewest bits.

    Where there is none, one that holds them nearly; None if there is none of that kind either.
    With ``exact`` integers become integers, which wrap as they would, before they become floats.
    """
    for candidate in (*_PREFERRED[1:], _PREFERRED[0]) if exact else _PREFERRED:
        if candidate in allowed and all(_holds(candidate, source) for source in sources):
            return candidate
    nearest = [_NEAREST.get(source, source) for source in sources]
    if nearest != list(sources):
        return common_type(nearest, allowed, exact=exact)
    return None


def _holds(target: DType, source: DType) -> bool:
    if target is source:
        return True
    if source is DType.BOOL:
        return target in FLOATS or target.is_integer
    if target is DType.BOOL:
        return False
    if source in FLOATS:
        return target in FLOATS and target.bits > source.bits
    if not source.is_integer:
        return False
    if target in FLOATS:
        return target is DType.FLOAT32 and source.bits <= 16
    low, high = source.int_range
    least, greatest = target.int_range
    return least <= low and high <= greatest
