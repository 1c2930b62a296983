"""Convolutions: filters are brought to OHWI, padding is made explicit."""

from __future__ import annotations

from nnconv.formats.tflite._gen.schema import Padding as Scheme
from nnconv.formats.tflite.importer import Importer, Source
from nnconv.ir.graph import Value
from nnconv.ir.op import Layout
from nnconv.ir.types import Dim, static_shape
from nnconv.ops.conv import Conv2D
from nnconv.ops.rewrite import transposed
from nnconv.ops.spatial import Padding


def read_padding(
    s: Source,
    extents: tuple[Dim, ...],
    window: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Padding:
    """The explicit padding that the options' scheme (SAME or VALID) stands for."""
    scheme = s.options.int("padding")
    if scheme == Scheme.VALID:
        return Padding.none(len(window))
    if scheme != Scheme.SAME:
        raise s.op.fail(f"padding {scheme} is unknown")
    return Padding.same_for(extents, window, stride, dilation)


def spatial_extents(s: Source, x: Value, rank: int) -> tuple[Dim, ...]:
    """The spatial extents of a channels-last tensor of ``rank`` dimensions."""
    if x.shape is None:
        return (None,) * (rank - 2)
    if len(x.shape) != rank:
        raise s.op.fail(f"`{x.name}` has rank {len(x.shape)}, must have {rank}")
    return x.shape[1:-1]


def filter_shape(s: Source, weights: Value, rank: int) -> tuple[int, ...]:
    """The filter's extents, which must be known."""
    shape = static_shape(weights.shape)
    if shape is None or len(shape) != rank:
        raise s.op.fail(f"filter `{weights.name}` is {weights.type}, must have rank {rank}")
    return shape


def pair(s: Source, prefix: str) -> tuple[int, int]:
    """Options ``<prefix>_h`` and ``<prefix>_w`` (or ``<prefix>_h_factor`` ...), which must be positive."""
    suffix = "_factor" if prefix == "dilation" else ""
    height, width = (s.options.int(f"{prefix}_{axis}{suffix}") for axis in "hw")
    if height < 1 or width < 1:
        raise s.op.fail(f"{prefix} is {height}x{width}, must be positive")
    return height, width


def import_conv_2d(s: Source) -> None:
    """CONV_2D: filter OHWI; its depth may be a part of the channels (groups)."""
    x, weights, bias = s.operand(0), s.operand(1), s.optional(2)
    extents = spatial_extents(s, x, 4)
    filters = filter_shape(s, weights, 4)
    stride, dilation = pair(s, "stride"), pair(s, "dilation")
    channels = x.shape[-1] if x.shape is not None else None
    groups = 1
    if isinstance(channels, int) and channels != filters[3]:
        if filters[3] < 1 or channels % filters[3]:
            raise s.op.fail(f"{channels} channels don't split into groups of {filters[3]}")
        groups = channels // filters[3]
    op = Conv2D(
        layout=Layout.NHWC,
        stride=stride,
        dilation=dilation,
        padding=read_padding(s, extents, filters[1:3], stride, dilation),
        groups=groups,
        activation=s.activation(),
    )
    s.emit(op, [x, weights, bias])


def import_depthwise_conv_2d(s: Source) -> None:
    """DEPTHWISE_CONV_2D: filter [1, H, W, C * multiplier]; LiteRT believes the shapes, not the option."""
    x, weights, bias = s.operand(0), s.operand(1), s.optional(2)
    extents = spatial_extents(s, x, 4)
    filters = filter_shape(s, weights, 4)
    stride, dilation = pair(s, "stride"), pair(s, "dilation")
    channels = x.shape[-1] if x.shape is not None else None
    if not isinstance(channels, int):
        multiplier = s.options.int("depth_multiplier")
        channels = filters[3] // multiplier if multiplier > 0 else 0
    if channels < 1 or filters[3] % channels or filters[0] != 1:
        raise s.op.fail(f"filter {list(filters)} doesn't fit {channels} channels")
    op = Conv2D(
        layout=Layout.NHWC,
        stride=stride,
        dilation=dilation,
        padding=read_padding(s, extents, filters[1:3], stride, dilation),
        groups=channels,
        activation=s.activation(),
    )
    s.emit(op, [x, transposed(s.builder, weights, (3, 1, 2, 0)), bias])


IMPORTERS: dict[str, Importer] = {
    "CONV_2D": import_conv_2d,
    "DEPTHWISE_CONV_2D": import_depthwise_conv_2d,
}
