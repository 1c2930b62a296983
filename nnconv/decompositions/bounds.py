"""What numbers a value can have, from how it is made."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops import elementwise as e
from nnconv.ops import gather as g
from nnconv.ops import shape as s
from nnconv.ops.quantize import Cast
from nnconv.ops.reduce import ArgExtreme
from nnconv.ops.slices import Reverse, Slice

_DEPTH = 64
"""How far back the origin of numbers is followed."""


_MOST_EXTENT = (1 << 24) - 1
"""No open extent is taken to be larger: where no op tells them, they are counted in float32."""


class Bounds(NamedTuple):
    """The least and the greatest of them."""

    low: float
    high: float

    @property
    def size(self) -> float:
        """What none exceeds in size."""
        return max(abs(self.low), abs(self.high))


_ANY = Bounds(-math.inf, math.inf)

_EXTENTS = (s.ShapeOf, s.Rank, g.NonZero)
"""Ops that give extents, or places along them."""

_COUNTS = (s.Size, g.Unique, g.UniqueSlices)
"""Ops whose integers, beside what they pick, count elements."""

_PICKS = (g.Gather, g.GatherNd, g.GatherElements, Slice, s.Tile, s.BroadcastTo, s.Reshape, Reverse)
"""Ops that give numbers of their first operand."""

_JOINS = (s.Concat, s.Stack, s.Identity, s.Split, s.Squeeze, s.Transpose, s.Unsqueeze, s.Unstack)
"""Ops that give numbers of all of their operands."""


def bounds_of(value: Value) -> Bounds:
    """The bounds of plain numbers; those of their type, or infinite ones, if no more is known."""
    return _bounds(value, {}, _DEPTH)


def _bounds(value: Value, known: dict[Value, Bounds], depth: int) -> Bounds:
    """``known`` are those found already."""
    if value not in known:
        known[value] = _found(value, known, depth)
    return known[value]


def _found(value: Value, known: dict[Value, Bounds], depth: int) -> Bounds:
    own = _of_type(value.dtype)
    if value.data is not None:
        if not value.data.size:
            return Bounds(0, 0)
        if value.dtype not in _REAL:
            return own
        data = value.data
        return Bounds(float(data.min()), float(data.max())) if np.isfinite(data).all() else _ANY
    node = value.producer
    if node is None or not depth or value.type.has_codes:
        return own
    found = _of_node(node, value, known, depth - 1)
    fits = own.low <= found.low and found.high <= own.high
    return found if fits else own  # what doesn't fit wraps around


def _of_type(dtype: DType) -> Bounds:
    if dtype is DType.BOOL:
        return Bounds(0, 1)
    return Bounds(*dtype.int_range) if dtype.is_integer else _ANY


_REAL = frozenset(
    {
        *(DType.BOOL, DType.INT8, DType.UINT8, DType.INT16, DType.UINT16),
        *(DType.INT32, DType.INT64, DType.FLOAT32),
    }
)


def _of_node(node: Node, value: Value, known: dict[Value, Bounds], depth: int) -> Bounds:
    op, data = node.op, [v for v in node.inputs if v is not None]
    if isinstance(op, ArgExtreme) or (isinstance(op, g.TopK) and value.index):
        extent = data[0].shape[op.axis] if data[0].shape else None
        return Bounds(0, extent - 1 if isinstance(extent, int) and extent else _MOST_EXTENT)
    if isinstance(op, _EXTENTS):
        return Bounds(0, _MOST_EXTENT)
    if isinstance(op, _COUNTS) and (value.index or isinstance(op, s.Size)):
        return Bounds(0, DType.INT32.int_range[1])
    if isinstance(op, e.Clip):
        low, high = _bounds(data[0], known, depth)
        return Bounds(min(max(low, op.low), op.high), max(min(high, op.high), op.low))
    if isinstance(op, Cast):
        return _of_cast(data[0], _bounds(data[0], known, depth))
    if isinstance(op, _PICKS):
        data = data[:1]
    elif isinstance(op, e.Select):
        data = data[1:]
    elif type(op) in _STEPS:
        return _STEPS[type(op)]([_bounds(v, known, depth) for v in data])
    elif not isinstance(op, _JOINS):
        return _ANY
    sides = [_bounds(v, known, depth) for v in data]
    return Bounds(min(b.low for b in sides), max(b.high for b in sides))


def _of_cast(x: Value, found: Bounds) -> Bounds:
    """Of floats the whole numbers toward zero."""
    if x.dtype.is_float and found.size < math.inf:
        return Bounds(math.trunc(found.low), math.trunc(found.high))
    return found


def _product(sides: Sequence[Bounds]) -> Bounds:
    ends = [a * b for a in sides[0] for b in sides[1]]
    return _ANY if any(map(math.isnan, ends)) else Bounds(min(ends), max(ends))


def _rest(sides: Sequence[Bounds]) -> Bounds:
    """Of a modulus that is above 0."""
    modulus = sides[1]
    return Bounds(0, modulus.high) if modulus.low > 0 else _ANY


def _quotient(sides: Sequence[Bounds]) -> Bounds:
    """Of a divisor from 1 on, rounded down."""
    dividend, divisor = sides
    if divisor.low < 1 or dividend.size == math.inf:
        return _ANY
    ends = [math.floor(a / b) for a in dividend for b in divisor]
    return Bounds(min(*ends, -1 if dividend.low < 0 else 0), max(ends))


_STEPS: dict[type[Op], Callable[[Sequence[Bounds]], Bounds]] = {
    e.Add: lambda b: Bounds(b[0].low + b[1].low, b[0].high + b[1].high),
    e.Sub: lambda b: Bounds(b[0].low - b[1].high, b[0].high - b[1].low),
    e.Mul: _product,
    e.Maximum: lambda b: Bounds(max(b[0].low, b[1].low), max(b[0].high, b[1].high)),
    e.Minimum: lambda b: Bounds(min(b[0].low, b[1].low), min(b[0].high, b[1].high)),
    e.Floor: lambda b: Bounds(_whole(math.floor, b[0].low), _whole(math.floor, b[0].high)),
    e.Ceil: lambda b: Bounds(_whole(math.ceil, b[0].low), _whole(math.ceil, b[0].high)),
    e.Round: lambda b: Bounds(_whole(math.floor, b[0].low), _whole(math.ceil, b[0].high)),
    e.FloorMod: _rest,
    e.FloorDiv: _quotient,
    e.Neg: lambda b: Bounds(-b[0].high, -b[0].low),
    e.Abs: lambda b: Bounds(0, b[0].size),
}


def _whole(how: Callable[[float], int], number: float) -> float:
    return number if math.isinf(number) else how(number)
