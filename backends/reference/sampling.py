"""Ops that read images at computed places, by their definition."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel, flat

from nnconv.ir.op import Op
from nnconv.ops import sampling as s

_Taps: TypeAlias = list[tuple[Array, Array]]
"""Indices and weights along one dimension."""


def _reflected(places: Array, low: float, high: float) -> Array:
    span = high - low
    if span <= 0:
        return np.zeros_like(places)
    away = np.abs(places - low) % (2 * span)
    return low + np.where(away > span, 2 * span - away, away)


def _taps(op: s.GridSample, places: Array, extent: int) -> _Taps:
    """What is read along one dimension; indices may lie outside."""
    if op.mode is s.Sampling.NEAREST:
        return [(places.astype(np.int64), np.ones_like(places))]
    lower = np.floor(places)
    share, index = places - lower, lower.astype(np.int64)
    if op.mode is s.Sampling.LINEAR:
        return [(index, 1 - share), (index + 1, share)]
    a = -0.75
    taps = []
    for offset in (-1, 0, 1, 2):
        d = np.abs(share - offset)
        if offset in (0, 1):
            weight = ((a + 2) * d - (a + 3)) * d * d + 1
        else:
            weight = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        taps.append((index + offset, weight))
    return taps


def _settled(op: s.GridSample, index: Array, weight: Array, extent: int) -> tuple[Array, Array]:
    """Indices inside; weights of 0 for what counts nothing."""
    if op.beyond is s.Beyond.ZEROS:
        inside = (index >= 0) & (index < extent)
        weight = np.where(inside, weight, 0)
    elif op.beyond is s.Beyond.REFLECTION:
        mirrored = _reflected(index.astype(np.float64), *op.edges(extent)).astype(np.int64)
        index = np.where((index < 0) | (index >= extent), mirrored, index)
    return np.clip(index, 0, extent - 1), weight


def grid_sample(op: s.GridSample, x: Array, grid: Array) -> list[Array]:
    """GridSample."""
    extents, count = x.shape[2:], x.ndim - 2
    sides: list[_Taps] = []
    for i, extent in enumerate(extents):
        place = np.nan_to_num(grid[..., count - 1 - i].astype(np.float64))
        if op.align_corners:
            place = (place + 1) / 2 * (extent - 1)
        else:
            place = ((place + 1) * extent - 1) / 2
        if op.mode is s.Sampling.NEAREST:
            place = np.rint(place)
        low, high = op.edges(extent)
        out = (place < low) | (place > high)
        if op.mode is s.Sampling.CUBIC:
            out = np.zeros_like(out)  # the neighbours themselves are brought inside
        if op.beyond is s.Beyond.BORDER:
            place = np.where(out, np.clip(place, 0, extent - 1), place)
        elif op.beyond is s.Beyond.REFLECTION:
            place = np.where(out, _reflected(place, low, high), place)
        place = np.clip(place, -1e9, 1e9)
        taps = _taps(op, place, extent)
        sides.append([_settled(op, index, weight, extent) for index, weight in taps])
    return [_weighted(x, sides)]


def _weighted(x: Array, sides: Sequence[_Taps]) -> Array:
    """The sum over all combinations of taps: x [N, C, spatial...] at places [N, result...]."""
    channels_last = np.moveaxis(x, 1, -1)
    shape = sides[0][0][0].shape
    batch = np.arange(x.shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    total = np.zeros((*shape, x.shape[1]), np.float64)
    for combination in product(*sides):
        weight = np.ones(shape)
        for _, part in combination:
            weight = weight * part
        total += channels_last[(batch, *(index for index, _ in combination))] * weight[..., None]
    return np.moveaxis(total, -1, 1).astype(x.dtype)


def affine_grid(op: s.AffineGrid, theta: Array, size: Array | None = None) -> list[Array]:
    """AffineGrid."""
    extents = list(op.size if op.size is not None else flat(size))[2:]
    sides = []
    for extent in extents:
        steps = np.arange(extent, dtype=np.float64)
        if op.align_corners:
            side = steps * 2 / (extent - 1) - 1 if extent > 1 else steps * 0 - 1
        else:
            side = (2 * steps + 1) / extent - 1
        sides.append(side)
    grids = np.meshgrid(*sides, indexing="ij")
    points = np.stack([*reversed(grids), np.ones_like(grids[0])], axis=-1)
    places = np.einsum("...j,nij->n...i", points, theta.astype(np.float64))
    return [places.astype(theta.dtype)]


# -------------------------------------------------------------------- regions


def _read(image: Array, ys: Array, xs: Array) -> tuple[Array, Array]:
    """Values and weights of the four neighbours of points: [4, C, ...], [4, ...]."""
    height, width = image.shape[1:]
    outside = (ys < -1) | (ys > height) | (xs < -1) | (xs > width)
    ys, xs = np.maximum(ys, 0), np.maximum(xs, 0)
    y0, x0 = np.floor(ys).astype(np.int64), np.floor(xs).astype(np.int64)
    ys, xs = np.where(y0 >= height - 1, height - 1, ys), np.where(x0 >= width - 1, width - 1, xs)
    y0, x0 = np.clip(y0, 0, height - 1), np.clip(x0, 0, width - 1)
    y1, x1 = np.minimum(y0 + 1, height - 1), np.minimum(x0 + 1, width - 1)
    ly, lx = ys - y0, xs - x0
    weights = np.stack([(1 - ly) * (1 - lx), (1 - ly) * lx, ly * (1 - lx), ly * lx])
    values = np.stack([image[:, y0, x0], image[:, y0, x1], image[:, y1, x0], image[:, y1, x1]])
    return values, np.where(outside, 0, weights)


def roi_align(op: s.RoiAlign, x: Array, regions: Array, images: Array) -> list[Array]:
    """RoiAlign."""
    tall, wide = op.size
    result = np.zeros((len(regions), x.shape[1], tall, wide), np.float64)
    shift = 0.5 if op.half_pixel else 0.0
    for number, (region, which) in enumerate(zip(regions, images.reshape(-1), strict=True)):
        x1, y1, x2, y2 = region.astype(np.float64) * op.scale - shift
        width, height = x2 - x1, y2 - y1
        if not op.half_pixel:
            width, height = max(width, 1.0), max(height, 1.0)
        bin_h, bin_w = height / tall, width / wide
        rows = op.samples or int(np.ceil(bin_h))
        columns = (op.samples if op.across is None else op.across) or int(np.ceil(bin_w))
        if rows < 1 or columns < 1:
            continue
        ys = y1 + (np.arange(tall)[:, None] + (np.arange(rows) + 0.5) / rows) * bin_h
        xs = x1 + (np.arange(wide)[:, None] + (np.arange(columns) + 0.5) / columns) * bin_w
        values, weights = _read(
            x[int(which)],
            ys[:, None, :, None],
            np.broadcast_to(xs[None, :, None, :], (1, *_grid(xs))),
        )
        points = values * weights[:, None]
        if op.greatest:
            result[number] = points.max(axis=(0, -2, -1))
        else:
            result[number] = points.sum(axis=0).mean(axis=(-2, -1))
    return [result.astype(x.dtype)]


def _grid(xs: Array) -> tuple[int, ...]:
    return (xs.shape[0], 1, xs.shape[1])


def max_roi_pool(op: s.MaxRoiPool, x: Array, regions: Array) -> list[Array]:
    """MaxRoiPool."""
    tall, wide = op.size
    height, width = x.shape[2:]
    result = np.zeros((len(regions), x.shape[1], tall, wide), x.dtype)
    for number, region in enumerate(regions):
        x1, y1, x2, y2 = (int(np.floor(v * op.scale + 0.5)) for v in region[1:].astype(np.float64))
        bins_h = _bins(y1, max(y2 - y1 + 1, 1), tall, height)
        bins_w = _bins(x1, max(x2 - x1 + 1, 1), wide, width)
        image = x[int(region[0])]
        for i, rows in enumerate(bins_h):
            for j, columns in enumerate(bins_w):
                part = image[:, rows, columns]
                if part.size:
                    result[number, :, i, j] = part.max(axis=(1, 2))
    return [result]


def _bins(start: int, length: int, count: int, extent: int) -> list[slice]:
    size = np.float32(length) / np.float32(count)
    firsts = [int(np.floor(np.float32(i) * size)) for i in range(count)]
    lasts = [int(np.ceil(np.float32(i + 1) * size)) for i in range(count)]
    bounds = zip(firsts, lasts, strict=True)
    return [
        slice(min(max(a + start, 0), extent), min(max(b + start, 0), extent)) for a, b in bounds
    ]


# -------------------------------------------------------------------- moved windows


def deform_convolve(
    op: s.DeformConv,
    x: Array,
    weights: Array,
    offset: Array,
    bias: Array | None = None,
    mask: Array | None = None,
) -> list[Array]:
    """DeformConv."""
    n, channels, height, width = x.shape
    filters, kh, kw, depth = weights.shape
    oh, ow = offset.shape[2:]
    moves = offset.reshape(n, op.offset_groups, kh, kw, 2, oh, ow).astype(np.float64)
    shares = None if mask is None else mask.reshape(n, op.offset_groups, kh, kw, oh, ow)
    each = channels // op.offset_groups
    per_group = filters // op.groups
    total = np.zeros((n, filters, oh, ow), np.float64)
    rows = np.arange(oh)[:, None] * op.stride[0] - op.padding.before[0]
    columns = np.arange(ow) * op.stride[1] - op.padding.before[1]
    for i, j in product(range(kh), range(kw)):
        parts = []
        for group in range(op.offset_groups):
            ys = rows + i * op.dilation[0] + moves[:, group, i, j, 0]
            xs = columns + j * op.dilation[1] + moves[:, group, i, j, 1]
            image = x[:, group * each : (group + 1) * each]
            sides = [_inside(ys, height), _inside(xs, width)]
            part = _weighted(image.astype(np.float64), sides)
            parts.append(part if shares is None else part * shares[:, group, None, i, j])
        read = np.concatenate(parts, axis=1).reshape(n, op.groups, depth, oh, ow)
        taps = weights[:, i, j].reshape(op.groups, per_group, depth).astype(np.float64)
        total += np.einsum("ngchw,goc->ngohw", read, taps).reshape(n, filters, oh, ow)
    if bias is not None:
        total += bias.reshape(1, -1, 1, 1)
    return [total.astype(x.dtype)]


def _inside(places: Array, extent: int) -> _Taps:
    lower = np.floor(places)
    share, index = places - lower, lower.astype(np.int64)
    return [
        (np.clip(at, 0, extent - 1), np.where((at >= 0) & (at < extent), weight, 0))
        for at, weight in ((index, 1 - share), (index + 1, share))
    ]


def col2im(
    op: s.Col2Im, x: Array, image: Array | None = None, block: Array | None = None
) -> list[Array]:
    """Col2Im."""
    extents = list(op.image) if op.image is not None else flat(image)
    window = list(op.block) if op.block is not None else flat(block)
    rank = len(extents)
    full = [
        n + before + after
        for n, before, after in zip(extents, op.padding.before, op.padding.after, strict=True)
    ]
    counts = [
        (full[i] - (window[i] - 1) * op.dilation[i] - 1) // op.stride[i] + 1 for i in range(rank)
    ]
    channels = x.shape[1] // int(np.prod(window))
    parts = x.reshape(x.shape[0], channels, *window, *counts)
    total = np.zeros((x.shape[0], channels, *full), x.dtype)
    for place in product(*(range(size) for size in window)):
        cuts = tuple(
            slice(p * d, p * d + (count - 1) * step + 1, step)
            for p, d, count, step in zip(place, op.dilation, counts, op.stride, strict=True)
        )
        cut: tuple[Any, ...] = (slice(None), slice(None), *cuts)
        at: tuple[Any, ...] = (slice(None), slice(None), *place)
        total[cut] += parts[at]
    keep = tuple(
        slice(before, before + n) for before, n in zip(op.padding.before, extents, strict=True)
    )
    return [total[(slice(None), slice(None), *keep)]]


KERNELS: dict[type[Op], Kernel] = {
    s.GridSample: grid_sample,
    s.AffineGrid: affine_grid,
    s.RoiAlign: roi_align,
    s.MaxRoiPool: max_roi_pool,
    s.DeformConv: deform_convolve,
    s.Col2Im: col2im,
}
