"""Pools that formats lack, by those that they have: other ranks, dilations, norms, places."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.conv import with_height, within_windows
from nnconv.decompositions.extents import extent, ints, shaped
from nnconv.decompositions.refit import in_floats, split_activation
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Layout, Op
from nnconv.ir.types import Dim, static_shape
from nnconv.ops import elementwise as e
from nnconv.ops import pool as p
from nnconv.ops.conv import Conv2D
from nnconv.ops.gather import Reduction, ScatterNd
from nnconv.ops.quantize import Cast
from nnconv.ops.reduce import ReduceProd, ReduceSum
from nnconv.ops.shape import Concat, Fill, Reshape, ShapeOf, Squeeze, Unsqueeze
from nnconv.ops.slices import Pad, Reverse, Slice
from nnconv.ops.spatial import Padding, spatial_dims

_Mean = p.AveragePool1D | p.AveragePool2D | p.AveragePool3D
_Pool = p.MaxPool1D | p.MaxPool2D | p.MaxPool3D | p.MaxPoolIndices | _Mean | p.LpPool

_TURNED = p.MaxPool1D | p.MaxPool2D | p.MaxPool3D | _Mean

_RAISED: dict[type[Op], type[Op]] = {
    p.MaxPool1D: p.MaxPool2D,
    p.AveragePool1D: p.AveragePool2D,
}
_PLANES: dict[type[Op], type[p.MaxPool2D | p.AveragePool2D]] = {
    p.MaxPool3D: p.MaxPool2D,
    p.AveragePool3D: p.AveragePool2D,
}
_MEANS: dict[int, type[_Mean]] = {1: p.AveragePool1D, 2: p.AveragePool2D, 3: p.AveragePool3D}


MOST_ELEMENTS = 1 << 26
"""Of a constant that a decomposition makes."""


MOST_PLACES = 1 << 8
"""Of a window, for each of which a decomposition makes a node."""


def activate_behind(node: Node, b: Builder) -> list[Value] | None:
    """A fused activation as a node of its own."""
    op = node.op
    assert isinstance(op, p.MaxPool2D | p.AveragePool2D | p.LpPool)
    return None if op.activation is Activation.NONE else split_activation(node, b)


def raise_row(node: Node, b: Builder) -> list[Value] | None:
    """MaxPool1D, AveragePool1D: as the 2-D op at a height of 1."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, p.MaxPool1D | p.AveragePool1D)
    if x.type.rank != 3:
        return None
    axis = spatial_dims(3, op.layout)[0]
    fields = op.attributes() | {
        "window": (1, *op.window),
        "stride": (1, *op.stride),
        "dilation": (1, *op.dilations),
        "padding": with_height(op.padding),
    }
    tall = b.add(Unsqueeze(axes=(axis,)), [x])
    result = b.add(_RAISED[type(op)](**fields), [tall], quant=node.outputs[0].quant)
    return [b.add(Squeeze(axes=(axis,)), [result])]


def by_planes(node: Node, b: Builder) -> list[Value] | None:
    """MaxPool3D, AveragePool3D: over height and width, then over the depth.

    The elements that windows count are a product of those in each dimension.
    """
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, p.MaxPool3D | p.AveragePool3D)
    if x.type.rank != 5 or op.layout is not Layout.NHWC:
        return None
    if x.type.has_codes and isinstance(op, p.AveragePool3D):
        return in_floats(node, b)  # means of planes need finer steps than those of the whole
    kind = _PLANES[type(op)]
    n, depth, height, width, channels = (extent(b, x, axis) for axis in range(5))
    padding, fields = op.padding, op.attributes()

    def part(cut: slice, *, tail: tuple[int, ...], activation: Activation) -> Op:
        pads = [(*entries[cut], *(0 for _ in tail)) for entries in (padding.before, padding.after)]
        sizes = {
            name: (*entries[cut], *tail)
            for name, entries in (
                ("window", op.window),
                ("stride", op.stride),
                ("dilation", op.dilations),
            )
        }
        around = Padding(pads[0], pads[1], padding.same, padding.lower)
        return kind(**(fields | sizes | {"padding": around, "activation": activation}))

    rest = ints(b, [-1])
    flat = shaped(b, x, [rest, height, width, channels])
    planes = part(slice(1, 3), tail=(), activation=Activation.NONE)
    over_planes = b.add(planes, [flat], quant=y.quant)
    tall, wide = extent(b, over_planes, 1), extent(b, over_planes, 2)
    column = shaped(b, over_planes, [n, depth, rest, channels])
    columns = part(slice(0, 1), tail=(1,), activation=op.activation)
    over_depth = b.add(columns, [column], quant=y.quant)
    return [shaped(b, over_depth, [n, rest, tall, wide, channels])]


