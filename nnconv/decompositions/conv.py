"""Convolutions that formats lack, by those that they have: other ranks, groups, integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.decompositions.arithmetic import Arithmetic
from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.extents import FAR, extent, ints, joined
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import FLOATS, DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Layout, Op
from nnconv.ir.types import element_count, static_shape
from nnconv.ops import conv as c
from nnconv.ops.elementwise import Add, FloorDiv, Maximum, Mul, Sub
from nnconv.ops.quantize import Cast
from nnconv.ops.rewrite import reshaped
from nnconv.ops.shape import Concat, Reshape, ShapeOf, Squeeze, Transpose, Unsqueeze
from nnconv.ops.slices import Pad, Reverse, Slice
from nnconv.ops.spatial import Padding, spatial_dims
from nnconv.ops.window import Dilate

_Transposed = c.ConvTranspose1D | c.ConvTranspose2D | c.ConvTranspose3D

_DIRECT: dict[type[Op], type[c.Conv1D | c.Conv2D | c.Conv3D]] = {
    c.ConvTranspose1D: c.Conv1D,
    c.ConvTranspose2D: c.Conv2D,
    c.ConvTranspose3D: c.Conv3D,
}
_RAISED: dict[type[Op], type[Op]] = {
    c.Conv1D: c.Conv2D,
    c.ConvTranspose1D: c.ConvTranspose2D,
}


def with_height(padding: Padding) -> Padding:
    """A 1-D padding with nothing around a height in front."""
    return Padding((0, *padding.before), (0, *padding.after), padding.same, padding.lower)


def _operands(node: Node) -> tuple[Value, Value, Value | None]:
    x, weights, bias = node.operand(0), node.operand(1), node.optional(2)
    return x, weights, bias


def raise_row(node: Node, b: Builder) -> list[Value] | None:
    """Conv1D, ConvTranspose1D: as the 2-D op at a height of 1."""
    op = node.op
    assert isinstance(op, c.Conv1D | c.ConvTranspose1D)
    x, weights, bias = _operands(node)
    shape = static_shape(weights.shape)
    if x.type.rank != 3 or shape is None:
        return None
    axis = spatial_dims(3, op.layout)[0]
    fields = op.attributes() | {
        "stride": (1, *op.stride),
        "dilation": (1, *op.dilation),
        "padding": with_height(op.padding),
    }
    if isinstance(op, c.ConvTranspose1D):
        fields["output_padding"] = (0, *op.output_padding)
        fields["size"] = None if op.size is None else (1, *op.size)
    tall = b.add(Unsqueeze(axes=(axis,)), [x])
    filters = reshaped(b, weights, (shape[0], 1, *shape[1:]))
    result = b.add(_RAISED[type(op)](**fields), [tall, filters, bias], quant=node.outputs[0].quant)
    return [b.add(Squeeze(axes=(axis,)), [result])]


def by_planes(node: Node, b: Builder) -> list[Value] | None:
    """Conv3D: the sum of 2-D convolutions, one for each place of the filter's depth."""
    op = node.op
    assert isinstance(op, c.Conv3D)
    x, weights, bias = _operands(node)
    y = node.outputs[0]
    if not x.shape or not y.shape or op.layout is not Layout.NHWC or x.type.has_codes:
        return None
    dims, filters = static_shape(x.shape[1:]), static_shape(weights.shape)
    result, padding = static_shape(y.shape[1:]), op.padding
    if dims is None or filters is None or result is None or padding.same:
        return None
    n = x.shape[0] if isinstance(x.shape[0], int) else -1
    depth, height, width, channels = dims
    before, after = padding.before, padding.after
    if before[0] or after[0]:
        sides = ((0, before[0], 0, 0, 0), (0, after[0], 0, 0, 0))
        x = b.add(Pad(before=sides[0], after=sides[1]), [x])
        depth += before[0] + after[0]
    planes, last_place = result[0], filters[1] - 1
    flat = c.Conv2D(
        layout=op.layout,
        stride=op.stride[1:],
        dilation=op.dilation[1:],
        padding=Padding(before[1:], after[1:]),
        groups=op.groups,
        activation=Activation.NONE if last_place else op.activation,
    )
    total: Value | None = None
    for place in range(filters[1]):
        first = place * op.dilation[0]
        last = first + (planes - 1) * op.stride[0] + 1
        cut = Slice(
            starts=(0, first, 0, 0, 0),
            ends=(None, last, None, None, None),
            strides=(1, op.stride[0], 1, 1, 1),
        )
        part = b.add(cut, [x])
        part = b.add(Reshape(shape=(max(n * planes, -1), height, width, channels)), [part])
        taps = b.add(
            Slice(
                starts=(0, place, 0, 0, 0),
                ends=(filters[0], place + 1, *filters[2:]),
                strides=(1,) * 5,
            ),
            [weights],
        )
        taps = b.add(Squeeze(axes=(1,)), [taps])
        term = b.add(flat, [part, taps, bias if place == 0 else None])
        activation = op.activation if place == last_place else Activation.NONE
        total = term if total is None else b.add(Add(activation=activation), [total, term])
    assert total is not None
    return [b.add(Reshape(shape=(n, *result)), [total])]


