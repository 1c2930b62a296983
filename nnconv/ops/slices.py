"""Ops that cut, pad, turn round or overwrite stretches of a tensor."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from nnconv.errors import plural
from nnconv.ir.dtype import ANY, INTEGERS
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
    require_one_kind,
)
from nnconv.ir.types import Dim, TensorType, element_count, normalize_axis
from nnconv.ops.moves import Move, moved


@op_class
class Slice(Move):
    """Elements start, start + stride, ... before end, in each dimension, as in Python's slices.

    Attributes have one entry a dimension. Negative starts and ends count from the end, those out of
    range are clipped; an end of None means all the way in the stride's direction, a start of None
    from the very first in that direction. An attribute that is None as a whole is given at run time
    by the operand of its name (rank 1), with the same meaning.
    TFLite SLICE and STRIDED_SLICE, ONNX Slice, NNAPI and NNRt SLICE and STRIDED_SLICE.
    """

    operands = (
        Operand("x", ANY),
        index_operand("starts"),
        index_operand("ends"),
        index_operand("strides"),
    )
    layout_kind = LayoutKind.ATTRIBUTE

    starts: tuple[int | None, ...] | None
    ends: tuple[int | None, ...] | None
    strides: tuple[int, ...] | None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if self.strides is not None and 0 in self.strides:
            raise ValueError("a stride of 0")
        if x.shape is None:
            return moved(x, None)
        rank = len(x.shape)
        for what in ("starts", "ends", "strides"):
            given = getattr(self, what)
            if given is not None and len(given) != rank:
                raise ValueError(f"{plural(len(given), what[:-1])} for rank {rank}")
        if self.starts is None or self.ends is None or self.strides is None:
            return moved(x, (None,) * rank)
        bounds = zip(x.shape, self.starts, self.ends, self.strides, strict=True)
        return moved(x, tuple(slice_extent(*b) for b in bounds))

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if self.starts is None or self.ends is None or self.strides is None:
            return None
        if len(self.strides) != len(perm):
            return None
        op = self.replace(
            starts=tuple(self.starts[p] for p in perm),
            ends=tuple(self.ends[p] for p in perm),
            strides=tuple(self.strides[p] for p in perm),
        )
        return Permuted(op, (perm,), (perm,))


def slice_extent(extent: Dim, start: int | None, end: int | None, stride: int) -> Dim:
    """How many elements a slice of ``extent`` has; None if that depends on what isn't known."""
    if isinstance(extent, int):
        return len(range(*slice(start, end, stride).indices(extent)))
    if start in (0, None) and end is None and stride == 1:
        return extent
    if start is None and end is None and stride == -1:
        return extent
    return None


class PadMode(enum.Enum):
    """What stands in the new places."""

    CONSTANT = "constant"
    REFLECT = "reflect"
    SYMMETRIC = "symmetric"
    EDGE = "edge"
    WRAP = "wrap"


