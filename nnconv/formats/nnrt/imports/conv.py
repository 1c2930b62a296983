"""Convolutions: filters are brought to OHWI, padding is made explicit."""

from __future__ import annotations

from nnconv.formats.biases import bias_quant, with_quant
from nnconv.formats.nnrt.importer import Importer, Source
from nnconv.ir.graph import Value
from nnconv.ir.quant import Quant
from nnconv.ir.types import Dim, TensorType, static_shape
from nnconv.ops.conv import Conv2D, ConvTranspose2D
from nnconv.ops.rewrite import reshaped, transposed
from nnconv.ops.shape import Concat, Split
from nnconv.ops.slices import Slice
from nnconv.ops.spatial import Padding

SAME = 0
"""The mode of padding that isn't VALID."""


def positive_pair(s: Source, name: str) -> tuple[int, int]:
    """A parameter of two numbers above 0, of the height and the width."""
    height, width = s.list(name, 2)
    if min(height, width) < 1:
        raise s.fail(f"{name} is {[height, width]}, must be above 0")
    return height, width


def padding_sides(s: Source) -> tuple[tuple[int, int], tuple[int, int]]:
    """The list of paddings, before and behind the height and the width; zeros without one."""
    sides = s.list("padList", 4) or (0, 0, 0, 0)
    if min(sides) < 0:
        raise s.fail(f"padList is {list(sides)}, allowed are 0 and more")
    top, bottom, left, right = sides
    return (top, left), (bottom, right)


