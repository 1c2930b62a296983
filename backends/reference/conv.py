"""Convolutions by their definition: matrix products for the places of the filter."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TypeAlias

import numpy as np
from nnconv.backends.reference.elementwise import activate
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Layout, Op
from nnconv.ops import conv as c
from nnconv.ops.spatial import Padding


def channels_last(x: Array, layout: Layout) -> Array:
    """X with its channels last."""
    return x if layout is Layout.NHWC else np.moveaxis(x, 1, -1)


def in_layout(x: Array, layout: Layout) -> Array:
    """A channels-last x in ``layout``."""
    return x if layout is Layout.NHWC else np.moveaxis(x, -1, 1)


def resolve(
    padding: Padding,
    extents: tuple[int, ...],
    window: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Padding:
    """The padding in numbers, now that the extents are known."""
    if not padding.same:
        return padding
    return Padding.same_for(extents, window, stride, dilation, lower=padding.lower)


def pad_spatial(x: Array, padding: Padding, value: float = 0.0) -> Array:
    """A channels-last x with ``value`` put around its spatial dimensions."""
    pads = [(0, 0), *zip(padding.before, padding.after, strict=True), (0, 0)]
    return np.pad(x, pads, constant_values=value)


Views: TypeAlias = "Iterator[tuple[tuple[int, ...], Array]]"
"""Places in a window, each with the elements that meet it."""


def window_views(
    x: Array, window: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> Views:
    """For each place in the window: the elements of a padded channels-last x that meet it."""
    extents = x.shape[1:-1]
    counts = [
        (extent - (size - 1) * spread - 1) // step + 1
        for extent, size, step, spread in zip(extents, window, stride, dilation, strict=True)
    ]
    for place in product(*(range(size) for size in window)):
        cuts = tuple(
            slice(p * spread, p * spread + (count - 1) * step + 1, step)
            for p, spread, count, step in zip(place, dilation, counts, stride, strict=True)
        )
        yield place, x[(slice(None), *cuts)]


def convolve(
    op: c.Conv1D | c.Conv2D | c.Conv3D | c.ConvInteger,
    x: Array,
    weights: Array,
    bias: Array | None = None,
) -> list[Array]:
    """Conv1D, Conv2D, Conv3D."""
    data = channels_last(x, op.layout)
    window = weights.shape[1:-1]
    padding = resolve(op.padding, data.shape[1:-1], window, op.stride, op.dilation)
    data = pad_spatial(data, padding)
    views = window_views(data, window, op.stride, op.dilation)
    result = _sums(views, weights) if op.groups == 1 else _grouped_sums(views, weights, op.groups)
    if bias is not None:
        result = result + bias
    return [activate(in_layout(result, op.layout), op.activation)]


_MOST_GATHERED = 1 << 22
"""So many elements are gathered for a product at most, but for those of one place."""


def _sums(views: Views, weights: Array) -> Array:
    """What filters make of the elements that they meet: a product for some places at once."""
    filters, depth = weights.shape[0], weights.shape[-1]
    turned = np.moveaxis(weights, 0, -1)  # [window..., depth, filters]
    total: Array | None = None
    waiting = list(views)
    most = max(1, _MOST_GATHERED // max(1, waiting[0][1].size)) if depth < _FEW else 1
    for start in range(0, len(waiting), most):
        some = waiting[start : start + most]
        gathered = np.concatenate([view for _, view in some], axis=-1)
        taps = np.concatenate([turned[place] for place, _ in some])
        rows = gathered.reshape(-1, len(some) * depth)
        term = np.matmul(rows, taps).reshape(*gathered.shape[:-1], filters)
        total = term if total is None else total + term
    assert total is not None
    return total


_FEW = 64
"""Of fewer channels, a place alone makes a product of too little."""


def _grouped_sums(views: Views, weights: Array, groups: int) -> Array:
    """The same for filters that meet their group's channels alone."""
    filters, depth = weights.shape[0], weights.shape[-1]
    grouped = weights.reshape(groups, filters // groups, *weights.shape[1:])
    total: Array | None = None
    for place, view in views:
        parts = view.reshape(*view.shape[:-1], groups, depth)
        taps = np.moveaxis(grouped, (0, 1), (-3, -2))[place]
        if depth == 1:
            term = parts * taps[..., 0]
        else:  # [..., groups, 1, depth] x [groups, depth, filters] -> [..., groups, 1, filters]
            term = np.matmul(parts[..., None, :], taps.transpose(0, 2, 1))[..., 0, :]
        total = term if total is None else total + term
    assert total is not None
    return total.reshape(*total.shape[:-2], filters)


def convolve_integers(
    op: c.ConvInteger,
    x: Array,
    weights: Array,
    x_zero_point: Array | None = None,
    weights_zero_point: Array | None = None,
) -> list[Array]:
    """ConvInteger."""
    data, filters = x.astype(np.int32), weights.astype(np.int32)
    if x_zero_point is not None:
        data = data - x_zero_point.astype(np.int32).reshape(())
    if weights_zero_point is not None:
        points = weights_zero_point.astype(np.int32)
        filters = filters - points.reshape([-1] + [1] * (weights.ndim - 1))
    return convolve(op, data, filters)


def convolve_transposed(
    op: c.ConvTranspose1D | c.ConvTranspose2D | c.ConvTranspose3D,
    x: Array,
    weights: Array,
    bias: Array | None = None,
) -> list[Array]:
    """ConvTranspose1D to ConvTranspose3D: each element adds its multiple of the filter."""
    data = channels_last(x, op.layout)
    window = weights.shape[1:-1]
    op = op.sized(data.shape[1:-1], window)
    rank = len(window)
    extents = [
        (data.shape[1 + i] - 1) * op.stride[i]
        + (window[i] - 1) * op.dilation[i]
        + 1
        + op.output_padding[i]
        for i in range(rank)
    ]
    per_group, depth = weights.shape[0], weights.shape[-1] // op.groups
    filters = per_group * op.groups
    dtype = np.result_type(data, weights)
    full = np.zeros((data.shape[0], *extents, filters), dtype)
    for place in product(*(range(size) for size in window)):
        cuts = tuple(
            slice(
                p * op.dilation[i],
                p * op.dilation[i] + (data.shape[1 + i] - 1) * op.stride[i] + 1,
                op.stride[i],
            )
            for i, p in enumerate(place)
        )
        taps = np.moveaxis(weights, 0, -2)[place]  # [filters per group, channels]
        for group in range(op.groups):
            ins = slice(group * depth, (group + 1) * depth)
            outs = slice(group * per_group, (group + 1) * per_group)
            full[(slice(None), *cuts, outs)] += data[..., ins] @ taps[:, ins].T
    cut = tuple(
        slice(before, extent - after)
        for before, after, extent in zip(op.padding.before, op.padding.after, extents, strict=True)
    )
    result = full[(slice(None), *cut)]
    if bias is not None:
        result = result + bias
    return [activate(in_layout(result, op.layout), op.activation)]


KERNELS: dict[type[Op], Kernel] = {
    c.Conv1D: convolve,
    c.Conv2D: convolve,
    c.Conv3D: convolve,
    c.ConvInteger: convolve_integers,
    c.ConvTranspose1D: convolve_transposed,
    c.ConvTranspose2D: convolve_transposed,
    c.ConvTranspose3D: convolve_transposed,
}
