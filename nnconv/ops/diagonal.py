"""Ops on the diagonals and triangles of matrices, which are the last two dimensions."""

from __future__ import annotations

from nnconv.ir.dtype import ANY, FLOATS, INTEGERS, DType
from nnconv.ir.op import Op, Operand, QuantRule, Types, index_operand, op_class, operand_type
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


@op_class
class Trilu(Op):
    """One triangle of the matrices x [..., m, n] with a diagonal, the stored number 0 elsewhere.

    Diagonal ``k`` is ``k`` places to the right of the main one; None: operand ``k`` gives it.
    ONNX Trilu.
    """

    operands = (Operand("x", ANY), index_operand("k"))
    quant_rule = QuantRule.EXACT

    k: int | None = 0
    upper: bool = True

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is not None and len(x.shape) < 2:
            raise ValueError(f"x has rank {len(x.shape)}, must have at least 2")
        return (TensorType(x.dtype, x.shape),)


@op_class
class EyeLike(Op):
    """A matrix of x's shape [m, n] with 1 on diagonal ``k`` (see Trilu) and 0 elsewhere.

    ONNX EyeLike.
    """

    operands = (Operand("x", ANY),)
    quant_rule = QuantRule.EXACT

    dtype: DType
    k: int = 0

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.rank not in (None, 2):
            raise ValueError(f"x has rank {x.rank}, must have 2")
        if self.dtype not in FLOATS | INTEGERS | {DType.BOOL}:
            raise ValueError(f"there is no 1 of type {self.dtype}")
        return (TensorType(self.dtype, x.shape if x.shape is not None else (None, None)),)
