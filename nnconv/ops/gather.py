"""Ops that pick elements by index, or put them at indices."""

from __future__ import annotations

import enum

import numpy as np

from nnconv.ir.dtype import ANY, NUMBERS, DType
from nnconv.ir.op import (
    LayoutKind,
    Op,
    Operand,
    Perm,
    Permuted,
    QuantRule,
    Role,
    Types,
    op_class,
    operand_type,
)
from nnconv.ir.types import Dim, TensorType, merge_dim
from nnconv.ops.reduce import reduced_perm
from nnconv.ops.shape import Move, index_operand, moved

INDEX_TYPES = frozenset(
    {DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.UINT32, DType.INT64}
)
"""Integer types that indices come in."""


class Reduction(enum.Enum):
    """How values that meet in one place are combined."""

    NONE = "none"
    """The last one stays."""

    ADD = "add"
    MUL = "mul"
    MIN = "min"
    MAX = "max"
    AND = "and"
    OR = "or"

    def start(self, dtype: DType) -> int | float:
        """What changes nothing: 0, 1, the greatest or the least finite value of ``dtype``."""
        if self in (Reduction.MUL, Reduction.AND):
            return 1
        if self not in (Reduction.MIN, Reduction.MAX):
            return 0
        if dtype.is_integer:
            return dtype.int_range[self is Reduction.MIN]
        greatest = float(np.finfo(dtype.numpy).max)
        return greatest if self is Reduction.MIN else -greatest


@op_class
class Gather(Move):
    """The slices of x along ``axis`` (from the front) that ``indices`` name; -1 is the last.

    The result is x[:axis] + indices[batch_dims:] + x[axis + 1:]. The first ``batch_dims`` (at most
    ``axis``) dimensions are common to both: each of their slices has indices of its own.
    Quantized: x's parameters. TFLite GATHER and EMBEDDING_LOOKUP, ONNX Gather, NNAPI GATHER and
    EMBEDDING_LOOKUP, NNRt GATHER.
    """

    operands = (Operand("x", ANY), Operand("indices", INDEX_TYPES, Role.INDEX))
    layout_kind = LayoutKind.ATTRIBUTE

    axis: int
    batch_dims: int = 0

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, indices = operand_type(types, 0), operand_type(types, 1)
        if x.shape is None or indices.shape is None:
            return moved(x, None)
        if not 0 <= self.axis < len(x.shape):
            raise ValueError(f"axis {self.axis} is out of range for rank {len(x.shape)}")
        batch = self.batch_dims
        if not 0 <= batch <= min(self.axis, len(indices.shape)):
            raise ValueError(
                f"batch_dims {batch} doesn't fit axis {self.axis} and indices of rank"
                f" {len(indices.shape)}"
            )
        lead = tuple(merge_dim(a, b) for a, b in zip(x.shape[:batch], indices.shape, strict=False))
        shape = (*lead, *x.shape[batch : self.axis], *indices.shape[batch:])
        return moved(x, (*shape, *x.shape[self.axis + 1 :]))

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        """Follows where the indices don't change the rank, or take one dimension out."""
        x, indices = operand_type(types, 0), operand_type(types, 1)
        if x.rank != len(perm) or self.batch_dims or indices.rank not in (0, 1):
            return None
        op = self.replace(axis=perm.index(self.axis))
        return Permuted(
            op, (perm, None), (reduced_perm(perm, (self.axis,), keep_dims=indices.rank == 1),)
        )


@op_class
class GatherNd(Move):
    """The slices of x at the places that the last dimension of ``indices`` spells; -1 is the last.

    With K entries a place, the result is indices[:-1] + x[batch_dims + K:]; the first
    ``batch_dims`` dimensions are common to both. TFLite GATHER_ND, ONNX GatherND, NNRt GATHER_ND.
    """

    operands = (Operand("x", ANY), Operand("indices", INDEX_TYPES, Role.INDEX))

    batch_dims: int = 0

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, indices = operand_type(types, 0), operand_type(types, 1)
        if x.shape is None or indices.shape is None:
            return moved(x, None)
        if not indices.shape:
            raise ValueError("indices have rank 0, must have at least 1")
        depth = indices.shape[-1]
        if not isinstance(depth, int):
            return moved(x, None)
        if self.batch_dims + depth > len(x.shape):
            raise ValueError(f"{depth} indices a place are too many for rank {len(x.shape)}")
        return moved(x, (*indices.shape[:-1], *x.shape[self.batch_dims + depth :]))


