"""Products of matrices."""

from __future__ import annotations

from nnconv.ir.dtype import FLOATS, NUMBERS, DType
from nnconv.ir.op import (
    Activation,
    Op,
    Operand,
    Perm,
    Permuted,
    Role,
    Types,
    op_class,
    operand_type,
    require_one_kind,
)
from nnconv.ir.types import Dim, TensorType, broadcast_shapes
from nnconv.ops.conv import QUANTIZED, check_bias

_WEIGHTS = FLOATS | QUANTIZED | {DType.INT4, DType.UINT4, DType.INT2}


@op_class
class FullyConnected(Op):
    """x [..., I] times weights [O, I] transposed, plus bias [O] (optional): [..., O].

    Quantized: weights per tensor, per channel on axis 0 or per block along axis 1; bias int32
    (int64 with int16 data) at scale x * weights. TFLite FULLY_CONNECTED; ONNX Gemm or MatMul, Add;
    NNAPI FULLY_CONNECTED; NNRt FULL_CONNECTION.
    """

    operands = (
        Operand("x", FLOATS | QUANTIZED),
        Operand("weights", _WEIGHTS, Role.WEIGHT),
        Operand("bias", FLOATS | {DType.INT32, DType.INT64}, Role.BIAS, optional=True),
    )

    activation: Activation = Activation.NONE

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, weights = operand_type(types, 0), operand_type(types, 1)
        if weights.shape is not None and len(weights.shape) != 2:
            raise ValueError(f"weights have rank {len(weights.shape)}, must have 2")
        if x.shape is None:
            return (TensorType(x.dtype, None),)
        if not x.shape:
            raise ValueError("input is a scalar, must have a last dimension")
        out, depth = weights.shape if weights.shape is not None else (None, None)
        if isinstance(depth, int) and isinstance(x.shape[-1], int) and depth != x.shape[-1]:
            raise ValueError(f"the input's last extent is {x.shape[-1]}, the weights take {depth}")
        check_bias(types, out)
        return (TensorType(x.dtype, (*x.shape[:-1], out)),)


@op_class
class MatMul(Op):
    """a [..., M, K] times b [..., K, N], leading dimensions broadcast; either may come transposed.

    A vector is a matrix of one row (a) or column (b), which the result lacks.
    TFLite BATCH_MATMUL; ONNX MatMul; NNAPI BATCH_MATMUL; NNRt MATMUL.
    """

    operands = (Operand("a", NUMBERS), Operand("b", NUMBERS))

    transpose_a: bool = False
    transpose_b: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        a, b = operand_type(types, 0), operand_type(types, 1)
        require_one_kind((a, b))
        if a.shape is None or b.shape is None:
            return (TensorType(a.dtype, None),)
        if not a.shape or not b.shape:
            raise ValueError(f"operands have ranks {len(a.shape)} and {len(b.shape)}, at least 1")
        rows, inner_a = _matrix(a.shape, transposed=self.transpose_a)
        inner_b, columns = _matrix(b.shape, transposed=self.transpose_b, column=True)
        if isinstance(inner_a, int) and isinstance(inner_b, int) and inner_a != inner_b:
            raise ValueError(f"inner extents are {inner_a} and {inner_b}, must be equal")
        lead = broadcast_shapes((a.shape[:-2], b.shape[:-2]))
        if lead is None:
            return (TensorType(a.dtype, None),)
        shape = [*lead]
        shape += [rows] if len(a.shape) > 1 else []
        shape += [columns] if len(b.shape) > 1 else []
        return (TensorType(a.dtype, tuple(shape)),)

    def permute_back(self, perm: Perm, types: Types) -> Permuted | None:
        """The transpose of a product is the product of the transposes, in the other order."""
        a, b = operand_type(types, 0), operand_type(types, 1)
        if not _turns_matrices(perm) or max(a.rank or 0, b.rank or 0) != len(perm):
            return None
        op = self.replace(transpose_a=not self.transpose_b, transpose_b=not self.transpose_a)
        return Permuted(op, (None, None), (perm,), order=(1, 0))

    def absorb(self, index: int, perm: Perm, types: Types) -> Op | None:
        if not _turns_matrices(perm) or operand_type(types, index).rank != len(perm):
            return None
        if index:
            return self.replace(transpose_b=not self.transpose_b)
        return self.replace(transpose_a=not self.transpose_a)


def _turns_matrices(perm: Perm) -> bool:
    rank = len(perm)
    return rank > 1 and perm == (*range(rank - 2), rank - 1, rank - 2)


def _matrix(shape: tuple[Dim, ...], *, transposed: bool, column: bool = False) -> tuple[Dim, Dim]:
    """Rows and columns of an operand; a vector is one row, or one ``column``."""
    if len(shape) == 1:
        if transposed:
            raise ValueError("a vector can't be transposed")
        return (shape[0], 1) if column else (1, shape[0])
    return (shape[-1], shape[-2]) if transposed else (shape[-2], shape[-1])
