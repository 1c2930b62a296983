"""Ops that pick elements by index, or put them at indices."""

from __future__ import annotations

import enum

import numpy as np

from nnconv.errors import plural
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
    index_operand,
    op_class,
    operand_type,
)
from nnconv.ir.types import Dim, TensorType, element_count, may_be_equal, merge_shapes
from nnconv.ops.moves import Move, moved
from nnconv.ops.reduce import reduced_perm

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
    ``axis``) dimensions are common to both: each of their slices has indices of its own. Without
    ``from_end`` a runtime need not know of negative indices. Quantized: x's parameters. TFLite
    GATHER and EMBEDDING_LOOKUP, ONNX Gather, NNAPI GATHER and EMBEDDING_LOOKUP, NNRt GATHER.
    """

    operands = (Operand("x", ANY), Operand("indices", INDEX_TYPES, Role.INDEX))
    layout_kind = LayoutKind.ATTRIBUTE

    axis: int
    batch_dims: int = 0
    from_end: bool = False

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
        if not may_be_equal(x.shape[:batch], indices.shape[:batch]):
            raise ValueError(f"batches {x.shape[:batch]} and {indices.shape[:batch]} differ")
        lead = merge_shapes(x.shape[:batch], indices.shape[:batch]) or ()
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
    ``batch_dims`` dimensions are common to both. ``from_end`` as with Gather. TFLite GATHER_ND,
    ONNX GatherND, NNRt GATHER_ND.
    """

    operands = (Operand("x", ANY), Operand("indices", INDEX_TYPES, Role.INDEX))

    batch_dims: int = 0
    from_end: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, indices = operand_type(types, 0), operand_type(types, 1)
        if x.shape is None or indices.shape is None:
            return moved(x, None)
        if not indices.shape:
            raise ValueError("indices have rank 0, must have at least 1")
        depth = indices.shape[-1]
        if not isinstance(depth, int):
            return moved(x, None)
        if not 0 <= self.batch_dims < len(indices.shape):
            raise ValueError(f"{self.batch_dims} batch dimensions of indices {indices}")
        if self.batch_dims + depth > len(x.shape):
            raise ValueError(
                f"rank {len(x.shape)} has no room for {plural(depth, 'index', 'indices')} a place"
            )
        return moved(x, (*indices.shape[:-1], *x.shape[self.batch_dims + depth :]))


@op_class
class ScatterNd(Op):
    """x with ``updates`` put at the places that the last dimension of ``indices`` spells.

    Indices [..., K] with updates [...] + x[K:]. Where several meet, ``reduction`` combines them,
    and them with x. ``from_end`` as with Gather. It works on the stored numbers. TFLite SCATTER_ND
    (ADD, x all 0) and SPARSE_TO_DENSE (NONE, x all default), ONNX ScatterND, NNRt SCATTER_ND.
    """

    operands = (
        Operand("x", ANY),
        Operand("indices", INDEX_TYPES, Role.INDEX),
        Operand("updates", ANY),
    )
    quant_rule = QuantRule.EXACT

    reduction: Reduction = Reduction.NONE
    from_end: bool = False

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
            if isinstance(depth, int) and depth <= len(x.shape):
                _check_equal(updates, (*indices.shape[:-1], *x.shape[depth:]))
        return (TensorType(x.dtype, x.shape),)


@op_class
class GatherElements(Move):
    """x[..., i, ...] along ``axis`` for each i in ``indices``, whose other places are its own.

    The result has the indices' shape; -1 is the last. ONNX GatherElements.
    """

    operands = (Operand("x", ANY), Operand("indices", INDEX_TYPES, Role.INDEX))
    layout_kind = LayoutKind.ATTRIBUTE

    axis: int

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, indices = operand_type(types, 0), operand_type(types, 1)
        _check_along(x, indices, self.axis)
        return moved(x, indices.shape)

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if any(t is None or t.rank != len(perm) for t in types):
            return None
        return Permuted(self.replace(axis=perm.index(self.axis)), (perm, perm), (perm,))


