"""Reading images at computed places: elements picked by their numbers, and weighed sums of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from nnconv.decompositions.arithmetic import Arithmetic
from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.columns import add_up, part_of, scatter
from nnconv.decompositions.region_means import mean_by_products
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import static_shape
from nnconv.ops import elementwise as e
from nnconv.ops import sampling as s
from nnconv.ops.gather import Gather
from nnconv.ops.matmul import FullyConnected
from nnconv.ops.reduce import ReduceMax, ReduceMean
from nnconv.ops.rewrite import reshaped
from nnconv.ops.shape import Concat, Range, Reshape, ShapeOf, Transpose, Unsqueeze

MOST_POINTS = 1 << 16
"""In one direction of a region."""


MOST_READ = 1 << 26
"""Places that the taps of a convolution read."""


class _Tap(NamedTuple):
    """What is read along one dimension: places (int32, inside) and weights (None for ones)."""

    place: Value
    weight: Value | None


def _component(places: Value, number: int, axis: int, b: Builder) -> Value:
    """One number of each place."""
    return b.add(Gather(axis=axis), [places, b.const(np.asarray(number, np.int32))])


def _inside(place: Value, extent: int, a: Arithmetic) -> Value:
    """1 where a place is inside of an extent, else 0."""
    after = a.do(e.GreaterEqual(), place, 0.0)
    before = a.do(e.LessEqual(), place, float(extent - 1))
    return a.cast(a.do(e.LogicalAnd(), after, before), DType.FLOAT32)


def _numbered(taps: Sequence[_Tap], extents: Sequence[int], start: Value, a: Arithmetic) -> Value:
    """The numbers of elements in row-major order, behind what ``start`` counts."""
    number = start
    for tap, extent in zip(taps, extents, strict=True):
        number = a.add(a.mul(number, a.ints(extent)), tap.place)
    return number


def _weight_of(taps: Sequence[_Tap], a: Arithmetic) -> Value | None:
    weights = [tap.weight for tap in taps if tap.weight is not None]
    return a.mul(weights[0], *weights[1:]) if weights else None


def _read(
    rows: Value,
    sides: Sequence[Sequence[_Tap]],
    extents: Sequence[int],
    start: Value,
    a: Arithmetic,
) -> Value:
    """The sum over all combinations of taps of ``rows`` [elements, C]: [places..., C]."""
    total: Value | None = None
    for taps in product(*sides):
        part = a.b.add(Gather(axis=0), [rows, _numbered(taps, extents, start, a)])
        weight = _weight_of(taps, a)
        if weight is not None:
            rank = weight.type.rank
            assert rank is not None
            part = a.mul(part, a.b.add(Unsqueeze(axes=(rank,)), [weight]))
        total = part if total is None else a.add(total, part)
    assert total is not None
    return total


# -------------------------------------------------------------------- grids


def _reflected(place: Value, low: float, high: float, a: Arithmetic) -> Value:
    span = high - low
    if span <= 0:
        return a.mul(place, 0.0)
    away = a.do(e.FloorMod(), a.do(e.Abs(), a.sub(place, low)), 2 * span)
    return a.sub(low + span, a.do(e.Abs(), a.sub(away, span)))


def _grid_taps(op: s.GridSample, place: Value, extent: int, a: Arithmetic) -> list[_Tap]:
    """What a place from -1 to 1 reads along one dimension."""
    if op.align_corners:
        place = a.mul(a.add(place, 1.0), (extent - 1) / 2)
    else:
        place = a.sub(a.mul(a.add(place, 1.0), extent / 2), 0.5)
    if op.mode is s.Sampling.NEAREST:
        place = a.do(e.Round(), place)
    if op.beyond is s.Beyond.BORDER and op.mode is not s.Sampling.CUBIC:
        place = a.within(place, 0.0, extent - 1.0)
    elif op.beyond is s.Beyond.REFLECTION:
        place = _reflected(place, *op.edges(extent), a)
    else:
        place = a.within(place, -9.0, extent + 9.0)
    if op.mode is s.Sampling.NEAREST:
        return [_settled(op, place, None, extent, a)]
    lower = a.do(e.Floor(), place)
    share = a.sub(place, lower)
    if op.mode is s.Sampling.LINEAR:
        parts = [(0, a.sub(1.0, share)), (1, share)]
    else:
        parts = [(offset, _cubic(share, offset, a)) for offset in (-1, 0, 1, 2)]
    return [
        _settled(op, a.add(lower, float(offset)), weight, extent, a) for offset, weight in parts
    ]


def _cubic(share: Value, offset: int, a: Arithmetic) -> Value:
    c = -0.75
    distance = a.do(e.Abs(), a.sub(share, float(offset)))
    near = (c + 2, -(c + 3), 0.0, 1.0)
    first, *rest = near if offset in (0, 1) else (c, -5 * c, 8 * c, -4 * c)
    result = a.add(a.mul(distance, first), rest[0])
    for factor in rest[1:]:
        result = a.add(a.mul(result, distance), factor)
    return result


def _settled(
    op: s.GridSample, place: Value, weight: Value | None, extent: int, a: Arithmetic
) -> _Tap:
    """An index inside; a weight of 0 for what counts nothing."""
    if op.beyond is s.Beyond.ZEROS:
        inside = _inside(place, extent, a)
        weight = inside if weight is None else a.mul(weight, inside)
    elif op.beyond is s.Beyond.REFLECTION:
        place = _reflected(place, *op.edges(extent), a)
    return _Tap(a.cast(a.within(place, 0.0, extent - 1.0), DType.INT32), weight)


def _as_rows(x: Value, channels: int, b: Builder) -> Value:
    """X [N, C, spatial...] as [elements, C]."""
    rank = x.type.rank
    assert rank is not None
    last = b.add(Transpose(perm=(0, *range(2, rank), 1)), [x])
    return b.add(Reshape(shape=(-1, channels)), [last])


def _images(x: Value, count: int, a: Arithmetic) -> Value:
    """The numbers of images, int32 [N]; ``count`` is -1 where it isn't known."""
    if count >= 0:
        return a.ints(np.arange(count))
    sizes = a.b.add(ShapeOf(dtype=DType.INT32), [x])
    return a.b.add(Range(), [a.ints(0), a.entry(sizes, 0), a.ints(1)])