# -------------------------------------------------------------------- windows as slices


def _around(x: Value, padding: Padding, value: float, b: Builder) -> Value:
    if padding.is_zero:
        return x
    before, after = (0, *padding.before, 0), (0, *padding.after, 0)
    if x.type.has_codes or not value:
        return b.add(Pad(before=before, after=after, value=value), [x], quant=x.quant)
    fill = b.const(np.asarray(value, x.dtype.numpy))
    return b.add(Pad(before=before, after=after), [x, None, fill], quant=x.quant)


def _places(op: _Pool, x: Value, b: Builder) -> list[Value]:
    """What of a padded channels-last ``x`` meets each place of the window."""
    found = []
    steps = (1, *op.stride, 1)
    lasts = [(size - 1) * spread for size, spread in zip(op.window, op.dilations, strict=True)]
    for place in product(*(range(size) for size in op.window)):
        starts = [p_ * spread for p_, spread in zip(place, op.dilations, strict=True)]
        ends = [start - last or None for start, last in zip(starts, lasts, strict=True)]
        cut = Slice(starts=(0, *starts, 0), ends=(None, *ends, None), strides=steps)
        found.append(b.add(cut, [x], quant=x.quant))
    return found


def max_of_slices(node: Node, b: Builder) -> list[Value] | None:
    """MaxPool2D with dilations: the greatest of what meets each place of the window."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, p.MaxPool2D)
    if x.type.rank != 4 or x.shape is None or op.layout is not Layout.NHWC:
        return None
    if op.activation is not Activation.NONE:
        return None
    padding = _numbers(op, x.shape[1:-1])
    if padding is None:
        return None
    if not padding.is_zero and x.type.has_codes:
        return None  # the lowest code has no real value that all formats agree on
    if not _is_small(op, ()):
        return None
    views = _places(op, _around(x, padding, _lowest(x.dtype), b), b)
    total = views[0]
    for view in views[1:]:
        total = b.add(e.Maximum(), [total, view], quant=y.quant)
    return [total]


def _is_small(op: _Pool, extents: tuple[int, ...]) -> bool:
    """Whether a node for each place of the window, and a constant of extents, can be had."""
    return math.prod(op.window) <= MOST_PLACES and math.prod(extents) <= MOST_ELEMENTS


def _lowest(dtype: DType) -> float:
    return -np.inf if dtype.is_float else dtype.int_range[0]


def _numbers(op: _Pool, extents: tuple[Dim, ...]) -> Padding | None:
    """Padding in numbers, with what the last windows reach into; None where it isn't known."""
    if not op.padding.same:
        return op.reached(extents)
    lower = op.padding.lower
    found = Padding.same_for(extents, op.window, op.stride, op.dilations, lower=lower)
    return None if found.same else found


