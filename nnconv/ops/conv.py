"""Convolutions. Weights are OHWI in every layout; depthwise means as many groups as channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from nnconv.errors import plural
from nnconv.ir.dtype import EIGHT_BITS, FLOATS, DType
from nnconv.ir.op import (
    Activation,
    Layout,
    LayoutKind,
    Op,
    Operand,
    Perm,
    Permuted,
    QuantRule,
    Role,
    Types,
    op_class,
    operand_type,
    require_one_kind,
)
from nnconv.ir.types import Dim, TensorType, element_count
from nnconv.ops.spatial import (
    Padding,
    channel_dim,
    other,
    spatial_dims,
    to_layout,
    window_shape,
)

QUANTIZED = frozenset({DType.INT8, DType.UINT8, DType.INT16, DType.UINT16})
_DATA = FLOATS | QUANTIZED
_WEIGHTS = _DATA | {DType.INT4, DType.UINT4, DType.INT2}
_BIAS = FLOATS | {DType.INT32, DType.INT64}
_OPERANDS = (
    Operand("x", _DATA),
    Operand("weights", _WEIGHTS, Role.WEIGHT),
    Operand("bias", _BIAS, Role.BIAS, optional=True),
)


@op_class
class _Convolution(Op):
    operands: ClassVar[tuple[Operand, ...]] = _OPERANDS
    layout_kind: ClassVar[LayoutKind] = LayoutKind.IMPLICIT
    spatial_rank: ClassVar[int]

    layout: Layout = Layout.NHWC
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: Padding
    groups: int = 1
    activation: Activation = Activation.NONE

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        target = other(self.layout)
        if perm != to_layout(target, len(self.stride) + 2):
            return None
        rest = (None,) * (len(types) - 1)
        return Permuted(self.replace(layout=target), (perm, *rest), (perm,))


def _weight_dims(types: Types, spatial_rank: int) -> tuple[Dim, ...]:
    shape = operand_type(types, 1).shape
    if shape is None:
        return (None,) * (spatial_rank + 2)
    if len(shape) != spatial_rank + 2:
        raise ValueError(f"weights have rank {len(shape)}, must have {spatial_rank + 2}")
    return shape


def _check_channels(seen: Dim, allowed: Dim, what: str) -> None:
    if isinstance(seen, int) and isinstance(allowed, int) and seen != allowed:
        raise ValueError(f"{what} {seen}, must be {allowed}")


def check_bias(types: Types, filters: Dim) -> None:
    """See that a bias has one element for each filter.

    Raises:
        ValueError: when it has not.
    """
    kind = types[2] if len(types) > 2 else None
    require_one_kind((types[0], kind))
    count = None if kind is None else element_count(kind.shape)
    _check_channels(count, filters, "elements of the bias are")


class _DirectConvolution(_Convolution):
    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        rank = len(self.stride) + 2
        weights = _weight_dims(types, len(self.stride))
        window = tuple(d if isinstance(d, int) else 1 for d in weights[1:-1])
        if x.shape is not None and len(x.shape) == rank:
            channels, depth = x.shape[channel_dim(len(x.shape), self.layout)], weights[-1]
            if isinstance(depth, int):
                _check_channels(channels, depth * self.groups, "input channels are")
            if isinstance(weights[0], int) and weights[0] % self.groups:
                raise ValueError(
                    f"{plural(weights[0], 'filter')} can't be split into "
                    f"{plural(self.groups, 'group')}"
                )
        check_bias(types, weights[0])
        shape = window_shape(
            x.shape,
            self.layout,
            window=window,
            stride=self.stride,
            dilation=self.dilation,
            padding=self.padding,
            channels=weights[0],
        )
        return (TensorType(x.dtype, shape),)


class Conv1D(_DirectConvolution):
    """1-D convolution; see Conv2D. x [N,W,C] or [N,C,W]; weights [O,KW,C/groups]; bias [O].

    Spelled: ONNX Conv. TFLite has it as CONV_2D of height 1.
    """

    spatial_rank = 1


class Conv2D(_DirectConvolution):
    """2-D convolution: each result channel is a weighted sum over a window of its group's channels.

    Operands: x [N,H,W,C] or [N,C,H,W] by ``layout``; weights [O,KH,KW,C/groups]; bias [O],
    optional. Quantized: weights per tensor or per channel on axis 0; bias int32 (int64 with int16
    data) at scale x * weights. Spelled: TFLite CONV_2D and (groups = C) DEPTHWISE_CONV_2D; ONNX
    Conv with W as OIHW; NNAPI CONV_2D, DEPTHWISE_CONV_2D, GROUPED_CONV_2D; NNRt CONV2D,
    DEPTHWISE_CONV2D_NATIVE.
    """

    spatial_rank = 2


class Conv3D(_DirectConvolution):
    """3-D convolution. x [N,D,H,W,C] or [N,C,D,H,W]; weights [O,KD,KH,KW,C/groups]; bias [O].

    Spelled: TFLite CONV_3D (filter DHWIO, float only); ONNX Conv.
    """

    spatial_rank = 3


class ConvInteger(_DirectConvolution):
    """Convolution of integers less their zero points: int32, which wraps.

    Operands: x and weights as in Conv1D to Conv3D, by the number of strides; x_zero_point (one
    element) and weights_zero_point (one element, or one for each filter), both optional. Padding
    counts as zero points. It works on the stored numbers. Spelled: ONNX ConvInteger.
    """

    operands = (
        Operand("x", EIGHT_BITS),
        Operand("weights", EIGHT_BITS, Role.WEIGHT),
        Operand("x_zero_point", EIGHT_BITS, optional=True),
        Operand("weights_zero_point", EIGHT_BITS, optional=True),
    )
    quant_rule = QuantRule.EXACT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        filters = _weight_dims(types, len(self.stride))[0]
        for kind, allowed in zip(types[2:], ((1,), (1, filters)), strict=False):
            count = None if kind is None else element_count(kind.shape)
            if count is not None and None not in allowed and count not in allowed:
                raise ValueError(
                    f"zero points are {kind}, must be of {plural(allowed[-1], 'element')}"
                )
        return (TensorType(DType.INT32, super().infer(types[:2])[0].shape),)


@op_class
class _TransposedConvolution(_Convolution):
    """Adds what the forward formula can't tell: how far the result reaches.

    Attributes:
        output_padding: what is added at its end.
        size: its spatial extents, where those of x aren't known: ``padding`` and ``output_padding``
            are then worked out from both (``sized``).
    """

    output_padding: tuple[int, ...]
    size: tuple[int, ...] | None = None

    def sized(self, extents: Sequence[int], window: Sequence[int]) -> Self:
        """The op for an x of known spatial ``extents``: ``size`` as ``padding`` and what is added.

        The greater half of what is too much is cut off the end; with ``padding.lower`` the start.
        """
        if self.size is None:
            return self
        places = zip(extents, window, self.stride, self.dilation, self.output_padding, strict=True)
        full = [(n - 1) * step + (k - 1) * d + 1 + more for n, k, step, d, more in places]
        over = [length - wanted for length, wanted in zip(full, self.size, strict=True)]
        cut = [max(o, 0) for o in over]
        before = tuple((c + self.padding.lower) // 2 for c in cut)
        after = tuple(c - b for c, b in zip(cut, before, strict=True))
        more_after = zip(self.output_padding, over, strict=True)
        added = tuple(more + max(-o, 0) for more, o in more_after)
        return self.replace(size=None, padding=Padding(before, after), output_padding=added)

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        weights = _weight_dims(types, len(self.stride))
        if x.shape is None:
            return (TensorType(x.dtype, None),)
        rank = len(self.stride) + 2
        if len(x.shape) != rank:
            raise ValueError(f"input has rank {len(x.shape)}, must have {rank}")
        channels = x.shape[channel_dim(rank, self.layout)]
        _check_channels(channels, weights[-1], "input channels are")
        result: list[Dim] = [x.shape[0]] * rank
        filters = weights[0]
        result[channel_dim(rank, self.layout)] = (
            filters * self.groups if isinstance(filters, int) else None
        )
        check_bias(types, result[channel_dim(rank, self.layout)])
        for i, dim in enumerate(spatial_dims(rank, self.layout)):
            extent, window = x.shape[dim], weights[1 + i]
            if self.size is not None:
                result[dim] = self.size[i]
            elif isinstance(extent, int) and isinstance(window, int):
                reach = (window - 1) * self.dilation[i] + 1 + self.output_padding[i]
                full = (extent - 1) * self.stride[i] + reach
                result[dim] = full - self.padding.before[i] - self.padding.after[i]
            else:
                result[dim] = None
        return (TensorType(x.dtype, tuple(result)),)


class ConvTranspose1D(_TransposedConvolution):
    """1-D transposed convolution; see ConvTranspose2D. weights [O/groups,KW,C].

    Spelled: ONNX ConvTranspose. TFLite has it as TRANSPOSE_CONV of height 1.
    """

    spatial_rank = 1


class ConvTranspose2D(_TransposedConvolution):
    """2-D transposed convolution: each input element adds its multiple of the filter to the result.

    Operands: x [N,H,W,C] or [N,C,H,W]; weights [O/groups,KH,KW,C]; bias [O], optional. The result
    extent is (H-1)*stride + (KH-1)*dilation + 1 + output_padding - before - after: ``padding`` is
    what is cut off the full result, ``output_padding`` what is added (as zeros plus bias) at its
    end. Quantized: weights per channel on axis 0. Spelled: TFLite TRANSPOSE_CONV (filter OHWI) and
    MediaPipe's Convolution2DTransposeBias; ONNX ConvTranspose (W as [C, O/groups, kh, kw]); NNAPI
    TRANSPOSE_CONV_2D; NNRt CONV2D_TRANSPOSE.
    """

    spatial_rank = 2


class ConvTranspose3D(_TransposedConvolution):
    """3-D transposed convolution; see ConvTranspose2D. weights [O/groups,KD,KH,KW,C].

    Spelled: TFLite CONV_3D_TRANSPOSE (filter DHWOI, float only); ONNX ConvTranspose.
    """

    spatial_rank = 3