def grid_sample(node: Node, b: Builder) -> list[Value] | None:
    """GridSample of images of known shape."""
    op, y = node.op, node.outputs[0]
    x, grid = node.operand(0), node.operand(1)
    assert isinstance(op, s.GridSample)
    if not x.shape or not y.shape:
        return None
    shape, result = static_shape(x.shape[1:]), static_shape(y.shape[2:])
    if shape is None or result is None or 0 in shape:
        return None
    a, (channels, *extents) = Arithmetic(b), shape
    n = x.shape[0] if isinstance(x.shape[0], int) else -1
    area = int(np.prod(result))
    places = b.add(Reshape(shape=(n, area, len(extents))), [grid])
    sides = []
    for i, extent in enumerate(extents):
        place = _component(places, len(extents) - 1 - i, 2, b)
        sides.append(_grid_taps(op, place, extent, a))
    start = b.add(Unsqueeze(axes=(1,)), [_images(x, n, a)])
    read = _read(_as_rows(x, channels, b), sides, extents, start, a)
    image = b.add(Reshape(shape=(n, *result, channels)), [read])
    rank = len(x.shape)
    return [b.add(Transpose(perm=(0, rank - 1, *range(1, rank - 1))), [image])]


def affine_grid(node: Node, b: Builder) -> list[Value] | None:
    """AffineGrid: a sum of products, one for each dimension."""
    op = node.op
    theta, size = node.operand(0), node.optional(1)
    assert isinstance(op, s.AffineGrid)
    rank = len(op.size) - 2 if op.size is not None else None
    if theta.shape is not None and isinstance(theta.shape[1], int):
        rank = theta.shape[1]
    if rank is None or max(op.size or (0,)) > MOST_POINTS:
        return None
    a = Arithmetic(b)
    last = b.add(Transpose(perm=(0, 2, 1)), [theta])  # [N, rank + 1, rank]
    total: Value | None = None
    for i in range(rank + 1):
        shape = (-1, *[1] * rank, rank)
        factor = b.add(Reshape(shape=shape), [_component(last, i, 1, b)])
        if i < rank:
            dim = rank - 1 - i  # the first number counts along the last dimension
            side = _side(op, size, dim, a)
            side = b.add(Reshape(shape=(-1, *[1] * (rank - dim))), [side])
            factor = a.mul(side, factor)
        total = factor if total is None else a.add(total, factor)
    assert total is not None
    return [total]


