"""Resizing of images."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from nnconv.ir.dtype import FLOATS, DType
from nnconv.ir.op import (
    Layout,
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
from nnconv.ops.moves import moved
from nnconv.ops.spatial import other, spatial_dims, to_layout

_REAL = FLOATS | {DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32}
_CHOSEN = _REAL | {DType.UINT32, DType.BOOL}


@op_class
class _Resize(Op):
    # It works in either layout, so it follows its neighbours instead of starting a region.
    layout_kind: ClassVar[LayoutKind] = LayoutKind.ATTRIBUTE

    layout: Layout = Layout.NHWC
    size: tuple[int, int] | None
    align_corners: bool = False
    half_pixel: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is None:
            return moved(x, None)
        if len(x.shape) != 4:
            raise ValueError(f"input has rank {len(x.shape)}, must have 4")
        result: list[Dim] = list(x.shape)
        for i, dim in enumerate(spatial_dims(4, self.layout)):
            result[dim] = None if self.size is None else self.size[i]
        return moved(x, tuple(result))

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        target = other(self.layout)
        if perm != to_layout(target, 4):
            return None
        rest = (None,) * (len(types) - 1)
        return Permuted(self.replace(layout=target), (perm, *rest), (perm,))


class ResizeBilinear(_Resize):
    """Bilinear interpolation to ``size`` (height, width; None: operand ``size``).

    x [N,H,W,C] or [N,C,H,W]. Result element i lies at i * scale of the input, with scale =
    input / result extent; with ``half_pixel`` at (i + 0.5) * scale - 0.5. With ``align_corners``
    scale is that of the extents less 1, unless the result's is 1. Outside, the edge goes on.
    TFLite RESIZE_BILINEAR, ONNX Resize (linear), NNAPI RESIZE_BILINEAR, NNRt RESIZE_BILINEAR.
    """

    operands = (Operand("x", _REAL), index_operand("size"))


class ResizeNearest(_Resize):
    """The nearest element, for a result of ``size`` (height, width; None: operand ``size``).

    Result element i takes floor(i * scale), with scale = input / result extent; with ``half_pixel``
    floor((i + 0.5) * scale). With ``align_corners`` scale is that of the extents less 1, unless the
    result's is 1, and half is rounded up. The products are float32 ones; indices are clamped.
    TFLite and NNAPI RESIZE_NEAREST_NEIGHBOR, ONNX Resize (nearest), NNRt RESIZE.
    """

    operands = (Operand("x", _CHOSEN), index_operand("size"))
    quant_rule = QuantRule.CODES


def source_places(op: ResizeBilinear | ResizeNearest, extent: int, size: int) -> np.ndarray:
    """Where in an input of ``extent`` each of ``size`` result elements lies: float32 [size].

    Not clamped; for ResizeNearest with ``half_pixel`` without the half subtracted.
    """
    if op.align_corners and size > 1:
        scale = np.float32(extent - 1) / np.float32(size - 1)
    else:
        scale = np.float32(extent) / np.float32(size)
    steps = np.arange(size, dtype=np.float32)
    if not op.half_pixel:
        return steps * scale
    middles = (steps + np.float32(0.5)) * scale
    return middles if isinstance(op, ResizeNearest) else middles - np.float32(0.5)


def nearest_indices(op: ResizeNearest, extent: int, size: int) -> np.ndarray:
    """Which of ``extent`` elements each of ``size`` result elements takes: int64 [size]."""
    places = source_places(op, extent, size)
    chosen = np.floor(places + np.float32(0.5)) if op.align_corners else np.floor(places)
    return np.clip(chosen.astype(np.int64), 0, extent - 1)