def _check_along(x: TensorType, indices: TensorType, axis: int) -> None:
    """See that indices along an axis fit x.

    Raises:
        ValueError: they don't.
    """
    if x.shape is None or indices.shape is None:
        return
    if len(x.shape) != len(indices.shape):
        raise ValueError(f"indices have rank {len(indices.shape)}, must have {len(x.shape)}")
    if not 0 <= axis < len(x.shape):
        raise ValueError(f"axis {axis} is out of range for rank {len(x.shape)}")
    for i, (extent, count) in enumerate(zip(x.shape, indices.shape, strict=True)):
        if i != axis and isinstance(extent, int) and isinstance(count, int) and count > extent:
            raise ValueError(f"indices {indices} reach beyond dimension {i} of {x}")


def _check_equal(kind: TensorType, shape: tuple[Dim, ...]) -> None:
    """See that a type has a shape, as far as the extents are known.

    Raises:
        ValueError: it has another.
    """
    for a, b in zip(kind.shape or (), shape, strict=False):
        if isinstance(a, int) and isinstance(b, int) and a != b:
            raise ValueError(f"a shape is {list(kind.shape or ())}, must be {list(shape)}")


@op_class
class ScatterElements(Op):
    """x with ``updates[..., j, ...]`` put at [..., ``indices[..., j, ...]``, ...] along ``axis``.

    Updates and indices have one shape; -1 is the last. Where several meet, ``reduction`` combines
    them, and them with x. It works on the stored numbers. ONNX ScatterElements, Scatter.
    """

    operands = (
        Operand("x", ANY),
        Operand("indices", INDEX_TYPES, Role.INDEX),
        Operand("updates", ANY),
    )
    layout_kind = LayoutKind.ATTRIBUTE
    quant_rule = QuantRule.EXACT

    axis: int
    reduction: Reduction = Reduction.NONE

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, indices, updates = (operand_type(types, i) for i in range(3))
        if updates.dtype is not x.dtype:
            raise ValueError(f"updates are {updates.dtype}, must be {x.dtype}")
        _check_along(x, indices, self.axis)
        _check_along(x, updates, self.axis)
        _check_equal(updates, indices.shape or updates.shape or ())
        return (TensorType(x.dtype, x.shape),)

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if any(t is None or t.rank != len(perm) for t in types):
            return None
        return Permuted(self.replace(axis=perm.index(self.axis)), (perm,) * 3, (perm,))


@op_class
class TensorScatter(Op):
    """x with ``update`` written over it along ``axis``, for each batch from ``starts[batch]`` on.

    Starts that are left out are 0. ``circular``: what reaches behind the end begins at the front.
    It works on the stored numbers. ONNX TensorScatter.
    """

    operands = (
        Operand("x", ANY),
        Operand("update", ANY),
        Operand("starts", INDEX_TYPES, Role.INDEX, optional=True),
    )
    quant_rule = QuantRule.EXACT

    axis: int
    circular: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, update = operand_type(types, 0), operand_type(types, 1)
        if update.dtype is not x.dtype:
            raise ValueError(f"the update is {update.dtype}, must be {x.dtype}")
        _check_along(x, update, self.axis)
        if self.axis < 1:
            raise ValueError("axis 0 is the batch")
        if x.shape is not None:
            _check_equal(update, (*x.shape[: self.axis], None, *x.shape[self.axis + 1 :]))
            starts = types[2] if len(types) > 2 else None
            if starts is not None:
                _check_equal(starts, x.shape[:1])
        return (TensorType(x.dtype, x.shape),)