def by_direct(node: Node, b: Builder) -> list[Value] | None:
    """Transposed convolutions, with groups and dilations: as direct ones of the spread-out data.

    Weights [O/groups, window..., C] become [O, window turned round..., C/groups].
    """
    op = node.op
    assert isinstance(op, _Transposed)
    x, weights, bias = _operands(node)
    filters = static_shape(weights.shape)
    kinds = (x.dtype, weights.dtype)
    if filters is None or x.shape is None or op.layout is not Layout.NHWC:
        return None
    if op.size is not None or op.padding.same or not all(kind in FLOATS for kind in kinds):
        return None
    rank = op.spatial_rank
    window, groups = filters[1:-1], op.groups
    spatial = tuple(range(1, rank + 1))
    depth, each = filters[-1] // groups, filters[0]
    turned = b.add(Reverse(axes=spatial), [weights])
    turned = b.add(Reshape(shape=(each, *window, groups, depth)), [turned])
    turned = b.add(Transpose(perm=(rank + 1, 0, *spatial, rank + 2)), [turned])
    turned = b.add(Reshape(shape=(groups * each, *window, depth)), [turned])
    if max(op.stride) > 1:
        zero = b.const(np.zeros((), x.dtype.numpy))
        x = b.add(Dilate(dilations=(1, *op.stride, 1)), [x, zero])
    reach = [(size - 1) * spread for size, spread in zip(window, op.dilation, strict=True)]
    before = tuple(r - cut for r, cut in zip(reach, op.padding.before, strict=True))
    after = tuple(
        r - cut + more
        for r, cut, more in zip(reach, op.padding.after, op.output_padding, strict=True)
    )
    padding = Padding(before, after)
    if min(*before, *after) < 0:
        x = b.add(Pad(before=(0, *before, 0), after=(0, *after, 0)), [x])
        padding = Padding.none(rank)
    direct = _DIRECT[type(op)](
        layout=op.layout,
        stride=(1,) * rank,
        dilation=op.dilation,
        padding=padding,
        groups=groups,
        activation=op.activation,
    )
    return [b.add(direct, [x, turned, bias])]


def longer_window(node: Node, b: Builder) -> list[Value] | None:
    """Transposed convolutions that reach beyond their windows: with zeros behind these."""
    op = node.op
    assert isinstance(op, _Transposed)
    x, weights, bias = _operands(node)
    more = op.output_padding
    if op.size is not None or op.padding.same or op.groups > 1 or max(op.dilation) > 1:
        return None
    if not any(more) or any(n > step for n, step in zip(more, op.stride, strict=True)):
        return None  # beyond the stride the window would be zeros for the most part
    none = (0,) * op.spatial_rank
    longer = Pad(before=(0, *none, 0), after=(0, *more, 0))
    filters = b.add(longer, [weights], quant=weights.quant)
    within = op.replace(output_padding=none)
    return [b.add(within, [x, filters, bias], quant=node.outputs[0].quant)]


def cut_at_run_time(node: Node, b: Builder) -> list[Value] | None:
    """Transposed convolutions to given extents of data whose own are open.

    The full result, longer by as much as may lack at its end, is cut.
    """
    op, y = node.op, node.outputs[0]
    assert isinstance(op, _Transposed)
    x, weights, bias = _operands(node)
    if op.size is None or x.shape is None or op.layout is not Layout.NHWC:
        return None
    rank = op.spatial_rank
    more = tuple(a + b_ - 1 for a, b_ in zip(op.output_padding, op.stride, strict=True))
    whole = op.replace(size=None, padding=Padding.none(rank), output_padding=more)
    full = b.add(whole, [x, weights, bias], quant=y.quant)
    a = Arithmetic(b)
    sizes = b.add(ShapeOf(dtype=DType.INT32, dims=tuple(range(1, rank + 1))), [full])
    added = a.ints(np.asarray(op.stride) - 1)
    wanted = a.ints(np.asarray(op.size))
    zero = a.ints(np.zeros(rank))
    over = b.add(Maximum(), [a.sub(a.sub(sizes, added), wanted), zero])
    over = a.add(over, a.ints(np.full(rank, int(op.padding.lower))))
    first = b.add(FloorDiv(), [over, a.ints(np.full(rank, 2))])
    edge = a.ints(np.zeros(1))
    starts = b.add(Concat(axis=0), [edge, first, edge])
    tail = b.add(ShapeOf(dtype=DType.INT32, dims=(0, rank + 1)), [full])
    ends = [b.add(Slice(starts=(i,), ends=(i + 1,), strides=(1,)), [tail]) for i in range(2)]
    ends.insert(1, a.add(first, wanted))
    cut = Slice(starts=None, ends=None, strides=(1,) * (rank + 2))
    found = b.add(cut, [full, starts, b.add(Concat(axis=0), ends)], quant=y.quant)
    found.type = found.type.with_shape((x.shape[0], *op.size, y.shape[-1] if y.shape else None))
    return [found]


