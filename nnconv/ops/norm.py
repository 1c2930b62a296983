"""Ops that normalize along an axis."""

from __future__ import annotations

from typing import ClassVar

from nnconv.ir.dtype import FLOATS, INTEGERS
from nnconv.ir.op import (
    Activation,
    LayoutKind,
    Op,
    Operand,
    Perm,
    Permuted,
    Types,
    op_class,
    operand_type,
)
from nnconv.ir.types import TensorType


@op_class
class _Normalization(Op):
    operands: ClassVar[tuple[Operand, ...]] = (Operand("x", FLOATS | INTEGERS),)
    layout_kind: ClassVar[LayoutKind] = LayoutKind.ATTRIBUTE

    axis: int

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is not None and not 0 <= self.axis < max(len(x.shape), 1):
            raise ValueError(f"axis {self.axis} is out of range for rank {len(x.shape)}")
        return (TensorType(x.dtype, x.shape),)

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if operand_type(types, 0).rank != len(perm):
            return None
        return Permuted(self.replace(axis=perm.index(self.axis)), (perm,), (perm,))


@op_class
class Softmax(_Normalization):
    """e**(beta * x) over its sum along ``axis`` (from the front). Quantized: result scale 1/256.

    TFLite SOFTMAX (last axis), ONNX Softmax, NNAPI SOFTMAX, NNRt SOFTMAX.
    """

    beta: float = 1.0


class Hardmax(_Normalization):
    """1 at the first of the greatest along ``axis``, 0 elsewhere. ONNX Hardmax."""


@op_class
class LogSoftmax(_Normalization):
    """Logarithm of Softmax. Quantized: result scale 16/256.

    TFLite LOG_SOFTMAX, ONNX LogSoftmax, NNAPI LOG_SOFTMAX, NNRt LOG_SOFTMAX.
    """

    beta: float = 1.0


@op_class
class L2Normalization(_Normalization):
    """x / max(root of the sum of squares along ``axis``, ``epsilon``).

    TFLite L2_NORMALIZATION (last axis, epsilon 1e-6), NNAPI L2_NORMALIZATION, NNRt L2_NORMALIZE.
    """

    epsilon: float = 1e-6
    activation: Activation = Activation.NONE


@op_class
class LpNormalization(_Normalization):
    """x / (sum of |x|**p along ``axis``)**(1/p), for ``p`` 1 or 2; 0 where that norm is 0.

    ONNX LpNormalization.
    """

    operands = (Operand("x", FLOATS),)

    p: int = 2


@op_class
class LocalResponseNormalization(_Normalization):
    """x / (bias + alpha * sum of squares) ** beta.

    The sum is over x and its ``radius`` neighbours on each side along ``axis``, and ``behind`` more
    behind it; alpha isn't divided by their number (ONNX's is).
    TFLite LOCAL_RESPONSE_NORMALIZATION, ONNX LRN, NNAPI LOCAL_RESPONSE_NORMALIZATION, NNRt LRN.
    """

    radius: int
    bias: float
    alpha: float
    beta: float
    behind: int = 0