def read_padding(
    s: Source,
    extents: tuple[Dim, ...],
    window: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Padding:
    """The padding: by its mode, if it has one, else by its list."""
    if s.param("padMode") is None:
        return Padding(*padding_sides(s))
    if s.int("padMode") != SAME:
        return Padding.none(2)
    return Padding.same_for(extents, window, stride, dilation)


def image(s: Source, x: Value) -> tuple[tuple[Dim, ...], Dim]:
    """Height and width, and the channels, of an image; None where they aren't known."""
    shape = s.of_rank(x, 4).shape
    return ((None, None), None) if shape is None else (shape[1:3], shape[3])


def filter_shape(s: Source, weights: Value) -> tuple[int, ...]:
    """The filter's extents, which must be known."""
    shape = static_shape(weights.shape)
    if shape is None:
        raise s.unsupported(f"the extents of the filter `{weights.name}` aren't known")
    return shape


def scaled_bias(s: Source, x: Value, weights: Value, bias: Value) -> Value:
    """The bias with the parameters that it has by its place: scales of x and weights multiplied."""
    if x.quant is None or weights.quant is None or bias.dtype.is_float:
        return bias
    return with_quant(s.builder, bias, bias_quant(x.quant, weights.quant))


def import_conv2d(s: Source) -> None:
    """CONV2D, DEPTHWISE_CONV2D_NATIVE."""
    x, weights = s.operand("input"), s.operand("weight")
    extents, channels = image(s, x)
    filters = filter_shape(s, weights)
    stride, dilation = positive_pair(s, "stride"), positive_pair(s, "dilation")
    if s.name == "CONV2D":
        groups = s.positive("group")
    else:
        groups = channels if isinstance(channels, int) else filters[0]
        if filters[3] != 1:
            raise s.fail(f"the filter has the shape {list(filters)}, must have 1 at its end")
    s.check_groups(channels, filters, groups)
    op = Conv2D(
        stride=stride,
        dilation=dilation,
        padding=read_padding(s, extents, filters[1:3], stride, dilation),
        groups=groups,
        activation=s.activation(),
    )
    s.emit(op, [x, weights, scaled_bias(s, x, weights, s.operand("bias"))])


def import_conv2d_transpose(s: Source) -> None:
    """CONV2D_TRANSPOSE."""
    x, weights = s.operand("input"), s.operand("weight")
    _, channels = image(s, x)
    filters = filter_shape(s, weights)
    stride, dilation = positive_pair(s, "stride"), positive_pair(s, "dilation")
    groups = s.positive("group")
    s.check_groups(channels, filters, groups)
    reach = tuple(
        (size - 1) * spread + 1 for size, spread in zip(filters[1:3], dilation, strict=True)
    )
    padding, added = _cut(s, reach, stride)
    op = ConvTranspose2D(
        stride=stride,
        dilation=dilation,
        padding=padding,
        output_padding=added,
        groups=groups,
        activation=s.activation(),
    )
    if groups > 1 and weights.quant is not None and not weights.quant.is_per_tensor:
        s.bind(0, _one_group_each(s, op, x, weights, filters))
        return
    bias = scaled_bias(s, x, weights, s.operand("bias"))
    s.emit(op, [x, _grouped(s, weights, filters, groups), bias])


def _cut(
    s: Source, reach: tuple[int, ...], stride: tuple[int, int]
) -> tuple[Padding, tuple[int, ...]]:
    """What is cut off the full result, and what is added at its end."""
    added = s.list("outputPads")
    if len(added) == 1:
        added *= 2
    if len(added) not in (0, 2) or min(added, default=0) < 0:
        raise s.fail(f"outputPads are {list(added)}, must be one or two numbers of 0 and more")
    if s.param("padMode") is None:
        return Padding(*padding_sides(s)), added or (0, 0)
    if any(added):
        raise s.fail(
            f"outputPads are {list(added)} beside a padMode, which tells the result's size"
        )
    if s.int("padMode") != SAME:
        return Padding.none(2), (0, 0)
    over = [size - step for size, step in zip(reach, stride, strict=True)]
    before = tuple(max(total, 0) // 2 for total in over)
    after = tuple(max(total, 0) - start for total, start in zip(over, before, strict=True))
    return Padding(before, after), tuple(max(-total, 0) for total in over)


def _grouped(s: Source, weights: Value, filters: tuple[int, ...], groups: int) -> Value:
    """[O, H, W, I / groups] as [O / groups, H, W, I]."""
    if groups == 1:
        return weights
    outputs, height, width, depth = filters
    parts = reshaped(s.builder, weights, (groups, outputs // groups, height, width, depth))
    parts = transposed(s.builder, parts, (1, 2, 3, 0, 4))
    return reshaped(s.builder, parts, (outputs // groups, height, width, groups * depth))


def _one_group_each(
    s: Source, op: ConvTranspose2D, x: Value, weights: Value, filters: tuple[int, ...]
) -> Value:
    """A convolution for each group: filters that stand side by side have scales of their own."""
    outputs, depth, groups = filters[0] // op.groups, filters[3], op.groups
    channels = s.add_many(Split(axis=3, sizes=(depth,) * groups), [x])
    quant, single = s.result_quant(), op.replace(groups=1)
    assert weights.quant is not None
    bias, parts = s.operand("bias"), []
    for group, channel in enumerate(channels):
        first, end = group * outputs, (group + 1) * outputs
        scales, points = weights.quant.scale[first:end], weights.quant.zero_point[first:end]
        plain = _stretch(s, with_quant(s.builder, weights, None), first, end)
        some = with_quant(s.builder, plain, Quant.per_channel(scales, points, axis=0))
        inputs = [channel, some, scaled_bias(s, x, some, _stretch(s, bias, first, end))]
        parts.append(s.add(single, inputs, quant=quant, dtype=s.result_dtype()))
    return s.add(Concat(axis=3), parts, quant=quant)


def _stretch(s: Source, value: Value, first: int, end: int) -> Value:
    """Neighbours of the first dimension; of a constant a view."""
    if value.data is not None:
        kind = TensorType(value.dtype, (end - first, *value.data.shape[1:]), value.quant)
        return Value(value.name, kind, data=value.data[first:end], origin=value.origin)
    rest = s.rank(value) - 1
    cut = Slice(
        starts=(first, *(0,) * rest), ends=(end, *(None,) * rest), strides=(1,) * (rest + 1)
    )
    return s.add(cut, [value])


IMPORTERS: dict[str, Importer] = {
    "CONV2D": import_conv2d,
    "CONV2D_TRANSPOSE": import_conv2d_transpose,
    "DEPTHWISE_CONV2D_NATIVE": import_conv2d,
}
