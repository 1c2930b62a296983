"""Reductions along axes, running sums, and indices of extremes."""

from __future__ import annotations

from typing import ClassVar

from nnconv.ir.dtype import BOOLS, NUMBERS, DType
from nnconv.ir.op import (
    LayoutKind,
    Op,
    Operand,
    Perm,
    Permuted,
    QuantRule,
    Types,
    index_operand,
    op_class,
    operand_type,
)
from nnconv.ir.types import Dim, Shape, TensorType


def reduced_perm(perm: Perm, axes: tuple[int, ...], *, keep_dims: bool) -> Perm | None:
    """The transpose that a reduction's result comes out with; None when it is unchanged."""
    if keep_dims:
        return perm
    rest = [p for p in perm if p not in axes]
    order = sorted(rest)
    induced = tuple(order.index(p) for p in rest)
    return None if induced == tuple(range(len(induced))) else induced


@op_class
class Reduction(Op):
    """Base of the reductions.

    ``all_if_empty`` counts where operand ``axes`` is empty: then all are meant (ONNX), else none.
    """

    operands: ClassVar[tuple[Operand, ...]] = (Operand("x", NUMBERS), index_operand("axes"))
    layout_kind: ClassVar[LayoutKind] = LayoutKind.ATTRIBUTE

    axes: tuple[int, ...] | None
    keep_dims: bool = False
    all_if_empty: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is None:
            return (TensorType(x.dtype, None),)
        if self.axes is None:
            return (TensorType(x.dtype, self._open_shape(len(x.shape), types)),)
        if any(not 0 <= axis < len(x.shape) for axis in self.axes):
            raise ValueError(f"axes {list(self.axes)} are out of range for rank {len(x.shape)}")
        result: list[Dim] = []
        for i, dim in enumerate(x.shape):
            if i not in self.axes:
                result.append(dim)
            elif self.keep_dims:
                result.append(1)
        return (TensorType(x.dtype, tuple(result)),)

    def _open_shape(self, rank: int, types: Types) -> Shape:
        """The shape for axes computed at run time, which must differ from each other."""
        if self.keep_dims:
            return (None,) * rank
        axes = operand_type(types, 1).shape
        count = 1 if axes == () else axes[0] if axes is not None else None
        if count == 0 and self.all_if_empty:
            return ()
        return (None,) * max(rank - count, 0) if isinstance(count, int) else None

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if self.axes is None or operand_type(types, 0).rank != len(perm):
            return None
        op = self.replace(axes=tuple(sorted(perm.index(a) for a in self.axes)))
        result = reduced_perm(perm, self.axes, keep_dims=self.keep_dims)
        rest = (None,) * (len(types) - 1)
        return Permuted(op, (perm, *rest), (result,))


class ReduceMean(Reduction):
    """Mean over ``axes`` (from the front; None: operand ``axes``). Integers truncate toward zero.

    TFLite MEAN, ONNX ReduceMean, NNAPI MEAN, NNRt REDUCE_MEAN.
    """


class ReduceSum(Reduction):
    """Sum over ``axes``; integers wrap.

    TFLite SUM, ONNX ReduceSum, NNAPI REDUCE_SUM, NNRt REDUCE_SUM.
    """


class ReduceProd(Reduction):
    """Product over ``axes``; integers wrap.

    TFLite REDUCE_PROD, ONNX ReduceProd, NNAPI REDUCE_PROD, NNRt REDUCE_PROD.
    """


class ReduceMax(Reduction):
    """Greatest over ``axes``; of nothing the least that there is (-inf, if it is a float).

    TFLite REDUCE_MAX (of nothing finite), ONNX ReduceMax, NNAPI and NNRt REDUCE_MAX.
    """

    operands = (Operand("x", NUMBERS | BOOLS), index_operand("axes"))


class ReduceMin(Reduction):
    """Least over ``axes``; of nothing the greatest that there is (inf, if it is a float).

    TFLite REDUCE_MIN (of nothing finite), ONNX ReduceMin, NNAPI and NNRt REDUCE_MIN.
    """

    operands = (Operand("x", NUMBERS | BOOLS), index_operand("axes"))


