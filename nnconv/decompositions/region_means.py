"""Means of points in the bins of regions, where their number depends on the regions.

A point that is read by linear interpolation weighs the rows of the image, and its columns, each by
itself. So the mean of a bin is its rows' weights times the image times its columns' weights: two
products of matrices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnconv.decompositions.arithmetic import Arithmetic
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.types import static_shape
from nnconv.ops import elementwise as e
from nnconv.ops import sampling as s
from nnconv.ops.gather import Gather
from nnconv.ops.matmul import MatMul
from nnconv.ops.reduce import ReduceSum
from nnconv.ops.shape import Reshape, Transpose, Unsqueeze

MOST_WEIGHTS = 1 << 20
"""Weights of all points in the bins of one region, along one dimension."""


class _Side(NamedTuple):
    """The bins of regions along a dimension: [R, 1] the least and the greatest place of regions."""

    first: Value
    last: Value
    bins: int
    samples: int
    extent: int

    @property
    def points(self) -> int:
        """As many as may lie where the image is.

        Where their number isn't given they are half an element apart at least, if there are two.
        """
        return self.samples or 2 * self.extent + 5


def mean_by_products(node: Node, b: Builder) -> list[Value] | None:
    """RoiAlign of means, of images of known shape; halves are computed with as float32."""
    op = node.op
    x, regions, images = (node.operand(i) for i in range(3))
    assert isinstance(op, s.RoiAlign)
    shape = static_shape(x.shape[1:]) if x.shape else None
    if shape is None or op.greatest or 0 in shape or DType.FLOAT64 in (x.dtype, regions.dtype):
        return None
    a, (channels, height, width) = Arithmetic(b), shape
    x, regions = a.cast(x, DType.FLOAT32), a.cast(regions, DType.FLOAT32)
    shift = 0.5 if op.half_pixel else 0.0
    corners = []
    for i in range(4):
        column = b.add(Gather(axis=1), [regions, a.ints(np.array([i]))])
        corners.append(a.sub(a.mul(column, op.scale), shift))
    across = op.samples if op.across is None else op.across
    rows = _Side(corners[1], corners[3], op.size[0], op.samples, height)
    columns = _Side(corners[0], corners[2], op.size[1], across, width)
    if any(side.bins * side.points * side.extent > MOST_WEIGHTS for side in (rows, columns)):
        return None
    numbers = b.add(Reshape(shape=(-1,)), [a.cast(images, DType.INT32)])
    last = b.add(Transpose(perm=(0, 2, 3, 1)), [x])
    picked = b.add(Gather(axis=0), [last, numbers])  # [R, H, W, C]
    flat = b.add(Reshape(shape=(-1, height, width * channels)), [picked])
    means = b.add(MatMul(), [_weights(rows, op, a), flat])  # [R, bins, W * C]
    means = b.add(Reshape(shape=(-1, op.size[0], width, channels)), [means])
    means = b.add(Transpose(perm=(0, 2, 1, 3)), [means])
    means = b.add(Reshape(shape=(-1, width, op.size[0] * channels)), [means])
    means = b.add(MatMul(), [_weights(columns, op, a), means])  # [R, bins across, bins * C]
    means = b.add(Reshape(shape=(-1, op.size[1], op.size[0], channels)), [means])
    means = b.add(Transpose(perm=(0, 3, 2, 1)), [means])
    return [a.cast(means, node.outputs[0].dtype)]


def _weights(side: _Side, op: s.RoiAlign, a: Arithmetic) -> Value:
    """How much each element of the image counts in each bin: [R, bins, extent]."""
    b = a.b
    length = a.sub(side.last, side.first)
    if not op.half_pixel:
        length = a.do(e.Maximum(), length, 1.0)
    size = a.do(e.Div(), length, float(side.bins))  # of a bin
    number: Value = a.number(side.samples) if side.samples else a.do(e.Ceil(), size)
    some = a.do(e.Maximum(), number, 1.0)
    step = a.do(e.Div(), size, some)
    bins = b.const(np.arange(side.bins, dtype=np.float32))
    start = a.add(side.first, a.mul(size, bins))  # [R, bins]
    start, step, number, some = (
        b.add(Unsqueeze(axes=(2,)), [v]) if v.type.rank == 2 else v
        for v in (start, step, number, some)
    )
    points = b.const(np.arange(side.points, dtype=np.float32))
    if not side.samples:  # those before the image are passed over
        ahead = a.do(e.Div(), a.sub(-1.0, start), a.do(e.Maximum(), step, 1 / 4))
        points = a.add(a.do(e.Maximum(), a.do(e.Floor(), a.sub(ahead, 0.5)), 0.0), points)
    place = a.add(start, a.mul(step, a.add(points, 0.5)))  # [R, bins, points]
    counts = a.do(e.LogicalAnd(), *_within(place, -1.0, float(side.extent), a))
    if not side.samples:
        counts = a.do(e.LogicalAnd(), counts, a.do(e.Less(), points, number))
    place = a.within(place, 0.0, side.extent - 1.0)
    place, share = (
        b.add(Unsqueeze(axes=(3,)), [v])
        for v in (place, a.do(e.Div(), a.cast(counts, DType.FLOAT32), some))
    )
    elements = b.const(np.arange(side.extent, dtype=np.float32))
    near = a.do(e.Maximum(), a.sub(1.0, a.do(e.Abs(), a.sub(place, elements))), 0.0)
    return b.add(ReduceSum(axes=(2,)), [a.mul(near, share)])


def _within(place: Value, low: float, high: float, a: Arithmetic) -> tuple[Value, Value]:
    return a.do(e.GreaterEqual(), place, low), a.do(e.LessEqual(), place, high)