@op_class
class ScatterNd(Op):
    """x with ``updates`` put at the places that the last dimension of ``indices`` spells.

    Indices [..., K] with updates [...] + x[K:]. Where several meet, ``reduction`` combines them,
    and them with x. It works on the stored numbers. TFLite SCATTER_ND (ADD, x all 0) and
    SPARSE_TO_DENSE (NONE, x all default), ONNX ScatterND, NNRt SCATTER_ND.
    """

    operands = (
        Operand("x", ANY),
        Operand("indices", INDEX_TYPES, Role.INDEX),
        Operand("updates", ANY),
    )
    quant_rule = QuantRule.EXACT

    reduction: Reduction = Reduction.NONE

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, indices, updates = (operand_type(types, i) for i in range(3))
        if updates.dtype is not x.dtype:
            raise ValueError(f"updates are {updates.dtype}, must be {x.dtype}")
        if x.shape is not None and indices.shape is not None and updates.shape is not None:
            depth = indices.shape[-1] if indices.shape else None
            if isinstance(depth, int) and len(updates.shape) != (
                len(indices.shape) - 1 + len(x.shape) - depth
            ):
                raise ValueError(f"updates {updates} don't fit indices {indices} into {x}")
        return (TensorType(x.dtype, x.shape),)


@op_class
class OneHot(Op):
    """``on`` where the place along the new dimension ``axis`` is the index, else ``off``.

    An index outside 0 ... depth - 1 is off everywhere. ``depth`` None: operand ``depth`` gives it
    at run time. Quantized: on, off and the result have the same parameters. TFLite ONE_HOT, NNRt
    ONE_HOT; ONNX's OneHot wraps negative indices, so there it is Equal and Where.
    """

    operands = (
        Operand("indices", INDEX_TYPES, Role.INDEX),
        Operand("on", ANY),
        Operand("off", ANY),
        index_operand("depth"),
    )
    quant_rule = QuantRule.CODES

    axis: int
    depth: int | None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        indices, on, off = (operand_type(types, i) for i in range(3))
        if on.dtype is not off.dtype:
            raise ValueError(f"on is {on.dtype}, off is {off.dtype}, must be the same")
        if indices.shape is None:
            return moved(on, None)
        if not 0 <= self.axis <= len(indices.shape):
            raise ValueError(f"axis {self.axis} is out of range for rank {len(indices.shape) + 1}")
        return moved(on, (*indices.shape[: self.axis], self.depth, *indices.shape[self.axis :]))


@op_class
class TopK(Op):
    """The ``k`` greatest along ``axis`` (from the front) in falling order, and their indices.

    Of equals the one with the lower index comes first. Where NaN goes is open: the formats'
    runtimes differ. ``k`` None: operand ``k`` gives it at run time. Quantized: codes are compared;
    x's parameters. TFLite TOPK_V2, ONNX TopK, NNAPI TOPK_V2, NNRt TOP_K.
    """

    operands = (Operand("x", NUMBERS), index_operand("k"))
    layout_kind = LayoutKind.ATTRIBUTE
    quant_rule = QuantRule.CODES

    axis: int
    k: int | None
    index_dtype: DType = DType.INT32

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is None:
            return (*moved(x, None), TensorType(self.index_dtype, None))
        if not 0 <= self.axis < len(x.shape):
            raise ValueError(f"axis {self.axis} is out of range for rank {len(x.shape)}")
        extent = x.shape[self.axis]
        if self.k is not None and isinstance(extent, int) and not 0 <= self.k <= extent:
            raise ValueError(f"k is {self.k}, must be 0 ... {extent}")
        shape: tuple[Dim, ...] = (*x.shape[: self.axis], self.k, *x.shape[self.axis + 1 :])
        return (*moved(x, shape), TensorType(self.index_dtype, shape))

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if operand_type(types, 0).rank != len(perm):
            return None
        op = self.replace(axis=perm.index(self.axis))
        return Permuted(op, (perm, *(None,) * (len(types) - 1)), (perm, perm))


class NonZero(Op):
    """The coordinates of the elements that aren't 0, in row-major order: int64 [count, rank].

    It looks at the stored numbers. TFLite WHERE, ONNX NonZero (which gives [rank, count]).
    """

    operands = (Operand("x", ANY),)
    quant_rule = QuantRule.EXACT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        return (TensorType(DType.INT64, (None, operand_type(types, 0).rank)),)


@op_class
class Unique(Op):
    """The different elements of a rank-1 tensor, by first appearance, and each one's place there.

    TFLite UNIQUE, ONNX Unique.
    """

    operands = (Operand("x", ANY),)
    quant_rule = QuantRule.CODES

    index_dtype: DType = DType.INT32

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is not None and len(x.shape) != 1:
            raise ValueError(f"x has rank {len(x.shape)}, must have 1")
        return (*moved(x, (None,)), TensorType(self.index_dtype, x.shape or (None,)))
