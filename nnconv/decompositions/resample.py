"""Resizing by elements picked by their places, and weighted sums of these."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.decompositions.arithmetic import Arithmetic
from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.resample_open import (
    mix_at_run_time,
    operands_of,
    pick_at_run_time,
    replaced,
    weigh_at_run_time,
)
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Layout, Op
from nnconv.ops import elementwise as e
from nnconv.ops.gather import Gather
from nnconv.ops.matmul import FullyConnected
from nnconv.ops.quantize import Cast
from nnconv.ops.resample import (
    MOST_ELEMENTS,
    RESIZE_FLAGS,
    Axis,
    Policy,
    Resample,
    ResampleNearest,
    chosen,
    known_axes,
    outside,
    tap_count,
    taps,
)
from nnconv.ops.resize import ResizeBilinear, ResizeNearest
from nnconv.ops.shape import ShapeOf, Transpose

MOST_WEIGHTS = 1 << 20
"""Up to so many weights along a dimension, one product stands for the sum of a few elements."""

MOST_TAPS = 64
"""For each of which there are three nodes."""

_Resampling = Resample | ResampleNearest


def _stays(axis: Axis) -> bool:
    return axis.size == axis.extent and axis.scale == 1 and axis.roi == (0.0, 1.0)


def _away(op: _Resampling, axes: Sequence[Axis], rank: int, b: Builder) -> Value | None:
    found = np.zeros((), bool)
    for dim, axis in zip(op.axes, axes, strict=True):
        beside = outside(op, axis)
        if beside is not None:
            found = found | beside.reshape([-1 if i == dim else 1 for i in range(rank)])
    return b.const(found) if found.any() else None


def pick(node: Node, b: Builder) -> list[Value] | None:
    """ResampleNearest of known extents: a Gather along each dimension."""
    op, x = node.op, operands_of(node)[0]
    assert isinstance(op, ResampleNearest)
    known = known_axes(op, x.shape)
    if known is None or x.shape is None:
        return None
    away = _away(op, known, len(x.shape), b)
    if away is not None and x.type.has_codes:
        return None
    result = x
    for dim, axis in zip(op.axes, known, strict=True):
        if not _stays(axis):
            index = b.const(chosen(op, axis).astype(np.int32))
            result = b.add(Gather(axis=dim), [result, index], quant=x.quant)
    return [replaced(op, x, result, away, b)]


def in_floats(node: Node, b: Builder) -> list[Value] | None:
    """Resample of integers, which round toward zero."""
    op, x = node.op, node.operand(0)
    rest = node.inputs[1:]
    assert isinstance(op, Resample)
    if not x.dtype.is_integer or x.type.has_codes:
        return None
    real = b.add(Cast(dtype=DType.FLOAT32), [x])
    return [b.add(Cast(dtype=x.dtype), [b.add(op, [real, *rest])])]


def weigh(node: Node, b: Builder) -> list[Value] | None:
    """Resample of known extents: a product with the weights of all taps, or a sum of the taps."""
    op, x = node.op, operands_of(node)[0]
    assert isinstance(op, Resample)
    known = known_axes(op, x.shape)
    if known is None or x.shape is None:
        return None
    rank = len(x.shape)
    result = x
    if any(tap_count(op, axis) * max(axis.size, 1) > MOST_ELEMENTS for axis in known):
        return None
    for dim, axis in zip(op.axes, known, strict=True):
        if _stays(axis):
            continue
        indices, weights = taps(op, axis)
        simple = not (op.cubic or op.antialias)
        if not simple and axis.size * axis.extent <= MOST_WEIGHTS:
            result = _product(result, dim, axis, indices, weights, b)
            continue
        if indices.shape[1] > MOST_TAPS:
            return None
        total: Value | None = None
        for column in range(indices.shape[1]):
            if axis.size and not weights[:, column].any():
                continue
            index = b.const(indices[:, column].astype(np.int32))
            shape = [-1] + [1] * (rank - 1 - dim)
            share = b.const(weights[:, column].astype(x.dtype.numpy).reshape(shape))
            term = b.add(e.Mul(), [b.add(Gather(axis=dim), [result, index]), share])
            total = term if total is None else b.add(e.Add(), [total, term])
        assert total is not None
        result = total
    return [replaced(op, x, result, _away(op, known, rank, b), b)]


def _product(
    x: Value, dim: int, axis: Axis, indices: np.ndarray, weights: np.ndarray, b: Builder
) -> Value:
    """One dimension as the last, times a matrix."""
    rank = x.type.rank
    assert rank is not None
    matrix = np.zeros((axis.size, axis.extent))
    np.add.at(matrix, (np.arange(axis.size)[:, None], indices), weights)
    there = (*(i for i in range(rank) if i != dim), dim)
    if dim != rank - 1:
        x = b.add(Transpose(perm=there), [x])
    x = b.add(FullyConnected(), [x, b.const(matrix.astype(x.dtype.numpy)), None])
    if dim != rank - 1:
        x = b.add(Transpose(perm=tuple(there.index(i) for i in range(rank))), [x])
    return x


def as_image(node: Node, b: Builder) -> list[Value] | None:
    """Images of open extents, channels-last, by the simpler op, where that surely does the same."""
    op, (x, _, _, sizes) = node.op, operands_of(node)
    assert isinstance(op, _Resampling)
    if x.type.rank != 4 or not set(op.axes) <= {1, 2} or op.policy is not Policy.STRETCH:
        return None
    assert x.shape is not None
    whole = op.scales is not None and all(s >= 1 and s == int(s) for s in op.scales)
    if isinstance(op, ResampleNearest):
        if op.sizes is not None or not whole or not op.repeats:
            return None
        simple: ResizeBilinear | ResizeNearest = ResizeNearest(layout=Layout.NHWC, size=None)
    else:
        flags = RESIZE_FLAGS.get(op.coordinates)
        plain = not (op.cubic or op.antialias or op.exclude_outside) and flags is not None
        if not plain or (not whole and op.sizes is None and sizes is None):
            return None
        assert flags is not None
        simple = ResizeBilinear(
            layout=Layout.NHWC, size=None, align_corners=flags[0], half_pixel=flags[1]
        )
    a = Arithmetic(b)
    own = b.add(ShapeOf(dtype=DType.INT32, dims=(1, 2)), [x])
    if op.sizes is not None and set(op.axes) == {1, 2}:
        size = b.const(np.asarray([op.sizes[op.axes.index(i)] for i in (1, 2)], np.int32))
    elif op.sizes is not None:
        return None
    elif whole:
        assert op.scales is not None
        factors = [int(op.scales[op.axes.index(i)]) if i in op.axes else 1 for i in (1, 2)]
        size = b.add(e.Mul(), [own, b.const(np.asarray(factors, np.int32))])
    elif sizes is None or not b.means.sizes:
        return None
    elif op.axes == (1, 2):
        size = a.cast(sizes, DType.INT32)
    elif set(op.axes) == {1, 2}:
        order = b.const(np.asarray([op.axes.index(i) for i in (1, 2)], np.int32))
        size = b.add(Gather(axis=0), [a.cast(sizes, DType.INT32), order])
    else:
        return None
    return [b.add(simple, [x, size], quant=node.outputs[0].quant)]


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    Resample: (in_floats, weigh, as_image, weigh_at_run_time, mix_at_run_time),
    ResampleNearest: (pick, as_image, pick_at_run_time),
}
