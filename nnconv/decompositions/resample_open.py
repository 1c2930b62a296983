"""Resizing whose places are worked out at run time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nnconv.decompositions.arithmetic import Arithmetic
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.types import static_shape
from nnconv.ops import elementwise as e
from nnconv.ops.gather import Gather
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.reduce import ReduceSum
from nnconv.ops.resample import (
    MOST_ELEMENTS,
    TIE,
    Coordinates,
    Policy,
    Resample,
    ResampleNearest,
    Rounding,
)
from nnconv.ops.shape import Range, Reshape, ShapeOf, Transpose, Unsqueeze

MOST_MIXED = 1 << 13
"""Elements along a dimension whose weights are worked out at run time."""

_Resampling = Resample | ResampleNearest


def operands_of(node: Node) -> tuple[Value, Value | None, Value | None, Value | None]:
    """Data, roi, scales, sizes."""
    x, roi, scales, sizes = node.operand(0), node.optional(1), node.optional(2), node.optional(3)
    return x, roi, scales, sizes


def replaced(op: _Resampling, x: Value, result: Value, away: Value | None, b: Builder) -> Value:
    """``result`` with what stands for places outside of the input."""
    if away is None:
        return result
    beyond = b.const(np.asarray(op.extrapolation).astype(x.dtype.numpy))
    return b.add(e.Select(), [away, beyond, result])


class _Open(NamedTuple):
    """One dimension whose places are worked out at run time: float32 scalars but ``size``.

    Attributes:
        extent, size, scale: as in Axis; ``size`` is an int32 scalar.
        start, end: the part that is resized, None for all.
    """

    extent: Value
    size: Value
    scale: Value
    start: Value | None
    end: Value | None


def _open_axes(node: Node, a: Arithmetic) -> list[_Open] | None:
    op, (x, roi, scales, sizes) = node.op, operands_of(node)
    assert isinstance(op, _Resampling)
    if x.shape is None or max(op.sizes or (0,)) > MOST_ELEMENTS:
        return None
    if any(isinstance(n, int) and n > MOST_ELEMENTS for n in node.outputs[0].shape or ()):
        return None
    if any(x.shape[axis] == 0 for axis in op.axes):
        return None
    b, count = a.b, len(op.axes)
    vector = b.add(ShapeOf(dtype=DType.INT32, dims=op.axes), [x])
    if x.type.is_static:
        vector = b.const(np.asarray([x.shape[i] for i in op.axes], np.int32))
    lengths = a.cast(vector, DType.FLOAT32)
    if op.sizes is not None:
        wanted: Value | None = b.const(np.asarray(op.sizes, np.int32))
    else:
        wanted = None if sizes is None else a.cast(sizes, DType.INT32)
    factors: Value
    if wanted is not None:
        factors = a.do(e.Div(), a.cast(wanted, DType.FLOAT32), lengths)
        if op.policy is not Policy.STRETCH:
            kind = e.Minimum() if op.policy is Policy.NOT_LARGER else e.Maximum()
            best = a.entry(factors, 0)
            for i in range(1, count):
                best = a.do(kind, best, a.entry(factors, i))
            factors = a.do(e.Add(), a.do(e.Mul(), factors, 0.0), best)
            rounded = a.do(e.Floor(), a.do(e.Add(), a.do(e.Mul(), lengths, factors), 0.5))
            wanted = a.cast(rounded, DType.INT32)
    else:
        if op.scales is not None:
            factors = b.const(np.asarray(op.scales, np.float32))
        else:
            assert scales is not None, "the verifier wants scales or sizes"
            factors = a.cast(scales, DType.FLOAT32)
        wanted = a.cast(a.do(e.Floor(), a.do(e.Mul(), lengths, factors)), DType.INT32)
    parts: Value | None = None
    if op.coordinates is Coordinates.CROP:
        if op.roi is not None:
            parts = b.const(np.asarray(op.roi, np.float32))
        elif roi is not None:
            parts = a.cast(roi, DType.FLOAT32)
    return [
        _Open(
            a.entry(lengths, i),
            a.entry(wanted, i),
            a.entry(factors, i),
            None if parts is None else a.entry(parts, i),
            None if parts is None else a.entry(parts, count + i),
        )
        for i in range(count)
    ]


def _places(op: _Resampling, axis: _Open, a: Arithmetic) -> Value:
    """What ``nnconv.ops.resample.places`` tells, at run time."""
    zero, one = (a.b.const(np.asarray(n, np.int32)) for n in (0, 1))
    steps = a.cast(a.b.add(Range(), [zero, axis.size, one]), DType.FLOAT32)
    mode = op.coordinates
    if mode is Coordinates.ASYMMETRIC:
        return a.do(e.Div(), steps, axis.scale)
    reach = a.do(e.Sub(), axis.extent, 1.0)
    if mode in (Coordinates.ALIGN_CORNERS, Coordinates.CROP):
        length = a.do(e.Mul(), axis.scale, axis.extent)
        many = a.do(e.Greater(), a.do(e.Abs(), a.do(e.Sub(), length, 1.0)), 1e-4)
        gaps = a.do(e.Select(), many, a.do(e.Sub(), length, 1.0), 1.0)
        if axis.start is None or axis.end is None:
            gap = a.do(e.Select(), many, a.do(e.Div(), reach, gaps), 0.0)
            return a.do(e.Mul(), steps, gap)
        part = a.do(e.Sub(), axis.end, axis.start)
        first = a.do(e.Mul(), axis.start, reach)
        whole = a.do(e.Mul(), part, reach)
        places = a.do(e.Add(), first, a.do(e.Div(), a.do(e.Mul(), steps, whole), gaps))
        middle = a.do(e.Add(), first, a.do(e.Mul(), whole, 0.5))
        return a.do(e.Select(), many, places, middle)
    middles = a.do(e.Div(), a.do(e.Add(), steps, 0.5), axis.scale)
    middles = a.do(e.Sub(), middles, 0.5)
    size = a.cast(axis.size, DType.FLOAT32)
    if mode is Coordinates.PYTORCH_HALF_PIXEL:
        return a.do(e.Select(), a.do(e.Greater(), size, 1.0), middles, 0.0)
    if mode is Coordinates.HALF_PIXEL_SYMMETRIC:
        length = a.do(e.Mul(), axis.scale, axis.extent)
        lacking = a.do(e.Sub(), 1.0, a.do(e.Div(), size, length))
        shift = a.do(e.Mul(), a.do(e.Mul(), axis.extent, 0.5), lacking)
        return a.do(e.Add(), shift, middles)
    return middles


def _outside(places: Value, axis: _Open, a: Arithmetic) -> Value:
    last = a.do(e.Sub(), axis.extent, 1.0)
    below, above = a.do(e.Less(), places, 0.0), a.do(e.Greater(), places, last)
    return a.do(e.LogicalOr(), below, above)


def _index(places: Value, axis: _Open, a: Arithmetic) -> Value:
    last = a.do(e.Sub(), axis.extent, 1.0)
    return a.cast(a.bounded(places, 0.0, last), DType.INT32)


def _column(value: Value, dim: int, rank: int, a: Arithmetic) -> Value:
    """A vector to broadcast along one of ``rank`` dimensions."""
    shape = (-1, *[1] * (rank - 1 - dim))
    return a.b.add(Reshape(shape=shape), [value])


def _beside(found: Value, dim: int, rank: int, away: Value | None, a: Arithmetic) -> Value:
    column = _column(found, dim, rank, a)
    return column if away is None else a.do(e.LogicalOr(), away, column)


def pick_at_run_time(node: Node, b: Builder) -> list[Value] | None:
    """ResampleNearest: places computed, and a Gather along each dimension."""
    op, x = node.op, operands_of(node)[0]
    assert isinstance(op, ResampleNearest)
    a = Arithmetic(b)
    axes = _open_axes(node, a)
    crops = op.coordinates is Coordinates.CROP
    if axes is None or x.shape is None or (x.type.has_codes and crops):
        return None
    rank, result, away = len(x.shape), x, None
    for dim, axis in zip(op.axes, axes, strict=True):
        places = _places(op, axis, a)
        if axis.start is not None:
            away = _beside(_outside(places, axis, a), dim, rank, away, a)
        index = _index(_rounded(op.rounding, places, a), axis, a)
        result = b.add(Gather(axis=dim), [result, index], quant=x.quant)
    return [replaced(op, x, result, away, b)]


def _rounded(rounding: Rounding, places: Value, a: Arithmetic) -> Value:
    if rounding is Rounding.FLOOR:
        return a.do(e.Floor(), places)
    if rounding is Rounding.CEIL:
        return a.do(e.Ceil(), places)
    if rounding is Rounding.PREFER_CEIL:
        return a.do(e.Floor(), a.do(e.Add(), places, 0.5 + TIE))
    return a.do(e.Ceil(), a.do(e.Sub(), places, 0.5 + TIE))


def weigh_at_run_time(node: Node, b: Builder) -> list[Value] | None:
    """Resample without antialiasing: places and weights computed, a Gather for each tap."""
    op, x = node.op, operands_of(node)[0]
    assert isinstance(op, Resample)
    a = Arithmetic(b)
    axes = None if op.antialias else _open_axes(node, a)
    if axes is None or x.shape is None:
        return None
    rank, result, away = len(x.shape), x, None
    for dim, axis in zip(op.axes, axes, strict=True):
        places = _places(op, axis, a)
        if axis.start is not None:
            away = _beside(_outside(places, axis, a), dim, rank, away, a)
        lower = a.do(e.Floor(), places)
        share = a.do(e.Sub(), places, lower)
        result = _tapped(op, result, dim, axis, lower, share, a)
    return [replaced(op, x, result, away, b)]


def _tapped(
    op: Resample, x: Value, dim: int, axis: _Open, lower: Value, share: Value, a: Arithmetic
) -> Value:
    offsets = (-1, 0, 1, 2) if op.cubic else (0, 1)
    rank = x.type.rank
    assert rank is not None
    weights, indices = [], []
    for offset in offsets:
        distance = a.do(e.Abs(), a.do(e.Sub(), share, float(offset)))
        near = abs(offset - 0.5) < 1
        if op.cubic:
            weight = _cubic(distance, op.coefficient, a, near=near)
        else:
            weight = a.do(e.Sub(), 1.0, distance)
        place = a.do(e.Add(), lower, float(offset))
        if op.exclude_outside:
            weight = a.do(e.Select(), _outside(place, axis, a), 0.0, weight)
        weights.append(weight)
        indices.append(_index(place, axis, a))
    if op.exclude_outside:
        total = weights[0]
        for weight in weights[1:]:
            total = a.do(e.Add(), total, weight)
        weights = [a.do(e.Div(), weight, total) for weight in weights]
    result: Value | None = None
    for index, weight in zip(indices, weights, strict=True):
        part = a.b.add(Gather(axis=dim), [x, index])
        term = a.b.add(e.Mul(), [part, _column(weight, dim, rank, a)])
        result = term if result is None else a.b.add(e.Add(), [result, term])
    assert result is not None
    return result


def _cubic(distance: Value, c: float, a: Arithmetic, *, near: bool) -> Value:
    """The kernel of cubic convolution, up to a distance of 1 or beyond."""
    factors: tuple[Any, ...] = (c + 2, -(c + 3), 0.0, 1.0) if near else (c, -5 * c, 8 * c, -4 * c)
    result: Value | float = factors[0]
    for factor in factors[1:]:
        result = a.do(e.Add(), a.do(e.Mul(), distance, result), factor)
    assert isinstance(result, Value)
    return result


def mix_at_run_time(node: Node, b: Builder) -> list[Value] | None:
    """Resample with antialiasing: a matrix of weights worked out, for each dimension."""
    op, x = node.op, operands_of(node)[0]
    assert isinstance(op, Resample)
    a = Arithmetic(b)
    small = x.type.is_static and all(n <= MOST_MIXED for n in static_shape(x.shape) or ())
    axes = _open_axes(node, a) if op.antialias and small else None
    if axes is None or x.shape is None or op.coordinates is Coordinates.CROP:
        return None
    rank, result = len(x.shape), x
    for dim, axis in zip(op.axes, axes, strict=True):
        extent = x.shape[dim]
        assert isinstance(extent, int)
        matrix = _mixture(op, axis, extent, a)
        there = (*(i for i in range(rank) if i != dim), dim)
        turned = b.add(Transpose(perm=there), [result]) if dim != rank - 1 else result
        result = b.add(MatMul(transpose_b=True), [turned, matrix])
        if dim != rank - 1:
            back = tuple(there.index(i) for i in range(rank))
            result = b.add(Transpose(perm=back), [result])
    return [result]


def _mixture(op: Resample, axis: _Open, extent: int, a: Arithmetic) -> Value:
    """The weights of all elements in each of the result: [size, extent].

    What lies outside counts as the edge: places as far as twice the extent away are looked at.
    """
    far = 0 if op.exclude_outside else 2 * extent
    steps = np.arange(-far, extent + far, dtype=np.float32)
    places = a.b.add(Unsqueeze(axes=(1,)), [_places(op, axis, a)])
    spread = a.do(e.Minimum(), axis.scale, 1.0)
    apart = a.sub(a.b.const(steps), places)
    distance = a.mul(a.do(e.Abs(), apart), spread)
    if op.cubic:
        near = _cubic(distance, op.coefficient, a, near=True)
        far_off = _cubic(distance, op.coefficient, a, near=False)
        tail = a.do(e.Select(), a.do(e.Less(), distance, 2.0), far_off, 0.0)
        weights = a.do(e.Select(), a.do(e.LessEqual(), distance, 1.0), near, tail)
    else:
        weights = a.do(e.Maximum(), a.sub(1.0, distance), 0.0)
    total = a.b.add(ReduceSum(axes=(1,), keep_dims=True), [weights])
    shares = a.do(e.Div(), weights, total)
    if not far:
        return shares
    # each place outside is the edge's: a product with where places lead
    leads = np.zeros((extent, len(steps)), np.float32)
    leads[np.clip(steps, 0, extent - 1).astype(np.int64), np.arange(len(steps))] = 1
    return a.b.add(FullyConnected(), [shares, a.b.const(leads), None])
