"""Pooling: a window slides over each channel by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from nnconv.ir.dtype import FLOATS, INTEGERS, DType
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
    index_operand,
    op_class,
    operand_type,
)
from nnconv.ir.types import Dim, Shape, TensorType
from nnconv.ops.conv import QUANTIZED
from nnconv.ops.spatial import (
    Padding,
    channel_dim,
    other,
    spatial_dims,
    to_layout,
    window_shape,
)


@op_class
class _Pool(Op):
    """What pools share.

    Attributes:
        window, stride: extents of the window and steps from one to the next.
        padding: what is put around x.
        dilation: distance of neighbours in a window; empty for ones.
        ceil: whether a last window may reach beyond the padding, if it starts before that.
    """

    operands: ClassVar[tuple[Operand, ...]] = (Operand("x", FLOATS | QUANTIZED),)
    layout_kind: ClassVar[LayoutKind] = LayoutKind.IMPLICIT

    layout: Layout = Layout.NHWC
    window: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Padding
    dilation: tuple[int, ...] = ()
    ceil: bool = False
    activation: Activation = Activation.NONE

    @property
    def dilations(self) -> tuple[int, ...]:
        """The dilation, one number a spatial dimension."""
        return self.dilation or (1,) * len(self.window)

    @property
    def is_plain(self) -> bool:
        """Whether it has neither a dilation nor windows that reach beyond the padding."""
        return not self.ceil and all(spread == 1 for spread in self.dilation)

    def reached(self, extents: Sequence[Dim]) -> Padding | None:
        """The padding with what the last windows reach beyond it; None where it isn't known.

        Extents that aren't known get what a last window may need.
        """
        if not self.ceil or self.padding.same:
            return self.padding
        ends = []
        for i, extent in enumerate(extents):
            before, after = self.padding.before[i], self.padding.after[i]
            reach, step = (self.window[i] - 1) * self.dilations[i] + 1, self.stride[i]
            if isinstance(extent, int):
                room = extent + before + after - reach
                count = -(-room // step)
                if count * step >= extent + before:
                    count -= 1
                ends.append(after + max(count * step - room, 0))
            elif after or step > reach:
                return None  # a window of padding alone might come about
            else:
                ends.append(step - 1)
        return Padding(self.padding.before, tuple(ends))

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        channels = None
        if x.shape is not None and len(x.shape) == len(self.window) + 2:
            channels = x.shape[channel_dim(len(x.shape), self.layout)]
        shape = window_shape(
            x.shape,
            self.layout,
            window=self.window,
            stride=self.stride,
            dilation=self.dilations,
            padding=self.padding,
            channels=channels,
            ceil=self.ceil,
        )
        return (TensorType(x.dtype, shape),)

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        target = other(self.layout)
        if perm != to_layout(target, len(self.window) + 2):
            return None
        results = (perm,) * len(self.infer(types))
        return Permuted(self.replace(layout=target), (perm,), results)


class _MaxPool(_Pool):
    operands = (Operand("x", FLOATS | INTEGERS),)
    quant_rule = QuantRule.CODES

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        return (replace(super().infer(types)[0], quant=operand_type(types, 0).quant),)


class MaxPool1D(_MaxPool):
    """Greatest element of each window; see MaxPool2D. x [N,W,C] or [N,C,W]. ONNX MaxPool."""


class MaxPool2D(_MaxPool):
    """Greatest element of each window; padding never wins. x [N,H,W,C] or [N,C,H,W].

    Quantized: codes are compared; the result has x's parameters.
    Spelled: TFLite MAX_POOL_2D; ONNX MaxPool; NNAPI MAX_POOL_2D; NNRt MAX_POOL.
    """


class MaxPool3D(_MaxPool):
    """Greatest element of each window; see MaxPool2D. x [N,D,H,W,C] or [N,C,D,H,W].

    Spelled: ONNX MaxPool.
    """


@op_class
class MaxPoolIndices(_MaxPool):
    """Greatest element of each window, and where it is: two results of one shape, values and int64.

    x has any number of spatial dimensions. A place is the number of the element in x taken as
    [N, C, spatial...] in row-major order, whatever ``layout`` says; with ``column_major`` the first
    spatial dimension counts fastest. The first of equals wins. ONNX MaxPool with two outputs.
    """

    column_major: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        values = super().infer(types)[0]
        return values, TensorType(DType.INT64, values.shape)


@op_class
class _AveragePool(_Pool):
    """Whether padding counts as zeros; it never does beyond the padding."""

    count_padding: bool = False


class AveragePool1D(_AveragePool):
    """Mean of each window; see AveragePool2D. x [N,W,C] or [N,C,W]. ONNX AveragePool."""


class AveragePool2D(_AveragePool):
    """Mean of each window. x [N,H,W,C] or [N,C,H,W].

    ``count_padding`` says whether padding counts as zeros; TFLite, NNAPI and NNRt leave it out of
    the mean. Spelled: TFLite AVERAGE_POOL_2D; ONNX AveragePool; NNAPI AVERAGE_POOL_2D; NNRt
    AVG_POOL.
    """


class AveragePool3D(_AveragePool):
    """Mean of each window; see AveragePool2D. x [N,D,H,W,C] or [N,C,D,H,W]. ONNX AveragePool."""


class L2Pool2D(_Pool):
    """Root of the mean of squares of each window, padding left out. x [N,H,W,C] or [N,C,H,W].

    Spelled: TFLite L2_POOL_2D; NNAPI L2_POOL_2D; ONNX Sqrt(AveragePool(x*x)).
    """


@op_class
class LpPool(_Pool):
    """(sum of |x|**p)**(1/p) of each window, for any number of spatial dimensions. ONNX LpPool."""

    operands = (Operand("x", FLOATS),)

    p: int = 2


@op_class
class GlobalLpPool(Op):
    """(sum of |x|**p)**(1/p) over all spatial dimensions, which stay with extent 1.

    x [N,spatial...,C] or [N,C,spatial...]. ONNX GlobalLpPool.
    """

    operands = (Operand("x", FLOATS),)
    layout_kind = LayoutKind.ATTRIBUTE

    layout: Layout = Layout.NHWC
    p: int = 2

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is None:
            return (TensorType(x.dtype, None),)
        if len(x.shape) < 2:
            raise ValueError(f"input has rank {len(x.shape)}, must have 2 or more")
        result: list[Dim] = list(x.shape)
        for dim in spatial_dims(len(x.shape), self.layout):
            result[dim] = 1
        return (TensorType(x.dtype, tuple(result)),)

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        target = other(self.layout)
        if perm != to_layout(target, len(perm)) or operand_type(types, 0).rank != len(perm):
            return None
        return Permuted(self.replace(layout=target), (perm,), (perm,))


@op_class
class MaxUnpool(Op):
    """Zeros of a shape with the elements of x where ``indices`` (int64, x's shape) put them.

    Places are numbers of elements of the result in row-major order. Its extents are
    (extent - 1) * stride + window - padding, or what operand ``shape`` (rank 1, all dimensions)
    says. x [N,C,spatial...]. MaxPoolIndices' inverse, but for what was no maximum. ONNX MaxUnpool.

    Attributes:
        shape: the operand's elements where they are known; None where the operand gives them or
            there is none.
    """

    operands = (
        Operand("x", FLOATS | INTEGERS),
        Operand("indices", frozenset({DType.INT64}), Role.INDEX),
        index_operand("shape"),
    )
    quant_rule = QuantRule.EXACT

    window: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Padding
    shape: tuple[int, ...] | None = None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        shape: Shape = self.shape
        if shape is None and len(types) > 2 and types[2] is not None:
            shape = None if x.shape is None else (None,) * len(x.shape)
        elif shape is None and x.shape is not None:
            if len(x.shape) != len(self.window) + 2:
                raise ValueError(f"a window {self.window} for rank {len(x.shape)}")
            around = zip(
                x.shape[2:],
                self.window,
                self.stride,
                self.padding.before,
                self.padding.after,
                strict=True,
            )
            shape = (
                *x.shape[:2],
                *(
                    (n - 1) * step + size - before - after if isinstance(n, int) else None
                    for n, size, step, before, after in around
                ),
            )
        return (TensorType(x.dtype, shape),)
