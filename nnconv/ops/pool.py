"""Pooling: a window slides over each channel by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from nnconv.ir.dtype import FLOATS, INTEGERS
from nnconv.ir.op import (
    Activation,
    Layout,
    LayoutKind,
    Op,
    Operand,
    Perm,
    Permuted,
    QuantRule,
    Types,
    op_class,
    operand_type,
)
from nnconv.ir.types import TensorType
from nnconv.ops.conv import QUANTIZED
from nnconv.ops.spatial import Padding, channel_dim, other, to_layout, window_shape


@op_class
class _Pool(Op):
    operands: ClassVar[tuple[Operand, ...]] = (Operand("x", FLOATS | QUANTIZED),)
    layout_kind: ClassVar[LayoutKind] = LayoutKind.IMPLICIT

    layout: Layout = Layout.NHWC
    window: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Padding
    activation: Activation = Activation.NONE

    @property
    def dilations(self) -> tuple[int, ...]:
        return (1,) * len(self.window)

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
        )
        return (TensorType(x.dtype, shape),)

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        target = other(self.layout)
        if perm != to_layout(target, len(self.window) + 2):
            return None
        return Permuted(self.replace(layout=target), (perm,), (perm,))


class MaxPool2D(_Pool):
    """Greatest element of each window; padding never wins. x [N,H,W,C] or [N,C,H,W].

    Quantized: codes are compared; the result has x's parameters.
    Spelled: TFLite MAX_POOL_2D; ONNX MaxPool; NNAPI MAX_POOL_2D; NNRt MAX_POOL.
    """

    operands = (Operand("x", FLOATS | INTEGERS),)
    quant_rule = QuantRule.CODES

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        return (replace(super().infer(types)[0], quant=operand_type(types, 0).quant),)


@op_class
class AveragePool2D(_Pool):
    """Mean of each window. x [N,H,W,C] or [N,C,H,W].

    ``count_padding`` says whether padding counts as zeros; TFLite, NNAPI and NNRt leave it out of
    the mean. Spelled: TFLite AVERAGE_POOL_2D; ONNX AveragePool; NNAPI AVERAGE_POOL_2D; NNRt
    AVG_POOL.
    """

    count_padding: bool = False


class L2Pool2D(_Pool):
    """Root of the mean of squares of each window, padding left out. x [N,H,W,C] or [N,C,H,W].

    Spelled: TFLite L2_POOL_2D; NNAPI L2_POOL_2D; ONNX Sqrt(AveragePool(x*x)).
    """