def indices_of_slices(node: Node, b: Builder) -> list[Value] | None:
    """MaxPoolIndices: the first greatest of what meets each place of the window, and its place."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, p.MaxPoolIndices)
    dims, result = static_shape(x.shape), static_shape(y.shape)
    if dims is None or result is None or op.layout is not Layout.NHWC or x.type.has_codes:
        return None
    n, *extents, channels = dims
    padding = _numbers(op, tuple(extents))
    if padding is None:
        return None
    around = zip(extents, padding.before, padding.after, strict=True)
    if not _is_small(op, tuple(sum(part) for part in around)):
        return None
    size = int(np.prod(extents))
    numbers = np.arange(size, dtype=np.int64 if b.means.int64 else np.int32)
    if op.column_major:
        numbers = numbers.reshape(extents[::-1]).transpose()
    numbers = numbers.reshape(1, *extents, 1)
    places = b.const(numbers)
    edges = (0, *padding.before, 0), (0, *padding.after, 0)
    if not padding.is_zero:
        outside = np.pad(numbers, list(zip(*edges, strict=True)), constant_values=-1)
        places = b.const(outside)
    views = _places(op, _around(x, padding, _lowest(x.dtype), b), b)
    where = _places(op, places, b)
    best, at = views[0], where[0]
    for view, place in zip(views[1:], where[1:], strict=True):
        better = b.add(e.Greater(), [view, best])
        at = b.add(e.Select(), [better, place, at])
        best = b.add(e.Maximum(), [best, view])
    planes = np.arange(n * channels, dtype=numbers.dtype).reshape(n, *[1] * len(extents), channels)
    return [best, b.add(e.Add(), [at, b.const(planes * size)])]


# -------------------------------------------------------------------- means and norms


def corrected_mean(node: Node, b: Builder) -> list[Value] | None:
    """AveragePool2D: the mean with padding as zeros, times what makes up for that.

    With dilations the mean is a convolution of each channel by itself.
    """
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, p.AveragePool2D)
    dims = static_shape(None if x.shape is None else x.shape[1:])
    counts = static_shape(None if y.shape is None else y.shape[1:-1])
    if dims is None or counts is None or op.layout is not Layout.NHWC or x.type.has_codes:
        return None
    extents, channels = dims[:-1], dims[-1]
    padding = _numbers(op, extents)
    most = max(channels * math.prod(op.window), math.prod(counts))
    if padding is None or not channels or most > MOST_ELEMENTS:
        return None
    if max(op.dilations) > 1:
        filters = np.full((channels, *op.window, 1), 1 / np.prod(op.window), np.float32)
        conv = Conv2D(
            layout=op.layout,
            stride=op.stride,
            dilation=op.dilations,
            padding=padding,
            groups=channels,
        )
        mean = b.add(conv, [x, b.const(filters.astype(x.dtype.numpy)), None])
    else:
        whole = op.replace(padding=padding, ceil=False, count_padding=True, dilation=())
        mean = b.add(whole, [x])
    factors = np.ones((1, *counts, 1))
    for i, along in enumerate(extents):
        counted = _counted(op, i, along, counts[i], _edges(op, extents, i))
        shape = [1] * 4
        shape[1 + i] = counts[i]
        factors = factors * (op.window[i] / np.maximum(counted, 1)).reshape(shape)
    if np.any(factors != 1):
        mean = b.add(e.Mul(), [mean, b.const(factors.astype(x.dtype.numpy))])
    return [mean]


def pad_before_mean(node: Node, b: Builder) -> list[Value] | None:
    """AveragePool2D whose padding counts in the mean: of what is padded before."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, p.AveragePool2D)
    padding = op.padding
    if not op.count_padding or padding.same or padding.is_zero or op.ceil:
        return None
    if op.layout is not Layout.NHWC or max(op.dilations) > 1:
        return None
    pad = Pad(before=(0, *padding.before, 0), after=(0, *padding.after, 0))
    padded = b.add(pad, [x], quant=x.quant)
    plain = op.replace(padding=Padding.none(), count_padding=False)
    return [b.add(plain, [padded], quant=y.quant)]


