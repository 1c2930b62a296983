"""Convolutions: filters are brought to OHWI, padding is made explicit."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np

from nnconv.errors import plural
from nnconv.formats.tflite._gen.schema import Padding as Scheme
from nnconv.formats.tflite.importer import Importer, Source
from nnconv.ir.graph import Value
from nnconv.ir.op import Layout
from nnconv.ir.quant import Quant
from nnconv.ir.types import Dim, Shape, static_shape
from nnconv.ops import elementwise as e
from nnconv.ops.conv import Conv2D, Conv3D, ConvTranspose2D, ConvTranspose3D
from nnconv.ops.quantize import Bitcast
from nnconv.ops.rewrite import reshaped, transposed
from nnconv.ops.slices import Slice
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
        raise s.fail(f"padding {scheme} is unknown")
    return Padding.same_for(extents, window, stride, dilation)


def spatial_extents(s: Source, x: Value, rank: int) -> tuple[Dim, ...]:
    """The spatial extents of a channels-last tensor of ``rank`` dimensions."""
    if x.shape is None:
        return (None,) * (rank - 2)
    if len(x.shape) != rank:
        raise s.fail(f"`{x.name}` has rank {len(x.shape)}, must have {rank}")
    return x.shape[1:-1]


def filter_shape(s: Source, weights: Value, rank: int) -> tuple[int, ...]:
    """The filter's extents, which must be known."""
    shape = static_shape(weights.shape)
    if shape is None or len(shape) != rank:
        raise s.fail(f"filter `{weights.name}` is {weights.type}, must have rank {rank}")
    return shape


def pair(s: Source, prefix: str) -> tuple[int, int]:
    """Options ``<prefix>_h`` and ``<prefix>_w`` (with ``_factor`` for dilations), all positive."""
    suffix = "_factor" if prefix == "dilation" else ""
    height, width = (s.options.int(f"{prefix}_{axis}{suffix}") for axis in "hw")
    if height < 1 or width < 1:
        raise s.fail(f"{prefix} is {height}x{width}, must be positive")
    return height, width


def scaled_bias(s: Source, x: Value, weights: Value, bias: Value | None) -> Value | None:
    """The bias as [O], an integer one at scale x * weights: LiteRT adds its codes as they are.

    What the file says of its scale may be rounded, missing, or (where layers share a bias)
    another's.
    """
    if bias is None:
        return None
    if bias.type.rank != 1:
        bias = reshaped(s.builder, bias, (-1,))
    if x.quant is None or weights.quant is None or not bias.dtype.is_integer:
        return bias
    if not x.quant.is_per_tensor or weights.quant.axis not in (None, 0) or weights.quant.block:
        return bias
    scale = np.asarray(weights.quant.scale, np.float64) * x.quant.scale[0]
    axis = weights.quant.axis
    quant = (
        Quant.per_tensor(scale[0]) if axis is None else Quant.per_channel(scale.tolist(), axis=0)
    )
    if bias.quant == quant:
        return bias
    kind = replace(bias.type, quant=quant)
    if bias.data is not None:
        return Value(bias.name, kind, data=bias.data, origin=bias.origin)
    return s.builder.add_typed(Bitcast(dtype=bias.dtype), [bias], [kind], names=[bias.name])[0]


def _channels(s: Source, x: Value) -> int | None:
    """The channels of data; as the file states them where other extents leave them open."""
    tensor = s.tensor(0)
    stated = None if tensor is None else s.scope.file_type(tensor).shape
    ends = [shape[-1] for shape in (x.shape, stated) if shape]
    return next((end for end in ends if isinstance(end, int)), None)


def import_conv_2d(s: Source) -> None:
    """CONV_2D: filter OHWI; its depth may be a part of the channels (groups)."""
    x, weights, bias = s.operand(0), s.operand(1), s.optional(2)
    extents = spatial_extents(s, x, 4)
    filters = filter_shape(s, weights, 4)
    stride, dilation = pair(s, "stride"), pair(s, "dilation")
    channels = _channels(s, x)
    groups = 1
    if channels is not None and channels != filters[3]:
        if filters[3] < 1 or channels % filters[3]:
            raise s.fail(
                f"{plural(channels, 'channel')} can't be split into groups of {filters[3]}"
            )
        groups = channels // filters[3]
    op = Conv2D(
        layout=Layout.NHWC,
        stride=stride,
        dilation=dilation,
        padding=read_padding(s, extents, filters[1:3], stride, dilation),
        groups=groups,
        activation=s.activation(),
    )
    s.emit(op, [x, weights, scaled_bias(s, x, weights, bias)])


