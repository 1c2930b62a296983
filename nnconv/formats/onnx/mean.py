"""Means over windows as depthwise convolutions, which have a far quicker kernel.

On codes always; on floats unless channels come in blocks of 16, which the pool's kernel needs.

A window that reaches into padding has a smaller count, and padding doesn't count in TFLite. So
the result is cut into regions of equal windows: the inner one, and the edges and corners, each with
its own convolution. On floats it is multiplied by what the count lacks instead.
"""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

import numpy as np

from nnconv.formats.onnx.exporter import Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.quant import Quant
from nnconv.ops.pool import AveragePool2D
from nnconv.ops.spatial import Padding

BLOCK = 16
"""Channels that onnxruntime's float pools take at once; they are 3 to 10 times slower on others."""

MOST_REGIONS = 3
"""In each direction: the inner one and an edge at each side."""


class Region(NamedTuple):
    """Result elements of one direction whose windows cover equally many elements.

    Attributes:
        begin, end: what their windows cover together.
        window: how many elements each covers.
        stride: how far the windows are apart.
    """

    begin: int
    end: int
    window: int
    stride: int


def regions(extent: int, window: int, stride: int, before: int, after: int) -> list[Region]:
    """The regions of one direction, in order."""
    count = (extent + before + after - window) // stride + 1
    covers = []
    for i in range(count):
        start = i * stride - before
        covers.append((max(start, 0), min(start + window, extent)))
    found = []
    # beside a border, equal windows that begin at the same place aren't a stride apart
    for _, group in groupby(
        enumerate(covers), lambda c: (c[1][1] - c[1][0], c[1][0] - c[0] * stride)
    ):
        members = [cover for _, cover in group]
        begin, end = members[0][0], members[-1][1]
        found.append(Region(begin, end, members[0][1] - members[0][0], stride))
    return found


def mean_codes(op: AveragePool2D, x: Value, y: Value, t: Target) -> str | None:
    """The codes of a mean that leaves padding out; None where it would be cut up too much."""
    assert x.shape is not None
    assert not op.padding.same
    channels, *extents = x.shape[1:]
    if not isinstance(channels, int):
        return None
    cuts = []
    for i, extent in enumerate(extents):
        if not isinstance(extent, int) or extent == 0:
            return None
        parts = regions(
            extent, op.window[i], op.stride[i], op.padding.before[i], op.padding.after[i]
        )
        if len(parts) > MOST_REGIONS or not all(part.window for part in parts):
            return None
        cuts.append(parts)
    rows = []
    for row in cuts[0]:
        pieces = [_region(x, y, row, column, t) for column in cuts[1]]
        rows.append(pieces[0] if len(pieces) == 1 else t.node("Concat", pieces, axis=3))
    return rows[0] if len(rows) == 1 else t.node("Concat", rows, axis=2)


def _region(x: Value, y: Value, row: Region, column: Region, t: Target) -> str:
    assert x.shape is not None
    codes, whole = t.codes(x), (x.shape[2], x.shape[3])
    if (row.end - row.begin, column.end - column.begin) != whole:
        bounds = [[row.begin, column.begin], [row.end, column.end], [2, 3]]
        codes = t.node("Slice", [codes, *(t.const(bound) for bound in bounds)])
    real = t.dequantize(codes, t.inner_quant(x), t.inner_type(x))
    window, stride = (row.window, column.window), (row.stride, column.stride)
    channels = x.shape[1]
    assert isinstance(channels, int)
    mean = mean_convolution(channels, window, stride, real, t)
    return t.quantize(mean, t.inner_quant(y), t.inner_type(y))


def float_mean(op: AveragePool2D, x: Value, t: Target) -> str | None:
    """The mean of floats; None where the pool's own kernel does as well or extents aren't known."""
    if x.dtype is not DType.FLOAT32 or x.quant is not None or x.shape is None or op.padding.same:
        return None
    channels, *extents = x.shape[1:]
    if not isinstance(channels, int) or channels % BLOCK == 0:
        return None
    kernel = np.full((channels, 1, *op.window), 1 / np.prod(op.window), np.float32)
    pads = (*op.padding.before, *op.padding.after)
    inputs = [t.real(x), t.const(kernel)]
    counts: np.ndarray = np.ones((1, 1, 1, 1), np.float32)
    if not op.padding.is_zero and not op.count_padding:
        for i, extent in enumerate(extents):
            if not isinstance(extent, int) or extent == 0:
                return None
            covered = _covered(
                extent, op.window[i], op.stride[i], op.padding.before[i], op.padding.after[i]
            )
            if not covered.all():
                return None
            shape = (1, 1, -1, 1) if i == 0 else (1, 1, 1, -1)
            counts = counts * (np.float32(op.window[i]) / covered).reshape(shape)
    mean = t.node("Conv", inputs, strides=op.stride, group=channels, pads=pads)
    return mean if counts.size == 1 else t.node("Mul", [mean, t.const(counts)])


def _covered(extent: int, window: int, stride: int, before: int, after: int) -> np.ndarray:
    """How many elements each window of one direction covers."""
    count = (extent + before + after - window) // stride + 1
    starts = np.arange(count) * stride - before
    ends = np.minimum(starts + window, extent)
    return (ends - np.maximum(starts, 0)).astype(np.float32)


def mean_convolution(
    channels: int,
    window: tuple[int, ...],
    stride: tuple[int, ...],
    x: str,
    t: Target,
    padding: Padding | None = None,
) -> str:
    """The mean as a depthwise convolution whose weights are the code 1 at scale 1 / count.

    Padding counts as zeros.
    """
    ones = t.const(np.ones((channels, 1, *window), np.int8))
    weights = t.dequantize(ones, Quant.per_tensor(1 / np.prod(window)), DType.INT8)
    pads = None if padding is None else (*padding.before, *padding.after)
    return t.node("Conv", [x, weights], strides=stride, group=channels, pads=pads)
