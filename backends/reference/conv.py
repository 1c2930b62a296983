"""Convolutions by their definition: one matrix product for each place of the filter."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

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


def window_views(
    x: Array, window: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], Array]]:
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
    filters, depth = weights.shape[0], weights.shape[-1]
    grouped = weights.reshape(op.groups, filters // op.groups, *window, depth)
    total: Array | None = None
    for place, view in window_views(data, window, op.stride, op.dilation):
        parts = view.reshape(*view.shape[:-1], op.groups, depth)
        taps = np.moveaxis(grouped, (0, 1), (-3, -2))[place]
        # [..., groups, 1, depth] x [groups, depth, filters] -> [..., groups, 1, filters]
        term = np.matmul(parts[..., None, :], taps.transpose(0, 2, 1))[..., 0, :]
        total = term if total is None else total + term
    assert total is not None
    result = total.reshape(*total.shape[:-2], filters)
    if bias is not None:
        result = result + bias
    return [activate(in_layout(result, op.layout), op.activation)]


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
