"""Extents and index vectors as values, for decompositions: int32 throughout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.types import Dim, Shape, static_shape
from nnconv.ops.elementwise import Maximum, Minimum
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Concat, Reshape, ShapeOf

FAR = int(np.iinfo(np.int32).max)
"""Behind every end."""


def ints(b: Builder, numbers: Iterable[int]) -> Value:
    """A constant vector; what int32 can't hold saturates."""
    return b.const(np.asarray([min(max(n, -FAR), FAR) for n in numbers], np.int32))


def scalar(b: Builder, number: int) -> Value:
    """A constant of rank 0; what int32 can't hold saturates."""
    return b.const(np.asarray(min(max(number, -FAR), FAR), np.int32))


def open_shape(shape: Shape) -> tuple[int, ...] | None:
    """A Reshape's shape: -1 for the extent that isn't known; None if there are more of them."""
    if shape is None:
        return None
    numbers = tuple(dim if isinstance(dim, int) else -1 for dim in shape)
    if numbers.count(-1) > 1 or (-1 in numbers and 0 in numbers):
        return None
    return numbers


def shape_of(b: Builder, x: Value) -> Value:
    """The extents of x."""
    known = static_shape(x.shape)
    return b.add(ShapeOf(), [x]) if known is None else ints(b, known)


def extent(b: Builder, x: Value, axis: int) -> Value:
    """One extent of x, a vector of one element."""
    dim: Dim = x.shape[axis] if x.shape is not None else None
    return ints(b, [dim]) if isinstance(dim, int) else b.add(ShapeOf(dims=(axis,)), [x])


def joined(b: Builder, parts: Sequence[Value]) -> Value:
    """Vectors, one behind the other; constants that meet are one."""
    pieces: list[Value] = []
    for part in parts:
        last = pieces[-1].data if pieces else None
        if part.data is not None and last is not None:
            pieces[-1] = b.const(np.concatenate([last, part.data]).astype(np.int32))
        else:
            pieces.append(part)
    return pieces[0] if len(pieces) == 1 else b.add(Concat(axis=0), pieces)


def shaped(b: Builder, x: Value, extents: Sequence[Value]) -> Value:
    """The elements of x under a shape of these extents, one of which may be -1."""
    shape = joined(b, extents)
    if shape.data is None:
        return b.add(Reshape(shape=None), [x, shape], quant=x.quant)
    return b.add(Reshape(shape=tuple(shape.data.tolist())), [x], quant=x.quant)


def as_int32(b: Builder, value: Value) -> Value:
    """Integers that int32 holds, as int32."""
    if value.dtype is DType.INT32:
        return value
    if value.data is not None:
        return b.const(value.data.astype(np.int32))
    return b.add(Cast(dtype=DType.INT32), [value])


def saturated(b: Builder, value: Value) -> Value:
    """Bounds as int32: what that can't hold is far away."""
    if value.dtype.bits <= 32:
        return as_int32(b, value)
    low, high = DType.INT32.int_range
    if value.data is not None:
        return b.const(np.clip(value.data, low, high).astype(np.int32))
    least, most = (b.const(np.asarray(n, value.dtype.numpy)) for n in (low, high))
    return as_int32(b, b.add(Minimum(), [b.add(Maximum(), [value, least]), most]))


def as_vector(b: Builder, value: Value) -> Value:
    """A value of one element as a vector."""
    if value.shape == (1,):
        return value
    return b.add(Reshape(shape=(1,)), [value])
