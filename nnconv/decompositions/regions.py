"""Moving regions of images, and finding points in them, in float32."""

from __future__ import annotations

import numpy as np

from nnconv.decompositions.arithmetic import Arithmetic
from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.proposals import widened
from nnconv.decompositions.refit import in_floats
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import static_shape
from nnconv.ops import elementwise as e
from nnconv.ops.gather import Gather, GatherElements
from nnconv.ops.quantize import Cast
from nnconv.ops.reduce import ArgMax
from nnconv.ops.regions import BoxTransform, HeatmapKeypoints
from nnconv.ops.shape import Concat, Reshape, Transpose
from nnconv.ops.slices import Pad, PadMode, Slice


def _columns(b: Builder, value: Value, count: int) -> list[Value]:
    """The first ``count`` places along the last dimension, each with extent 1."""
    rank = value.type.rank or 1
    lead = (None,) * (rank - 1)
    strides = (1,) * rank
    cuts = [Slice(starts=(*lead, i), ends=(*lead, i + 1), strides=strides) for i in range(count)]
    return [b.add(cut, [value]) for cut in cuts]


def _on_codes(node: Node, b: Builder) -> list[Value] | None:
    """Codes are computed with in floats."""
    values = (*node.inputs, *node.outputs)
    return in_floats(node, b) if any(v is not None and v.type.has_codes for v in values) else None


def _as_cube(b: Builder, column: Value) -> Value:
    """[n, 1] as [n, 1, 1]."""
    return b.add(Reshape(shape=(-1, 1, 1)), [column])