def import_depthwise_conv_2d(s: Source) -> None:
    """DEPTHWISE_CONV_2D: filter [1, H, W, C * multiplier]; the shapes count, not the option."""
    x, weights, bias = s.operand(0), s.operand(1), s.optional(2)
    extents = spatial_extents(s, x, 4)
    filters = filter_shape(s, weights, 4)
    stride, dilation = pair(s, "stride"), pair(s, "dilation")
    channels = _channels(s, x)
    if channels is None:
        multiplier = s.options.int("depth_multiplier")
        channels = filters[3] // multiplier if multiplier > 0 else 0
    if channels < 1 or filters[3] % channels or filters[0] != 1:
        raise s.fail(f"filter {list(filters)} doesn't fit {plural(channels, 'channel')}")
    op = Conv2D(
        layout=Layout.NHWC,
        stride=stride,
        dilation=dilation,
        padding=read_padding(s, extents, filters[1:3], stride, dilation),
        groups=channels,
        activation=s.activation(),
    )
    weights = transposed(s.builder, weights, (3, 1, 2, 0))
    s.emit(op, [x, weights, scaled_bias(s, x, weights, bias)])


def _triple(s: Source, prefix: str) -> tuple[int, int, int]:
    """Options ``<prefix>_d``, ``_h`` and ``_w`` (with ``_factor`` for dilations), all positive."""
    suffix = "_factor" if prefix == "dilation" else ""
    depth, height, width = (s.options.int(f"{prefix}_{axis}{suffix}") for axis in "dhw")
    if min(depth, height, width) < 1:
        raise s.fail(f"{prefix} is {depth}x{height}x{width}, must be positive")
    return depth, height, width


def import_conv_3d(s: Source) -> None:
    """CONV_3D: filter [D, H, W, I, O]."""
    x, weights, bias = s.operand(0), s.operand(1), s.optional(2)
    extents = spatial_extents(s, x, 5)
    window = filter_shape(s, weights, 5)[:3]
    stride, dilation = _triple(s, "stride"), _triple(s, "dilation")
    op = Conv3D(
        layout=Layout.NHWC,
        stride=stride,
        dilation=dilation,
        padding=read_padding(s, extents, window, stride, dilation),
        activation=s.activation(),
    )
    weights = transposed(s.builder, weights, (4, 0, 1, 2, 3))
    s.emit(op, [x, weights, scaled_bias(s, x, weights, bias)])


def import_transpose_conv(s: Source) -> None:
    """TRANSPOSE_CONV: result shape, filter [O, H, W, I], x, bias."""
    x, weights, bias = s.operand(2), s.operand(1), s.optional(3)
    window = filter_shape(s, weights, 4)[1:3]
    spatial_extents(s, x, 4)
    op = ConvTranspose2D(
        layout=Layout.NHWC,
        stride=pair(s, "stride"),
        dilation=(1, 1),
        padding=Padding.none(2),
        output_padding=(0, 0),
        activation=s.activation(),
    )
    _emit_transposed(s, op, window, [x, weights, scaled_bias(s, x, weights, bias)])


def import_conv_3d_transpose(s: Source) -> None:
    """CONV_3D_TRANSPOSE: result shape, filter [D, H, W, O, I], x, bias."""
    x, weights, bias = s.operand(2), s.operand(1), s.optional(3)
    window = filter_shape(s, weights, 5)[:3]
    spatial_extents(s, x, 5)
    op = ConvTranspose3D(
        layout=Layout.NHWC,
        stride=_triple(s, "stride"),
        dilation=_triple(s, "dilation"),
        padding=Padding.none(3),
        output_padding=(0, 0, 0),
        activation=s.activation(),
    )
    weights = transposed(s.builder, weights, (3, 0, 1, 2, 4))
    _emit_transposed(s, op, window, [x, weights, scaled_bias(s, x, weights, bias)])