def mean_at_run_time(node: Node, b: Builder) -> list[Value] | None:
    """AveragePool2D of open extents: the mean with padding as zeros, over that of ones.

    Where SAME padding counts: the mean of what is inside, times which part of the window that is.
    """
    op, x = node.op, node.operand(0)
    assert isinstance(op, p.AveragePool2D)
    if x.shape is None or len(x.shape) != 4 or op.layout is not Layout.NHWC:
        return None
    padding = _numbers(op, x.shape[1:-1])
    if max(op.dilations) > 1 or x.type.has_codes or op.padding.lower:
        return None
    if op.count_padding is not op.padding.same or math.prod(op.window) > MOST_ELEMENTS:
        return None
    sizes = b.add(ShapeOf(dtype=DType.INT32, dims=(1, 2)), [x])
    one = b.const(np.ones(1, np.int32))
    shape = b.add(Concat(axis=0), [one, sizes, one])
    ones = b.add(Fill(shape=None), [b.const(_one(x, 1)), shape])
    if op.padding.same:
        taps = b.const(np.full((1, *op.window, 1), 1 / np.prod(op.window)).astype(x.dtype.numpy))
        sums = Conv2D(layout=op.layout, stride=op.stride, dilation=(1, 1), padding=op.padding)
        share = b.add(sums, [ones, taps, None])
        mean = b.add(op.replace(count_padding=False, ceil=False), [x])
        return [b.add(e.Mul(), [mean, share])]
    if padding is None:
        return None
    whole = op.replace(padding=padding, ceil=False, count_padding=True, dilation=())
    mean, share = (b.add(whole, [data]) for data in (x, ones))
    return [b.add(e.Div(), [mean, share])]


def turn_round(node: Node, b: Builder) -> list[Value] | None:
    """SAME padding of open extents with the odd element first: the op on what is turned round."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, _TURNED)
    if not (op.padding.same and op.padding.lower) or x.shape is None:
        return None
    axes = tuple(spatial_dims(len(x.shape), op.layout))
    padding = Padding(op.padding.before, op.padding.after, same=True)
    reach = [(n - 1) * spread + 1 for n, spread in zip(op.window, op.dilations, strict=True)]
    data = within_windows(b, x, axes, reach, op.stride)
    turned = b.add(Reverse(axes=axes), [data], quant=x.quant)
    result = b.add(op.replace(padding=padding), [turned], quant=y.quant)
    return [b.add(Reverse(axes=axes), [result], quant=y.quant)]


def _edges(op: p.AveragePool2D, extents: tuple[int, ...], i: int) -> tuple[int, int]:
    """The padding of one dimension that counts, before and after."""
    if not op.padding.same:
        return op.padding.before[i], op.padding.after[i]
    padding = _numbers(op, extents)
    assert padding is not None
    return padding.before[i], padding.after[i]


def _counted(
    op: p.AveragePool2D, i: int, extent: int, count: int, edges: tuple[int, int]
) -> np.ndarray:
    """How many elements of one dimension each window counts: [count]."""
    before, after = edges
    starts = np.arange(count) * op.stride[i] - before
    places = starts[:, None] + np.arange(op.window[i]) * op.dilations[i]
    low, high = (-before, extent + after) if op.count_padding else (0, extent)
    return np.asarray(((places >= low) & (places < high)).sum(axis=1))


def _powers(x: Value, order: int, b: Builder) -> Value:
    if order == 2:
        return b.add(e.Mul(), [x, x])
    size = b.add(e.Abs(), [x])
    return size if order == 1 else b.add(e.Pow(), [size, b.const(_one(x, order))])


def _root(x: Value, order: int, b: Builder) -> Value:
    if order == 1:
        return x
    if order == 2:
        return b.add(e.Sqrt(), [x])
    return b.add(e.Pow(), [x, b.const(_one(x, 1 / order))])


def _one(like: Value, number: float) -> np.ndarray:
    return np.asarray(number, like.dtype.numpy)


def norm_by_mean(node: Node, b: Builder) -> list[Value] | None:
    """LpPool: the root of a multiple of the mean of powers."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, p.LpPool)
    rank = len(op.window)
    extents = () if x.shape is None else x.shape[1:-1]
    padding = op.reached(extents)
    known = static_shape(extents)
    if padding is None or len(extents) != rank or op.layout is not Layout.NHWC:
        return None
    if padding.same and known is not None:
        padding = _numbers(op, known) or padding
    mean = _MEANS[rank](
        layout=op.layout,
        window=op.window,
        stride=op.stride,
        padding=padding,
        dilation=op.dilation,
        count_padding=True,
    )
    total = b.add(mean, [_powers(x, op.p, b)])
    size = b.const(_one(x, int(np.prod(op.window))))
    result = _root(b.add(e.Mul(), [total, size]), op.p, b)
    assert result.type.rank == y.type.rank
    return [result]


