"""Convolutions: filters are brought to OHWI, padding is made explicit."""

from __future__ import annotations

from nnconv.errors import plural
from nnconv.formats.biases import bias_quant, with_quant
from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.formats.nnapi.types import PaddingCode
from nnconv.ir.graph import Value
from nnconv.ir.op import Layout
from nnconv.ir.types import Dim, static_shape
from nnconv.ops.conv import Conv2D, ConvTranspose2D
from nnconv.ops.rewrite import transposed
from nnconv.ops.spatial import Padding, channel_dim, spatial_dims


def image_dims(s: Source, x: Value, layout: Layout) -> tuple[tuple[Dim, ...], Dim]:
    """Height and width, and the channels, of an image; None where they aren't known."""
    if x.shape is None:
        return (None, None), None
    if len(x.shape) != 4:
        raise s.fail(f"the input has rank {len(x.shape)}, must have 4")
    height, width = spatial_dims(4, layout)
    return (x.shape[height], x.shape[width]), x.shape[channel_dim(4, layout)]


def pair(s: Source, name: str) -> tuple[int, int]:
    """Scalars ``<name>_height`` and ``<name>_width``, both positive."""
    return s.positive(f"{name}_height"), s.positive(f"{name}_width")


def read_padding(
    s: Source,
    extents: tuple[Dim, ...],
    window: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Padding:
    """The padding of either variant.

    Raises:
        InvalidModelError: when it is negative, or as large as the window.
    """
    if s.match.position("padding_scheme") is not None:
        if s.int("padding_scheme") == PaddingCode.VALID:
            return Padding.none(2)
        return Padding.same_for(extents, window, stride, dilation)
    before = s.int("pad_top"), s.int("pad_left")
    after = s.int("pad_bottom"), s.int("pad_right")
    reach = [(size - 1) * spread + 1 for size, spread in zip(window, dilation, strict=True)]
    for size, sides in zip(reach, zip(before, after, strict=True), strict=True):
        if not all(0 <= side < size for side in sides):
            raise s.fail(f"paddings {list(sides)} for a window of {size}")
    return Padding(before, after)


def filter_shape(s: Source, weights: Value) -> tuple[int, ...]:
    """The filter's extents, which must be known."""
    shape = static_shape(weights.shape)
    if shape is None:
        raise s.unsupported(f"the extents of the filter `{weights.name}` aren't known")
    if len(shape) != 4 or min(shape) < 1:
        raise s.fail(f"the filter has the shape {list(shape)}, must have four positive extents")
    return shape


def scaled_bias(s: Source, x: Value, weights: Value, bias: Value) -> Value:
    """The bias with the parameters that it has by its place: scales of x and weights multiplied.

    Raises:
        InvalidModelError: when the model states another scale.
    """
    if x.quant is None or weights.quant is None:
        return bias
    quant, stated = bias_quant(x.quant, weights.quant), s.wire("bias").scale
    wanted = quant.scale[0] if quant.is_per_tensor else 0.0
    if abs(stated - wanted) > 1e-6 * max(stated, wanted):
        raise s.fail(f"the bias has the scale {stated:g}, must have {wanted:g}")
    return with_quant(s.builder, bias, quant)


def _dilation(s: Source) -> tuple[int, int]:
    if "dilation_width" not in s.match.variant.by_name:
        return 1, 1
    return pair(s, "dilation")


def import_conv_2d(s: Source) -> None:
    """CONV_2D, and GROUPED_CONV_2D: filter OHWI in either layout of the data."""
    x, weights, layout = s.operand("input"), s.operand("filter"), s.layout()
    extents, channels = image_dims(s, x, layout)
    filters = filter_shape(s, weights)
    stride, dilation = pair(s, "stride"), _dilation(s)
    groups = s.positive("groups") if s.name == "GROUPED_CONV_2D" else 1
    s.check_groups(channels, filters, groups)
    op = Conv2D(
        layout=layout,
        stride=stride,
        dilation=dilation,
        padding=read_padding(s, extents, filters[1:3], stride, dilation),
        groups=groups,
        activation=s.activation(),
    )
    s.emit(op, [x, weights, scaled_bias(s, x, weights, s.operand("bias"))])


def import_depthwise_conv_2d(s: Source) -> None:
    """DEPTHWISE_CONV_2D: filter [1, H, W, C * multiplier]."""
    x, weights, layout = s.operand("input"), s.operand("filter"), s.layout()
    extents, channels = image_dims(s, x, layout)
    filters = filter_shape(s, weights)
    multiplier = s.positive("depth_multiplier")
    if channels is None:
        channels = filters[3] // multiplier
    if filters[0] != 1 or channels == 0 or channels * multiplier != filters[3]:
        raise s.fail(
            f"{plural(channels, 'channel')} and multiplier {multiplier} for filter {list(filters)}"
        )
    stride, dilation = pair(s, "stride"), _dilation(s)
    op = Conv2D(
        layout=layout,
        stride=stride,
        dilation=dilation,
        padding=read_padding(s, extents, filters[1:3], stride, dilation),
        groups=int(channels),
        activation=s.activation(),
    )
    weights = transposed(s.builder, weights, (3, 1, 2, 0))
    s.emit(op, [x, weights, scaled_bias(s, x, weights, s.operand("bias"))])


def import_transpose_conv_2d(s: Source) -> None:
    """TRANSPOSE_CONV_2D: what SAME cuts off follows from the result's stated shape."""
    x, weights, layout = s.operand("input"), s.operand("filter"), s.layout()
    _, channels = image_dims(s, x, layout)
    filters = filter_shape(s, weights)
    if isinstance(channels, int) and channels != filters[3]:
        raise s.fail(f"{plural(channels, 'channel')} for a filter of {filters[3]}")
    stride = pair(s, "stride")
    padding, added = _transposed_padding(s, filters[1:3], stride, layout)
    op = ConvTranspose2D(
        layout=layout,
        stride=stride,
        dilation=(1, 1),
        padding=padding,
        output_padding=added,
        activation=s.activation(),
    )
    s.emit(op, [x, weights, scaled_bias(s, x, weights, s.operand("bias"))])


def _transposed_padding(
    s: Source, window: tuple[int, ...], stride: tuple[int, ...], layout: Layout
) -> tuple[Padding, tuple[int, ...]]:
    """What is cut off the full result, and what is added at its end."""
    if s.match.position("padding_scheme") is None:
        before = s.int("pad_top"), s.int("pad_left")
        after = s.int("pad_bottom"), s.int("pad_right")
        if min(*before, *after) < 0:
            raise s.fail(f"paddings {[*before, *after]}, allowed are 0 and more")
        return Padding(before, after), (0, 0)
    if s.int("padding_scheme") == PaddingCode.VALID:
        return Padding.none(2), (0, 0)
    sizes = s.ints("output_shape") or s.output().dimensions
    dims = spatial_dims(4, layout)
    if len(sizes) != 4 or not all(sizes[dim] > 0 for dim in dims):
        raise s.unsupported("the result's shape is computed at run time")
    cut = []
    for dim, size, step in zip(dims, window, stride, strict=True):
        total = (-(-sizes[dim] // step) - 1) * step + size - sizes[dim]
        start = max(total, 0) // 2
        cut.append((start, total - start))
    padding = Padding(tuple(start for start, _ in cut), tuple(max(end, 0) for _, end in cut))
    return padding, tuple(max(-end, 0) for _, end in cut)


IMPORTERS: dict[str, Importer] = {
    "CONV_2D": import_conv_2d,
    "DEPTHWISE_CONV_2D": import_depthwise_conv_2d,
    "GROUPED_CONV_2D": import_conv_2d,
    "TRANSPOSE_CONV_2D": import_transpose_conv_2d,
}