@op_class
class Pad(Move):
    """Elements put before and behind each dimension (negative counts cut off).

    Attributes:
        before, after: counts, one a dimension; None: operand ``pads`` [rank, 2] gives them.
        mode: REFLECT leaves the edge element out, SYMMETRIC repeats it, WRAP begins anew.
        value: what CONSTANT puts in, a real value; operand ``value`` (one element) comes before it.
        flat: whether the operand is [2 * rank] instead: all before, then all after.
        axes: the dimensions that the operand is about (from the front); None: all.

    Quantized: x's parameters; the value is quantized with them (real 0 is the zero point).
    TFLite PAD, PADV2, MIRROR_PAD, ONNX Pad, NNAPI PAD, PAD_V2, MIRROR_PAD, NNRt PAD.
    """

    operands = (Operand("x", ANY), index_operand("pads"), Operand("value", ANY, optional=True))
    layout_kind = LayoutKind.ATTRIBUTE

    before: tuple[int, ...] | None
    after: tuple[int, ...] | None
    mode: PadMode = PadMode.CONSTANT
    value: float = 0.0
    flat: bool = False
    axes: tuple[int, ...] | None = None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        require_one_kind((x, types[2] if len(types) > 2 else None))
        if x.shape is None:
            return moved(x, None)
        if self.before is None or self.after is None:
            kept = range(0) if self.axes is None else self.axes
            pads = types[1] if len(types) > 1 else None
            count = None if pads is None else element_count(pads.shape)
            dims = len(x.shape) if self.axes is None else len(self.axes)
            if count not in (None, 2 * dims):
                raise ValueError(f"{plural(count, 'pad')} for {plural(dims, 'dimension')}")
            known = self.axes is not None
            return moved(
                x, tuple(d if known and i not in kept else None for i, d in enumerate(x.shape))
            )
        if len(self.before) != len(x.shape) or len(self.after) != len(x.shape):
            raise ValueError(f"{plural(len(self.before), 'pad')} for rank {len(x.shape)}")
        result: list[Dim] = []
        for extent, before, after in zip(x.shape, self.before, self.after, strict=True):
            if isinstance(extent, int):
                result.append(max(extent + before + after, 0))
            else:
                result.append(None if before or after else extent)
        return moved(x, tuple(result))

    def specialize(
        self, known: Sequence[tuple[int, ...] | None], types: Types
    ) -> tuple[Op, frozenset[int]]:
        pads = known[1] if len(known) > 1 else None
        if pads is None or self.before is not None:
            return self, frozenset()
        pairs = self.pairs(pads, operand_type(types, 0).rank)
        if pairs is None:
            return self, frozenset()
        before, after = tuple(p for p, _ in pairs), tuple(p for _, p in pairs)
        return self.replace(before=before, after=after, flat=False, axes=None), frozenset({1})

    def pairs(self, pads: Sequence[int], rank: int | None) -> list[tuple[int, int]] | None:
        """Counts before and after each dimension, by the operand's elements.

        None if they don't fit the rank.
        """
        count = len(pads) // 2
        before, after = (pads[:count], pads[count:]) if self.flat else (pads[0::2], pads[1::2])
        if self.axes is None:
            return list(zip(before, after, strict=True))
        if rank is None or len(self.axes) != count or max(self.axes, default=-1) >= rank:
            return None
        pairs = [(0, 0)] * rank
        for axis, pair in zip(self.axes, zip(before, after, strict=True), strict=True):
            pairs[axis] = pair
        return pairs

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if self.before is None or self.after is None or len(self.before) != len(perm):
            return None
        op = self.replace(
            before=tuple(self.before[p] for p in perm),
            after=tuple(self.after[p] for p in perm),
        )
        rest = (None,) * (len(types) - 1)
        return Permuted(op, (perm, *rest), (perm,))


@op_class
class Reverse(Move):
    """The order of elements turned round along ``axes``. TFLite REVERSE_V2; ONNX Slice."""

    layout_kind = LayoutKind.ATTRIBUTE

    axes: tuple[int, ...]

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is not None:
            for axis in self.axes:
                normalize_axis(axis, len(x.shape))
        return moved(x, x.shape)

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if operand_type(types, 0).rank != len(perm):
            return None
        return Permuted(
            self.replace(axes=tuple(perm.index(a) for a in self.axes)), (perm,), (perm,)
        )


class DynamicUpdateSlice(Op):
    """x with ``update`` written over it from ``starts`` (one a dimension, clamped so that it fits).

    The ranks are equal, no extent of the update exceeds x's. TFLite DYNAMIC_UPDATE_SLICE.
    """

    operands = (
        Operand("x", ANY),
        Operand("update", ANY),
        Operand("starts", INTEGERS, Role.INDEX),
    )
    quant_rule = QuantRule.CODES

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, update = operand_type(types, 0), operand_type(types, 1)
        if x.rank is not None and update.rank is not None and x.rank != update.rank:
            raise ValueError(f"update has rank {update.rank}, must have {x.rank}")
        return moved(x, x.shape)


@op_class
class ReverseSequence(Move):
    """For each index of ``batch_axis`` the first ``lengths`` elements along ``axis`` turned round.

    TFLite REVERSE_SEQUENCE, ONNX ReverseSequence.
    """

    operands = (Operand("x", ANY), Operand("lengths", INTEGERS, Role.INDEX))
    layout_kind = LayoutKind.ATTRIBUTE

    axis: int
    batch_axis: int

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, count = operand_type(types, 0), element_count(operand_type(types, 1).shape)
        if x.shape is not None:
            normalize_axis(self.axis, len(x.shape))
            batch = x.shape[normalize_axis(self.batch_axis, len(x.shape))]
            if isinstance(batch, int) and count not in (None, batch):
                raise ValueError(f"{plural(count, 'length')} for a batch of {batch}")
        return moved(x, x.shape)

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if operand_type(types, 0).rank != len(perm):
            return None
        op = self.replace(axis=perm.index(self.axis), batch_axis=perm.index(self.batch_axis))
        return Permuted(op, (perm, None), (perm,))
