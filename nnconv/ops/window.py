"""Ops on windows and grids over every dimension."""

from __future__ import annotations

from nnconv.ir.dtype import ANY
from nnconv.ir.op import (
    LayoutKind,
    Op,
    Operand,
    Perm,
    Permuted,
    QuantRule,
    Types,
    index_operand,
    op_class,
    operand_type,
)
from nnconv.ir.types import Dim, TensorType
from nnconv.ops.gather import Reduction
from nnconv.ops.moves import Move, moved


@op_class
class ReduceWindow(Op):
    """``init`` and the elements of each window, combined.

    Attributes have one entry a dimension: extent of the window, step from one to the next,
    distance of neighbours in one. There is no padding. It works on the stored numbers; integers
    wrap; AND and OR are for bools. TFLite REDUCE_WINDOW; ONNX one Slice for each place in the
    window.
    """

    operands = (Operand("x", ANY), Operand("init", ANY))
    layout_kind = LayoutKind.ATTRIBUTE
    quant_rule = QuantRule.EXACT

    reduction: Reduction
    window: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        rank = len(self.window)
        if len(self.stride) != rank or len(self.dilation) != rank:
            raise ValueError(
                f"window {self.window}, stride {self.stride}, dilation {self.dilation}"
            )
        if min((*self.window, *self.stride, *self.dilation), default=1) < 1:
            raise ValueError("window, stride and dilation must be positive")
        if x.shape is None:
            return (TensorType(x.dtype, (None,) * rank),)
        if len(x.shape) != rank:
            raise ValueError(f"a window of rank {rank} for rank {len(x.shape)}")
        places = zip(x.shape, self.window, self.stride, self.dilation, strict=True)
        return (TensorType(x.dtype, tuple(_window_count(*place) for place in places)),)

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if operand_type(types, 0).rank != len(perm):
            return None
        op = self.replace(
            window=tuple(self.window[p] for p in perm),
            stride=tuple(self.stride[p] for p in perm),
            dilation=tuple(self.dilation[p] for p in perm),
        )
        return Permuted(op, (perm, None), (perm,))


def _window_count(extent: Dim, window: int, stride: int, dilation: int) -> Dim:
    if not isinstance(extent, int):
        return extent if window == stride == 1 else None
    return max((extent - (window - 1) * dilation - 1) // stride + 1, 0)


@op_class
class Dilate(Move):
    """x with ``value`` (one element) between neighbours: factor - 1 of them in each dimension.

    ``dilations`` None: operand ``dilations`` (rank 1) gives the factors at run time. Quantized:
    the value has x's parameters. TFLite DILATE; ONNX Reshape, Pad, Reshape, Slice.
    """

    operands = (Operand("x", ANY), Operand("value", ANY), index_operand("dilations"))
    layout_kind = LayoutKind.ATTRIBUTE

    dilations: tuple[int, ...] | None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, value = operand_type(types, 0), operand_type(types, 1)
        if value.dtype is not x.dtype:
            raise ValueError(f"the value is {value.dtype}, must be {x.dtype}")
        if x.shape is None:
            return moved(x, None)
        if self.dilations is None:
            return moved(x, (None,) * len(x.shape))
        if len(self.dilations) != len(x.shape) or min(self.dilations, default=1) < 1:
            raise ValueError(f"factors {list(self.dilations)} for rank {len(x.shape)}")
        pairs = zip(x.shape, self.dilations, strict=True)
        return moved(x, tuple(_dilated(extent, factor) for extent, factor in pairs))

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if self.dilations is None or operand_type(types, 0).rank != len(perm):
            return None
        op = self.replace(dilations=tuple(self.dilations[p] for p in perm))
        return Permuted(op, (perm, *(None,) * (len(types) - 1)), (perm,))


def _dilated(extent: Dim, factor: int) -> Dim:
    if not isinstance(extent, int):
        return extent if factor == 1 else None
    return max((extent - 1) * factor + 1, 0)