def decompose_box_transform(node: Node, b: Builder) -> list[Value] | None:
    """BoxTransform, edge by edge."""
    boxes, deltas, images, sizes = (node.operand(i) for i in range(4))
    width_of_row = None if deltas.shape is None else deltas.shape[1]
    if not isinstance(width_of_row, int):
        return None
    a = Arithmetic(b)
    x1, y1, x2, y2 = _columns(b, boxes, 4)
    cubes = b.add(Reshape(shape=(-1, width_of_row // 4, 4)), [deltas])
    info = b.add(Gather(axis=0), [sizes, images])
    height, width = (_as_cube(b, value) for value in _columns(b, info, 2))
    corners = []
    moves = _columns(b, cubes, 4)
    for (low, high), move, growth, most in (
        ((x1, x2), moves[0], moves[2], width),
        ((y1, y2), moves[1], moves[3], height),
    ):
        size = _as_cube(b, a.sub(high, low))
        centre = a.add(_as_cube(b, low), a.mul(size, 0.5))
        centre = a.add(centre, a.mul(move, size))
        half = a.mul(a.mul(b.add(e.Exp(), [growth]), size), 0.5)
        for edge in (a.sub(centre, half), a.add(centre, half)):
            above = b.add(e.Maximum(), [edge, a.number(0)])
            corners.append(b.add(e.Minimum(), [above, most]))
    left, right, top, bottom = corners
    moved = b.add(Concat(axis=2), [left, top, right, bottom])
    return [b.add(Reshape(shape=(-1, width_of_row)), [moved])]


# -------------------------------------------------------------------- keypoints


def decompose_heatmap_keypoints(node: Node, b: Builder) -> list[Value] | None:
    """HeatmapKeypoints of known extents."""
    op, maps, boxes = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, HeatmapKeypoints)
    if static_shape(maps.shape) is None:
        return None
    if not op.points_first:
        maps = b.add(Transpose(perm=(0, 3, 1, 2)), [maps])
    shape = static_shape(maps.shape)
    assert shape is not None
    count, points, side, _ = shape
    if side < 2:
        return None
    a = Arithmetic(b)
    flat = b.add(Reshape(shape=(count, points, side * side)), [maps])
    place = b.add(ArgMax(axis=2, keep_dims=True), [flat])
    grid = _neighbours(b, maps, place, (count, points, side))
    step_x, step_y, score = _peak(a, grid)
    row = b.add(e.FloorDiv(), [place, b.const(np.full(1, side, np.int32))])
    column = b.add(e.FloorMod(), [place, b.const(np.full(1, side, np.int32))])
    x1, y1, x2, y2 = (_as_cube(b, value) for value in _columns(b, boxes, 4))
    found = []
    for low, high, cell, step in ((x1, x2, column, step_x), (y1, y2, row, step_y)):
        middle = a.add(a.add(b.add(Cast(dtype=DType.FLOAT32), [cell]), step), 0.5)
        size = a.sub(high, low)
        found.append(a.add(low, a.mul(a.do(e.Div(), middle, float(side)), size)))
    return [b.add(Reshape(shape=(count, points)), [score]), b.add(Concat(axis=2), found)]


def _neighbours(b: Builder, maps: Value, place: Value, shape: tuple[int, int, int]) -> Value:
    """The 3 by 3 elements around places [n, k, 1], row by row: [n, k, 9]; edges are mirrored."""
    count, points, side = shape
    wide = side + 2
    padded = b.add(Pad(before=(0, 0, 1, 1), after=(0, 0, 1, 1), mode=PadMode.REFLECT), [maps])
    flat = b.add(Reshape(shape=(count, points, wide * wide)), [padded])
    row = b.add(e.FloorDiv(), [place, b.const(np.full(1, side, np.int32))])
    # a row of the padded map is 2 longer than one of the map
    corner = b.add(e.Add(), [place, b.add(e.Mul(), [row, b.const(np.full(1, 2, np.int32))])])
    offsets = (np.arange(3)[:, None] * wide + np.arange(3)).astype(np.int32)
    indices = b.add(e.Add(), [corner, b.const(offsets.reshape(1, 1, 9))])
    return b.add(GatherElements(axis=2), [flat, indices])


_LEAST_DETERMINANT = 1e-5
_LONGEST_STEP = 1.5


def _peak(a: Arithmetic, grid: Value) -> tuple[Value, Value, Value]:
    """How far the peak is from the middle of 3 by 3 elements, along x and y, and its height."""
    b = a.b
    cells = _columns(b, grid, 9)
    middle = cells[4]
    slope_x = a.mul(a.sub(cells[5], cells[3]), 0.5)
    slope_y = a.mul(a.sub(cells[7], cells[1]), 0.5)
    twice = a.mul(middle, 2.0)
    xx = a.sub(a.add(cells[3], cells[5]), twice)
    yy = a.sub(a.add(cells[1], cells[7]), twice)
    xy = a.mul(a.sub(a.add(cells[8], cells[0]), a.add(cells[2], cells[6])), 0.25)
    determinant = a.sub(a.mul(xx, yy), a.mul(xy, xy))
    flat = b.add(e.Less(), [b.add(e.Abs(), [determinant]), a.number(_LEAST_DETERMINANT)])
    divisor = b.add(e.Select(), [flat, a.number(1), determinant])
    step_x = a.do(e.Div(), a.sub(a.mul(xy, slope_y), a.mul(yy, slope_x)), divisor)
    step_y = a.do(e.Div(), a.sub(a.mul(xy, slope_x), a.mul(xx, slope_y)), divisor)
    longest = b.add(e.Maximum(), [b.add(e.Abs(), [step_x]), b.add(e.Abs(), [step_y])])
    over = b.add(e.Maximum(), [longest, a.number(_LONGEST_STEP)])
    scale = b.add(e.Select(), [flat, a.number(0), a.do(e.Div(), _LONGEST_STEP, over)])
    step_x, step_y = a.mul(step_x, scale), a.mul(step_y, scale)
    rise = a.add(a.mul(slope_x, step_x), a.mul(slope_y, step_y))
    bend_x = a.mul(a.add(a.mul(xx, step_x), a.mul(xy, step_y)), step_x)
    bend_y = a.mul(a.add(a.mul(xy, step_x), a.mul(yy, step_y)), step_y)
    return step_x, step_y, a.add(a.add(middle, rise), a.mul(a.add(bend_x, bend_y), 0.5))


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    BoxTransform: (_on_codes, widened, decompose_box_transform),
    HeatmapKeypoints: (_on_codes, widened, decompose_heatmap_keypoints),
}