def root_of_mean(node: Node, b: Builder) -> list[Value] | None:
    """L2Pool2D: the root of the mean of squares."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, p.L2Pool2D)
    if op.activation is not Activation.NONE:
        return split_activation(node, b)
    mean = p.AveragePool2D(
        layout=op.layout,
        window=op.window,
        stride=op.stride,
        padding=op.padding,
        dilation=op.dilation,
        ceil=op.ceil,
    )
    return [b.add(e.Sqrt(), [b.add(mean, [b.add(e.Mul(), [x, x])])])]


def global_norm(node: Node, b: Builder) -> list[Value] | None:
    """GlobalLpPool: the root of the sum of powers."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, p.GlobalLpPool)
    if x.shape is None:
        return None
    axes = tuple(spatial_dims(len(x.shape), op.layout))
    total = b.add(ReduceSum(axes=axes, keep_dims=True), [_powers(x, op.p, b)])
    return [_root(total, op.p, b)]


def scattered(node: Node, b: Builder) -> list[Value] | None:
    """MaxUnpool: sums of what meets in one place, over how many that are: they are equal."""
    op, (x, places, *_), y = node.op, node.inputs, node.outputs[0]
    assert isinstance(op, p.MaxUnpool)
    assert x is not None
    assert places is not None
    shape, count = static_shape(y.shape), static_shape(x.shape)
    given = node.optional(2)
    if count is None or (shape is None and given is None):
        return None
    if math.prod(shape or ()) > MOST_ELEMENTS:
        return None
    values = b.add(Reshape(shape=(-1,)), [x])
    index = b.add(Reshape(shape=(-1, 1)), [b.add(Cast(dtype=DType.INT32), [places])])
    if shape is None:
        assert given is not None
        size = b.add(Cast(dtype=DType.INT32), [given])
        total = b.add(ReduceProd(axes=(0,), keep_dims=True), [size])
        zeros = b.add(Fill(shape=None), [b.const(_one(x, 0)), total])
    else:
        zeros = b.const(np.zeros(int(np.prod(shape)), x.dtype.numpy))
    ones = b.const(np.ones(int(np.prod(count)), x.dtype.numpy))
    scatter = ScatterNd(reduction=Reduction.ADD)
    sums, numbers = (b.add(scatter, [zeros, index, part]) for part in (values, ones))
    most = b.add(e.Maximum(), [numbers, b.const(_one(x, 1))])
    result = b.add(e.Div(), [sums, most])
    if shape is None:
        return [b.add(Reshape(shape=None), [result, size])]
    return [b.add(Reshape(shape=shape), [result])]


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    p.MaxPool1D: (turn_round, raise_row),
    p.MaxPool2D: (turn_round, activate_behind, max_of_slices),
    p.MaxPool3D: (turn_round, by_planes),
    p.MaxPoolIndices: (indices_of_slices,),
    p.AveragePool1D: (turn_round, raise_row),
    p.AveragePool2D: (
        turn_round,
        activate_behind,
        pad_before_mean,
        corrected_mean,
        mean_at_run_time,
    ),  # fmt: skip,
    p.AveragePool3D: (turn_round, by_planes),
    p.L2Pool2D: (root_of_mean,),
    p.LpPool: (activate_behind, norm_by_mean),
    p.GlobalLpPool: (global_norm,),
    p.MaxUnpool: (scattered,),
}