def _emit_transposed(
    s: Source,
    op: ConvTranspose2D | ConvTranspose3D,
    window: tuple[int, ...],
    inputs: list[Value | None],
) -> None:
    """A transposed convolution whose result has the shape that operand 0 says.

    LiteRT pads as the forward convolution from that shape would. Where the shape is only known at
    run time, the full result is cut then.
    """
    x = inputs[0]
    assert x is not None
    rank = len(window) + 2
    wanted = s.dims(0)
    if wanted is not None and len(wanted) != rank:
        raise s.fail(
            f"the result's shape has {plural(len(wanted), 'entry', 'entries')}, must have {rank}"
        )
    out = static_shape(wanted[1:-1]) if wanted is not None else None
    extents = static_shape(x.shape[1:-1]) if x.shape is not None else None
    if out is None or extents is None:
        _emit_cut(s, op, window, inputs, wanted)
        return
    same = s.options.int("padding") == Scheme.SAME
    before, after, extra = [], [], []
    for i, size in enumerate(window):
        step, reach = op.stride[i], (size - 1) * op.dilation[i] + 1
        total = max((-(-out[i] // step) - 1) * step + reach - out[i], 0) if same else 0
        rest = (extents[i] - 1) * step + reach - total // 2 - out[i]
        before.append(total // 2)
        after.append(max(rest, 0))
        extra.append(max(-rest, 0))
    s.emit(
        op.replace(
            padding=Padding(tuple(before), tuple(after)),
            output_padding=tuple(extra),
        ),
        inputs,
    )


def _emit_cut(
    s: Source,
    op: ConvTranspose2D | ConvTranspose3D,
    window: tuple[int, ...],
    inputs: list[Value | None],
    wanted: Shape,
) -> None:
    """The full transposed convolution, cut to the run-time shape that operand 0 says."""
    result = s.output_type()
    shape = s.operand(0)
    full = s.add(op.replace(output_padding=op.stride), inputs, quant=result.quant)

    def vector(entries: tuple[int, ...], edge: int) -> Value:
        return s.const(np.asarray((edge, *entries, edge), shape.dtype.numpy))

    zero, two = s.const(np.zeros(1, shape.dtype.numpy)), s.const(np.full(1, 2, shape.dtype.numpy))
    starts = vector((0,) * len(window), 0)
    if s.options.int("padding") == Scheme.SAME:
        # what the last window lacks, and what a window is longer than its stride
        reach = [(w - 1) * d + 1 for w, d in zip(window, op.dilation, strict=True)]
        longer = vector(tuple(r - p for r, p in zip(reach, op.stride, strict=True)), 0)
        lacking = s.add(e.FloorMod(), [s.add(e.Neg(), [shape]), vector(op.stride, 1)])
        total = s.add(e.Maximum(), [s.add(e.Add(), [lacking, longer]), zero])
        starts = s.add(e.FloorDiv(), [total, two])
    ends = s.add(e.Add(), [starts, shape])
    cut = Slice(starts=None, ends=None, strides=(1,) * (len(window) + 2))
    s.emit(cut, [full, starts, ends], shape=wanted)


_TRANSPOSE_BIAS_OPTIONS = struct.Struct("<iii")
"""MediaPipe's TfLiteTransposeConvParams: padding, stride_width, stride_height."""

_LITE_PADDING_SAME = 1
"""TfLitePadding's SAME; its VALID is 2, and 0 is unknown."""


def import_convolution_2d_transpose_bias(s: Source) -> None:
    """MediaPipe's Convolution2DTransposeBias: x, filter [O, H, W, I], bias; options are a C struct.

    SAME gives extent * stride, VALID (extent - 1) * stride + window.
    """
    x, weights, bias = s.operand(0), s.operand(1), s.optional(2)
    content = s.op.custom_options
    if len(content) < _TRANSPOSE_BIAS_OPTIONS.size:
        raise s.fail(
            f"{plural(len(content), 'byte')} of options, must be {_TRANSPOSE_BIAS_OPTIONS.size}"
        )
    padding, width, height = _TRANSPOSE_BIAS_OPTIONS.unpack_from(content)
    stride = (height, width)
    if min(stride) < 1:
        raise s.fail(f"stride is {height}x{width}, must be positive")
    spatial_extents(s, x, 4)
    window = filter_shape(s, weights, 4)[1:3]
    over = [w - p for w, p in zip(window, stride, strict=True)]
    if padding != _LITE_PADDING_SAME:
        over = [0, 0]
    before = tuple(max(o, 0) // 2 for o in over)
    op = ConvTranspose2D(
        layout=Layout.NHWC,
        stride=stride,
        dilation=(1, 1),
        padding=Padding(before, tuple(max(o, 0) - b for o, b in zip(over, before, strict=True))),
        output_padding=tuple(max(-o, 0) for o in over),
    )
    s.emit(op, [x, weights, bias])


IMPORTERS: dict[str, Importer] = {
    "CONV_2D": import_conv_2d,
    "DEPTHWISE_CONV_2D": import_depthwise_conv_2d,
    "CONV_3D": import_conv_3d,
    "TRANSPOSE_CONV": import_transpose_conv,
    "CONV_3D_TRANSPOSE": import_conv_3d_transpose,
    "CUSTOM:Convolution2DTransposeBias": import_convolution_2d_transpose_bias,
}