def in_float32(node: Node, b: Builder) -> list[Value] | None:
    """ConvInteger: in float32, which is exact up to sums of 2**24."""
    op = node.op
    assert isinstance(op, c.ConvInteger)
    x, weights = node.operand(0), node.operand(1)
    points = node.inputs[2:]
    rank = len(op.stride)
    kind = {1: c.Conv1D, 2: c.Conv2D, 3: c.Conv3D}.get(rank)
    if kind is None:
        return None
    first, second = (*points, None, None)[:2]
    data = _centered(b, x, first, ())
    one = second is None or element_count(second.shape) == 1
    filters = _centered(b, weights, second, () if one else (-1, *[1] * (rank + 1)))
    fields = {name: getattr(op, name) for name in kind.field_names()}
    result = b.add(kind(**fields), [data, filters, None])
    return [b.add(Cast(dtype=DType.INT32), [result])]


def _centered(b: Builder, value: Value, point: Value | None, shape: tuple[int, ...]) -> Value:
    """A value less its zero point, as float32."""
    real = b.add(Cast(dtype=DType.FLOAT32), [value])
    if point is None:
        return real
    return b.add(Sub(), [real, b.add(Cast(dtype=DType.FLOAT32), [reshaped(b, point, shape)])])


def within_windows(
    b: Builder, x: Value, axes: Sequence[int], window: Sequence[int], stride: Sequence[int]
) -> Value:
    """Data of open extents without what lies behind the last window of SAME padding.

    Only windows shorter than their stride leave something there.
    """
    if all(size >= step for size, step in zip(window, stride, strict=True)):
        return x
    rank = x.type.rank or 0
    ends = [ints(b, [FAR])] * rank
    for axis, size, step in zip(axes, window, stride, strict=True):
        if size < step:
            above = b.add(Add(), [extent(b, x, axis), ints(b, [step - 1])])
            last = b.add(Sub(), [b.add(FloorDiv(), [above, ints(b, [step])]), ints(b, [1])])
            ends[axis] = b.add(Add(), [b.add(Mul(), [last, ints(b, [step])]), ints(b, [size])])
    cut = Slice(starts=(0,) * rank, ends=None, strides=(1,) * rank)
    found = b.add(cut, [x, None, joined(b, ends), None], quant=x.quant)
    assert x.shape is not None
    kept = tuple(None if i in axes else dim for i, dim in enumerate(x.shape))
    found.type = found.type.with_shape(kept)
    return found


def turn_round(node: Node, b: Builder) -> list[Value] | None:
    """SAME padding of open extents with the odd element first: the op on what is turned round."""
    op = node.op
    assert isinstance(op, c.Conv1D | c.Conv2D | c.Conv3D)
    x, weights, bias = _operands(node)
    if not (op.padding.same and op.padding.lower) or x.shape is None:
        return None
    axes = tuple(spatial_dims(len(x.shape), op.layout))
    window = static_shape(None if weights.shape is None else weights.shape[1:-1])
    if window is None:
        return None
    reach = [(n - 1) * spread + 1 for n, spread in zip(window, op.dilation, strict=True)]
    padding = Padding(op.padding.before, op.padding.after, same=True)
    turned = b.add(Reverse(axes=axes), [within_windows(b, x, axes, reach, op.stride)])
    filters = b.add(Reverse(axes=tuple(range(1, len(op.stride) + 1))), [weights])
    result = b.add(
        op.replace(padding=padding), [turned, filters, bias], quant=node.outputs[0].quant
    )
    return [b.add(Reverse(axes=axes), [result])]


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    c.Conv1D: (turn_round, raise_row),
    c.Conv2D: (turn_round,),
    c.Conv3D: (turn_round, by_planes),
    c.ConvTranspose1D: (raise_row,),
    c.ConvTranspose2D: (cut_at_run_time, longer_window, by_direct),
    c.ConvTranspose3D: (cut_at_run_time, longer_window, by_direct),
    c.ConvInteger: (in_float32,),
}
