"""Fourier transforms."""

from __future__ import annotations

from nnconv.ir.dtype import DType
from nnconv.ir.op import Op, Operand, Types, op_class, operand_type
from nnconv.ir.types import Dim, TensorType
from nnconv.ops.shape import index_operand


@op_class
class RFFT2D(Op):
    """Two-dimensional Fourier transform of real values.

    x [..., H, W] float32 to [..., h, w/2 + 1] complex64. ``length`` is (h, w) (None: operand
    ``length``): x is first cut or filled with zeros at its ends to it.
    TFLite RFFT2D.
    """

    operands = (Operand("x", frozenset({DType.FLOAT32})), index_operand("length"))

    length: tuple[int, int] | None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is None:
            return (TensorType(DType.COMPLEX64, None),)
        if len(x.shape) < 2:
            raise ValueError(f"input has rank {len(x.shape)}, must have at least 2")
        last: tuple[Dim, Dim] = (None, None)
        if self.length is not None:
            last = self.length[0], self.length[1] // 2 + 1
        return (TensorType(DType.COMPLEX64, (*x.shape[:-2], *last)),)