def _side(op: s.AffineGrid, size: Value | None, dim: int, a: Arithmetic) -> Value:
    """The places of one dimension, from -1 to 1."""
    if op.size is not None:
        extent = op.size[2 + dim]
        steps = np.arange(extent, dtype=np.float64)
        if op.align_corners:
            side = steps * 2 / (extent - 1) - 1 if extent > 1 else steps * 0 - 1
        else:
            side = (2 * steps + 1) / extent - 1
        return a.b.const(side.astype(np.float32))
    assert size is not None, "the verifier wants a size"
    whole = a.entry(a.cast(size, DType.INT32), 2 + dim)
    steps_ = a.cast(a.b.add(Range(), [a.ints(0), whole, a.ints(1)]), DType.FLOAT32)
    length = a.cast(whole, DType.FLOAT32)
    if op.align_corners:
        gaps = a.do(e.Maximum(), a.sub(length, 1.0), 1.0)
        return a.sub(a.do(e.Div(), a.mul(steps_, 2.0), gaps), 1.0)
    middles = a.add(a.mul(steps_, 2.0), 1.0)
    return a.sub(a.do(e.Div(), middles, length), 1.0)


# -------------------------------------------------------------------- regions


def _corners(regions: Value, first: int, scale: float, a: Arithmetic) -> list[Value]:
    """x1, y1, x2, y2 of regions, each [R, 1], in elements of the image."""
    columns = [_component(regions, first + i, 1, a.b) for i in range(4)]
    return [a.mul(a.b.add(Reshape(shape=(-1, 1)), [column]), scale) for column in columns]


def _region_taps(place: Value, extent: int, a: Arithmetic) -> list[_Tap]:
    """Both neighbours of places, which are 0 from one element outside on."""
    after, before = a.do(e.GreaterEqual(), place, -1.0), a.do(e.LessEqual(), place, float(extent))
    inside = a.cast(a.do(e.LogicalAnd(), after, before), DType.FLOAT32)
    place = a.within(place, 0.0, extent - 1.0)
    lower = a.do(e.Floor(), place)
    share = a.sub(place, lower)
    upper = a.do(e.Minimum(), a.add(lower, 1.0), extent - 1.0)
    return [
        _Tap(a.cast(lower, DType.INT32), a.mul(a.sub(1.0, share), inside)),
        _Tap(a.cast(upper, DType.INT32), a.mul(share, inside)),
    ]


