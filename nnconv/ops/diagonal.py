"""Ops on the diagonals of matrices, which are the last two dimensions."""

from __future__ import annotations

from nnconv.ir.dtype import ANY
from nnconv.ir.op import Op, Operand, QuantRule, Types, operand_type
from nnconv.ir.types import TensorType


class MatrixDiag(Op):
    """Matrices [..., n, n] with the vectors x [..., n] as diagonals; the stored number 0 elsewhere.

    TFLite MATRIX_DIAG; ONNX Where.
    """

    operands = (Operand("x", ANY),)
    quant_rule = QuantRule.EXACT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is None:
            return (TensorType(x.dtype, None),)
        if not x.shape:
            raise ValueError("x has rank 0, must have at least 1")
        return (TensorType(x.dtype, (*x.shape, x.shape[-1])),)


class MatrixSetDiag(Op):
    """Matrices x [..., m, n] with ``diagonal`` [..., min(m, n)] in place of their diagonals.

    It works on the stored numbers. TFLite MATRIX_SET_DIAG; ONNX Where.
    """

    operands = (Operand("x", ANY), Operand("diagonal", ANY))
    quant_rule = QuantRule.EXACT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, diagonal = operand_type(types, 0), operand_type(types, 1)
        if diagonal.dtype is not x.dtype:
            raise ValueError(f"the diagonal is {diagonal.dtype}, must be {x.dtype}")
        if x.shape is not None:
            if len(x.shape) < 2:
                raise ValueError(f"x has rank {len(x.shape)}, must have at least 2")
            if diagonal.rank not in (None, len(x.shape) - 1):
                raise ValueError(f"the diagonal is {diagonal}, x is {x}")
        return (TensorType(x.dtype, x.shape),)
