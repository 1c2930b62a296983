"""What the ops that move elements without computing on them have in common."""

from __future__ import annotations

from typing import ClassVar

from nnconv.ir.dtype import ANY
from nnconv.ir.op import Op, Operand, QuantRule, Types, operand_type
from nnconv.ir.types import Dim, Shape, TensorType, shape_of_rank


class Move(Op):
    """Base of ops that give codes on unchanged: the result has x's dtype and parameters."""

    operands: ClassVar[tuple[Operand, ...]] = (Operand("x", ANY),)
    quant_rule: ClassVar[QuantRule] = QuantRule.CODES


def moved(x: TensorType, shape: Shape) -> tuple[TensorType, ...]:
    """The result type of a move: x's dtype and per-tensor parameters, another shape."""
    quant = x.quant if x.quant is not None and x.quant.is_per_tensor else None
    return (TensorType(x.dtype, shape, quant),)


def given_shape(types: Types) -> Shape:
    """What is known of a shape that operand 1 gives at run time: its rank at the most."""
    return shape_of_rank(length_of(operand_type(types, 1)))


def length_of(kind: TensorType) -> Dim:
    """How many elements a vector has; None where that isn't known, or it is none."""
    return kind.shape[0] if kind.shape is not None and len(kind.shape) == 1 else None