def roi_align(node: Node, b: Builder) -> list[Value] | None:
    """RoiAlign of a given number of points in each bin, of images of known shape."""
    op = node.op
    x, regions, images = (node.operand(i) for i in range(3))
    assert isinstance(op, s.RoiAlign)
    shape = static_shape(x.shape[1:]) if x.shape else None
    if shape is None or not op.is_square:
        return None
    if not op.samples or max(op.size) * op.samples > MOST_POINTS:
        return None
    a, (channels, height, width) = Arithmetic(b), shape
    shift = 0.5 if op.half_pixel else 0.0
    x1, y1, x2, y2 = (a.sub(v, shift) for v in _corners(regions, 0, op.scale, a))
    sides = []
    for first, last, count, extent, axis in (
        (y1, y2, op.size[0], height, 2),
        (x1, x2, op.size[1], width, 1),
    ):
        length = a.sub(last, first)
        if not op.half_pixel:
            length = a.do(e.Maximum(), length, 1.0)
        steps = np.arange(count)[:, None] + (np.arange(op.samples) + 0.5) / op.samples
        bins = b.const((steps.reshape(1, -1) / count).astype(np.float32))
        place = b.add(Unsqueeze(axes=(axis,)), [a.add(first, a.mul(bins, length))])
        sides.append(_region_taps(place, extent, a))  # [R, points, 1] and [R, 1, points]
    start = b.add(Reshape(shape=(-1, 1, 1)), [a.cast(images, DType.INT32)])
    rows = _as_rows(x, channels, b)
    split = (-1, op.size[0], op.samples, op.size[1], op.samples, channels)
    if op.greatest:
        points: Value | None = None
        for taps in product(*sides):
            part = _read(rows, [[tap] for tap in taps], (height, width), start, a)
            points = part if points is None else a.do(e.Maximum(), points, part)
        assert points is not None
        pooled = b.add(ReduceMax(axes=(2, 4)), [b.add(Reshape(shape=split), [points])])
    else:
        points = _read(rows, sides, (height, width), start, a)
        pooled = b.add(ReduceMean(axes=(2, 4)), [b.add(Reshape(shape=split), [points])])
    return [b.add(Transpose(perm=(0, 3, 1, 2)), [pooled])]


def max_roi_pool(node: Node, b: Builder) -> list[Value] | None:
    """MaxRoiPool: the greatest of each row's part, then of each column's."""
    op = node.op
    x, regions = node.operand(0), node.operand(1)
    assert isinstance(op, s.MaxRoiPool)
    shape = static_shape(x.shape[2:]) if x.shape else None
    if shape is None or max(op.size) > MOST_POINTS:
        return None
    a, (height, width) = Arithmetic(b), shape
    which = a.cast(_component(regions, 0, 1, b), DType.INT32)
    last = b.add(Transpose(perm=(0, 2, 3, 1)), [x])
    data = b.add(Unsqueeze(axes=(2,)), [b.add(Gather(axis=0), [last, which])])  # [R, H, 1, W, C]
    corners = _corners(regions, 1, op.scale, a)
    x1, y1, x2, y2 = (a.do(e.Floor(), a.add(v, 0.5)) for v in corners)
    lowest = float(np.finfo(np.float32).min)
    masks = []
    for first, end, count, extent in ((x1, x2, op.size[1], width), (y1, y2, op.size[0], height)):
        length = a.do(e.Maximum(), a.add(a.sub(end, first), 1.0), 1.0)
        size = a.do(e.Div(), length, float(count))
        steps = np.arange(count, dtype=np.float32).reshape(1, -1)
        low = a.add(a.do(e.Floor(), a.mul(size, b.const(steps))), first)
        high = a.add(a.do(e.Ceil(), a.mul(size, b.const(steps + 1))), first)
        places = b.const(np.arange(extent, dtype=np.float32))
        low, high = (b.add(Unsqueeze(axes=(2,)), [v]) for v in (low, high))
        after = a.do(e.GreaterEqual(), places, low)
        before = a.do(e.Less(), places, high)
        masks.append(a.do(e.LogicalAnd(), after, before))  # [R, bins, extent]
    columns, rows = masks
    columns = b.add(Unsqueeze(axes=(1, 4)), [columns])  # [R, 1, bins, W, 1]
    data = b.add(ReduceMax(axes=(3,)), [a.do(e.Select(), columns, data, lowest)])  # [R, H, bins, C]
    data = b.add(Unsqueeze(axes=(1,)), [data])
    rows = b.add(Unsqueeze(axes=(3, 4)), [rows])  # [R, bins, H, 1, 1]
    data = b.add(ReduceMax(axes=(2,)), [a.do(e.Select(), rows, data, lowest)])
    empty = a.do(e.LessEqual(), data, lowest)
    return [b.add(Transpose(perm=(0, 3, 1, 2)), [a.do(e.Select(), empty, 0.0, data)])]


# -------------------------------------------------------------------- moved windows