class ReduceAny(Reduction):
    """Whether any is true. TFLite REDUCE_ANY, NNAPI REDUCE_ANY; ONNX ReduceMax on integers."""

    operands = (Operand("x", BOOLS), index_operand("axes"))
    quant_rule = QuantRule.EXACT


class ReduceAll(Reduction):
    """Whether all are true. TFLite and NNAPI REDUCE_ALL, NNRt ALL; ONNX ReduceMin on integers."""

    operands = (Operand("x", BOOLS), index_operand("axes"))
    quant_rule = QuantRule.EXACT


class ReduceL1(Reduction):
    """Sum of absolute values over ``axes``. ONNX ReduceL1."""


class ReduceL2(Reduction):
    """Root of the sum of squares over ``axes``. ONNX ReduceL2, NNRt REDUCE_L2."""


class ReduceSumSquare(Reduction):
    """Sum of squares over ``axes``. ONNX ReduceSumSquare."""


class ReduceLogSum(Reduction):
    """Natural logarithm of the sum over ``axes``. ONNX ReduceLogSum."""


class ReduceLogSumExp(Reduction):
    """Natural logarithm of the sum of e**x over ``axes``. ONNX ReduceLogSumExp."""


@op_class
class ArgExtreme(Op):
    """Base of ArgMax and ArgMin. Of equals the first counts, or the last (``last``)."""

    operands: ClassVar[tuple[Operand, ...]] = (Operand("x", NUMBERS | BOOLS),)
    layout_kind: ClassVar[LayoutKind] = LayoutKind.ATTRIBUTE
    quant_rule: ClassVar[QuantRule] = QuantRule.EXACT

    axis: int
    dtype: DType = DType.INT32
    keep_dims: bool = False
    last: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is None:
            return (TensorType(self.dtype, None),)
        if not 0 <= self.axis < len(x.shape):
            raise ValueError(f"axis {self.axis} is out of range for rank {len(x.shape)}")
        middle: tuple[Dim, ...] = (1,) if self.keep_dims else ()
        shape = (*x.shape[: self.axis], *middle, *x.shape[self.axis + 1 :])
        return (TensorType(self.dtype, shape),)

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if operand_type(types, 0).rank != len(perm):
            return None
        op = self.replace(axis=perm.index(self.axis))
        result = reduced_perm(perm, (self.axis,), keep_dims=self.keep_dims)
        return Permuted(op, (perm,), (result,))


class ArgMax(ArgExtreme):
    """Index of the greatest along ``axis`` (from the front).

    Codes are compared as they are. TFLite ARG_MAX, ONNX ArgMax, NNAPI ARGMAX, NNRt ARG_MAX.
    """


class ArgMin(ArgExtreme):
    """Index of the least along ``axis``, like ArgMax. TFLite ARG_MIN, ONNX ArgMin, NNAPI ARGMIN."""


@op_class
class CumSum(Op):
    """Running sum along ``axis`` (from the front; None: operand ``axis``).

    ``exclusive`` leaves the element itself out. TFLite CUMSUM, ONNX CumSum.
    """

    operands = (Operand("x", NUMBERS), index_operand("axis"))
    layout_kind = LayoutKind.ATTRIBUTE

    axis: int | None
    exclusive: bool = False
    reverse: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is not None and self.axis is not None and not 0 <= self.axis < len(x.shape):
            raise ValueError(f"axis {self.axis} is out of range for rank {len(x.shape)}")
        return (TensorType(x.dtype, x.shape),)

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if self.axis is None or operand_type(types, 0).rank != len(perm):
            return None
        rest = (None,) * (len(types) - 1)
        return Permuted(self.replace(axis=perm.index(self.axis)), (perm, *rest), (perm,))


class CumProd(CumSum):
    """Running product along ``axis``, like CumSum. ONNX CumProd (opset 26)."""
