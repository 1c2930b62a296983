"""Counting n-grams in sequences of numbers."""

from __future__ import annotations

from typing import NamedTuple

from nnconv.ir.dtype import DType
from nnconv.ir.op import Op, Operand, QuantRule, Types, op_class, operand_type
from nnconv.ir.types import TensorType


class NGram(NamedTuple):
    """Numbers that follow each other, the place of their count in the result, and its weight."""

    numbers: tuple[int, ...]
    place: int
    weight: float = 1.0


@op_class
class TfIdf(Op):
    """How often n-grams occur in each sequence.

    x [L] or [N, L] of int32 or int64 gives [M] or [N, M], float32: the count of each of ``grams``
    at its place, 0 elsewhere. The numbers of an n-gram may stand 1, 2 ... or ``skips`` + 1 apart
    (all the same way); single numbers are counted once.

    Attributes:
        mode: what is given for a count: TF the count, IDF the weight where it isn't 0, TFIDF the
            count times the weight.
        shortest, longest: the lengths of n-grams that count.
        size: M, one more than the greatest place.

    ONNX TfIdfVectorizer of numbers.
    """

    operands = (Operand("x", frozenset({DType.INT32, DType.INT64})),)
    quant_rule = QuantRule.EXACT

    grams: tuple[NGram, ...]
    mode: str
    shortest: int
    longest: int
    skips: int
    size: int

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is None:
            return (TensorType(DType.FLOAT32, None),)
        if len(x.shape) not in (1, 2):
            raise ValueError(f"x has rank {len(x.shape)}, must have 1 or 2")
        return (TensorType(DType.FLOAT32, (*x.shape[:-1], self.size)),)

    def counted(self) -> dict[int, list[NGram]]:
        """The n-grams that count, by length."""
        found: dict[int, list[NGram]] = {}
        for gram in self.grams:
            if self.shortest <= len(gram.numbers) <= self.longest:
                found.setdefault(len(gram.numbers), []).append(gram)
        return found

    def distances(self, length: int) -> range:
        """How far apart the numbers of an n-gram may stand."""
        return range(1, 2 if length == 1 else self.skips + 2)