def deform_conv(node: Node, b: Builder) -> list[Value] | None:
    """DeformConv of known shapes: what the taps read, times the weights."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, s.DeformConv)
    x, weights, offset = (node.operand(i) for i in range(3))
    bias, mask = node.optional(3), node.optional(4)
    shape, filters, result = (static_shape(v.shape) for v in (x, weights, y))
    if shape is None or filters is None or result is None:
        return None
    if filters[1] * filters[2] * result[2] * result[3] > MOST_READ:
        return None
    a, (n, channels, height, width) = Arithmetic(b), shape
    count, area = filters[1] * filters[2], result[2] * result[3]
    parts, each = op.offset_groups, channels // op.offset_groups
    moves = b.add(Reshape(shape=(n, parts, count, 2, area)), [offset])
    sides = []
    for i, extent in enumerate((height, width)):
        steps = np.indices(result[2:])[i].reshape(1, -1) * op.stride[i] - op.padding.before[i]
        taps = np.indices(filters[1:3])[i].reshape(-1, 1) * op.dilation[i]
        base = b.const((steps + taps).astype(np.float32))
        place = a.add(_component(moves, i, 3, b), base)  # [N, parts, taps, area]
        place = a.within(place, -2.0, extent + 1.0)
        lower = a.do(e.Floor(), place)
        share = a.sub(place, lower)
        sides.append(
            [
                _moved_tap(lower, a.sub(1.0, share), extent, a),
                _moved_tap(a.add(lower, 1.0), share, extent, a),
            ]
        )
    split = b.add(Reshape(shape=(n * parts, each, height * width)), [x])
    rows = b.add(Reshape(shape=(-1, each)), [b.add(Transpose(perm=(0, 2, 1)), [split])])
    start = a.ints(np.arange(n * parts).reshape(n, parts, 1, 1))
    read = _read(rows, sides, (height, width), start, a)  # [N, parts, taps, area, each]
    if mask is not None:
        shares = b.add(Reshape(shape=(n, parts, count, area, 1)), [mask])
        read = a.mul(read, shares)
    read = b.add(Transpose(perm=(0, 3, 2, 1, 4)), [read])
    image = _product(op, read, weights, (n * area, count, channels), filters, bias, b)
    image = b.add(Reshape(shape=(n, *result[2:], filters[0])), [image])
    return [b.add(Transpose(perm=(0, 3, 1, 2)), [image])]


def _moved_tap(place: Value, weight: Value, extent: int, a: Arithmetic) -> _Tap:
    weight = a.mul(weight, _inside(place, extent, a))
    return _Tap(a.cast(a.within(place, 0.0, extent - 1.0), DType.INT32), weight)


def _product(
    op: s.DeformConv,
    read: Value,
    weights: Value,
    dims: tuple[int, int, int],
    filters: tuple[int, ...],
    bias: Value | None,
    b: Builder,
) -> Value:
    """What ``dims`` [places, taps, channels] read times the weights, group by group."""
    places, count, channels = dims
    depth, some = channels // op.groups, filters[0] // op.groups
    read = b.add(Reshape(shape=(places, count, channels)), [read])
    flat = reshaped(b, weights, (filters[0], count * depth))
    results = []
    for group in range(op.groups):
        part, taps, offset = read, flat, bias
        if op.groups > 1:
            part = part_of(read, 2, group * depth, depth, b)
            taps = part_of(flat, 0, group * some, some, b)
            offset = None if bias is None else part_of(bias, 0, group * some, some, b)
        part = b.add(Reshape(shape=(places, count * depth)), [part])
        results.append(b.add(FullyConnected(), [part, taps, offset]))
    return results[0] if len(results) == 1 else b.add(Concat(axis=1), results)


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    s.GridSample: (grid_sample,),
    s.AffineGrid: (affine_grid,),
    s.RoiAlign: (roi_align, mean_by_products),
    s.MaxRoiPool: (max_roi_pool,),
    s.DeformConv: (deform_conv,),
    s.Col2Im: (add_up, scatter),
}
