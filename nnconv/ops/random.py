"""Ops that draw random numbers.

``seeds`` are the numbers that begin a stream, as many as the source's runtime takes; None: another
stream in each run. Every runtime has its own generator, so with equal seeds, too, only how often a
number is drawn can be compared between two of them. The reference backend, unlike the others,
begins a stream of its seeds anew in each run.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from nnconv.errors import plural
from nnconv.ir.dtype import ANY, FLOATS, NUMBERS, DType
from nnconv.ir.op import (
    Op,
    Operand,
    QuantRule,
    Role,
    Types,
    index_operand,
    op_class,
    operand_type,
    require_rank,
)
from nnconv.ir.types import TensorType, shape_of_rank
from nnconv.ops.gather import INDEX_TYPES

Seeds: TypeAlias = tuple[float, ...] | None


class _Draw(Op):
    """Base of the ops of this file."""

    quant_rule: ClassVar[QuantRule] = QuantRule.EXACT
    draws: ClassVar[bool] = True


class _Filled(_Draw):
    """Base of tensors full of random numbers.

    Their shape is that of operand ``like``, if there is one, else ``shape``; where that is None,
    operand ``shape`` gives it at run time.
    """

    operands = (index_operand("shape"), Operand("like", ANY, optional=True))

    shape: tuple[int, ...] | None
    dtype: DType

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        if self.dtype not in FLOATS:
            raise ValueError(f"draws of {self.dtype}, must be floats")
        if len(types) > 1 and types[1] is not None:
            return (TensorType(self.dtype, types[1].shape),)
        if self.shape is not None:
            if any(dim < 0 for dim in self.shape):
                raise ValueError(f"the shape is {list(self.shape)}")
            return (TensorType(self.dtype, self.shape),)
        sizes = operand_type(types, 0).shape
        rank = sizes[0] if sizes is not None and len(sizes) == 1 else None
        return (TensorType(self.dtype, shape_of_rank(rank)),)


@op_class
class RandomUniform(_Filled):
    """Numbers from ``low`` to below ``high``, all alike.

    ONNX RandomUniform and RandomUniformLike, TFLite RANDOM_UNIFORM (from 0 to 1).
    """

    shape: tuple[int, ...] | None
    dtype: DType = DType.FLOAT32
    low: float = 0.0
    high: float = 1.0
    seeds: Seeds = None


@op_class
class RandomNormal(_Filled):
    """Numbers of the normal distribution with this mean and standard deviation.

    ONNX RandomNormal and RandomNormalLike, TFLite RANDOM_STANDARD_NORMAL (0 and 1).
    """

    shape: tuple[int, ...] | None
    dtype: DType = DType.FLOAT32
    mean: float = 0.0
    deviation: float = 1.0
    seeds: Seeds = None


@op_class
class Bernoulli(_Draw):
    """1 with the probability that x has, else 0. ONNX Bernoulli.

    onnxruntime, and onnx's own definition by other ops, give 0 with that probability.
    """

    operands = (Operand("x", FLOATS),)

    dtype: DType
    seeds: Seeds = None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        if self.dtype is not DType.BOOL and self.dtype not in NUMBERS:
            raise ValueError(f"draws of {self.dtype}, must be numbers or truth values")
        return (TensorType(self.dtype, operand_type(types, 0).shape),)


@op_class
class Multinomial(_Draw):
    """``samples`` draws of a class for each row of logits [B, C]: [B, samples].

    A class is drawn with the probability that Softmax gives it. Operand ``seeds`` gives the seeds
    at run time, where they aren't known. Seeds that are all 0 are none. ONNX Multinomial, TFLite
    MULTINOMIAL, NNAPI RANDOM_MULTINOMIAL.
    """

    operands = (
        Operand("logits", FLOATS),
        Operand("seeds", INDEX_TYPES, Role.INDEX, optional=True),
    )

    samples: int
    dtype: DType = DType.INT32
    seeds: Seeds = None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        if self.dtype not in (DType.INT32, DType.INT64):
            raise ValueError(f"draws of {self.dtype}, must be int32 or int64")
        if self.samples < 0:
            raise ValueError(plural(self.samples, "sample"))
        logits = require_rank(operand_type(types, 0).shape, 2, "logits")
        batch = None if logits is None else logits[0]
        return (TensorType(self.dtype, (batch, self.samples)),)