@op_class
class Compress(Move):
    """The slices of x along ``axis`` whose entry in ``condition`` is true.

    ``axis`` None: of the elements of x in a row. A short condition ends early. ONNX Compress.
    """

    operands = (Operand("x", ANY), Operand("condition", frozenset({DType.BOOL})))

    axis: int | None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, condition = operand_type(types, 0), operand_type(types, 1)
        if condition.rank not in (None, 1):
            raise ValueError(f"the condition has rank {condition.rank}, must have 1")
        if self.axis is None:
            return moved(x, (None,))
        if x.shape is None:
            return moved(x, None)
        if not 0 <= self.axis < len(x.shape):
            raise ValueError(f"axis {self.axis} is out of range for rank {len(x.shape)}")
        return moved(x, (*x.shape[: self.axis], None, *x.shape[self.axis + 1 :]))


def _check_single(kind: TensorType, what: str) -> None:
    """See that an operand has one element.

    Raises:
        ValueError: it has another number.
    """
    if element_count(kind.shape) not in (None, 1):
        raise ValueError(f"{what} is {kind}, must be one number")


@op_class
class OneHot(Op):
    """``on`` where the place along the new dimension ``axis`` is the index, else ``off``.

    An index outside 0 ... depth - 1 is off everywhere, but with ``from_end`` -1 is the last place.
    ``depth`` None: operand ``depth`` gives it at run time. Quantized: on, off and the result have
    the same parameters. TFLite ONE_HOT, NNRt ONE_HOT; ONNX OneHot with ``from_end``, else Equal
    and Where.
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
    from_end: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        indices, on, off = (operand_type(types, i) for i in range(3))
        if self.depth is None:
            _check_single(operand_type(types, 3), "the depth")
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

    Without ``largest`` the least in rising order; without ``sorted`` the order is open. Of equals
    the one with the lower index comes first, with ``last_first`` that with the higher. Where NaN
    goes is open: the formats' runtimes differ. ``k`` None: operand ``k`` gives it at run time.
    Quantized: codes are compared; x's parameters.
    TFLite TOPK_V2, ONNX TopK, NNAPI TOPK_V2 (the last first), NNRt TOP_K.
    """

    operands = (Operand("x", NUMBERS), index_operand("k"))
    layout_kind = LayoutKind.ATTRIBUTE
    quant_rule = QuantRule.CODES

    axis: int
    k: int | None
    index_dtype: DType = DType.INT32
    largest: bool = True
    sorted: bool = True
    last_first: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if self.k is None:
            _check_single(operand_type(types, 1), "k")
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


@op_class
class NonZero(Op):
    """The coordinates of the elements that aren't 0, in row-major order: int64 [count, rank].

    With ``by_axis`` [rank, count]. It looks at the stored numbers. TFLite WHERE, ONNX NonZero (by
    axis).
    """

    operands = (Operand("x", ANY),)
    quant_rule = QuantRule.EXACT

    by_axis: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        rank = operand_type(types, 0).rank
        return (TensorType(DType.INT64, (rank, None) if self.by_axis else (None, rank)),)


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


@op_class
class UniqueSlices(Op):
    """The different slices of x along ``axis`` (None: elements), first places, places, counts.

    That is: x's slices without repetitions, by first appearance or ``sorted`` (compared row-major);
    the index in x of the first that is like each; for each slice of x its place in the result; how
    often each is there. Indices are int64. It looks at the stored numbers. ONNX Unique.
    """

    operands = (Operand("x", ANY),)
    quant_rule = QuantRule.CODES

    axis: int | None
    sorted: bool = True

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        count: Dim = None
        if self.axis is None:
            values = moved(x, (None,))
            count = element_count(x.shape)
        elif x.shape is None:
            values = moved(x, None)
        elif not 0 <= self.axis < len(x.shape):
            raise ValueError(f"axis {self.axis} is out of range for rank {len(x.shape)}")
        else:
            values = moved(x, (*x.shape[: self.axis], None, *x.shape[self.axis + 1 :]))
            count = x.shape[self.axis]
        found, place = TensorType(DType.INT64, (None,)), TensorType(DType.INT64, (count,))
        return (*values, found, place, found)
