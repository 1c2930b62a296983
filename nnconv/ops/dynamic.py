"""Ops of which a run decides what elsewhere an attribute would: axes, bounds, sizes.

Each turns into the op of that attribute once the operand is known (``specialize``).
"""

from __future__ import annotations

from collections.abc import Sequence

from nnconv.errors import plural
from nnconv.ir.dtype import ANY
from nnconv.ir.op import (
    LayoutKind,
    Op,
    Operand,
    Perm,
    Permuted,
    Types,
    index_operand,
    op_class,
    operand_type,
)
from nnconv.ir.types import (
    Dim,
    TensorType,
    broadcast_shapes,
    element_count,
    shape_of_rank,
    static_shape,
)
from nnconv.ops.moves import Move, moved
from nnconv.ops.shape import BroadcastTo, Reshape, Split, Squeeze, Unsqueeze
from nnconv.ops.slices import Slice

Known = Sequence[tuple[int, ...] | None]
Special = tuple[Op, frozenset[int]]


def _axes(axes: tuple[int, ...], rank: int | None) -> tuple[int, ...] | None:
    """Axes counted from the front, in order; None where they don't fit the rank."""
    if rank is None or any(not -rank <= axis < rank for axis in axes):
        return None
    places = tuple(sorted({axis % rank for axis in axes}))
    return places if len(places) == len(axes) else None


@op_class
class DynamicReshape(Move):
    """The same elements in row-major order under ``shape``, of which one extent may be -1.

    With ``keeps`` a 0 is x's extent at that place. ONNX Reshape.
    """

    operands = (Operand("x", ANY), index_operand("shape"))

    keeps: bool = True

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, sizes = operand_type(types, 0), operand_type(types, 1).shape
        return moved(x, shape_of_rank(sizes[0] if sizes is not None and sizes else None))

    def specialize(self, known: Known, types: Types) -> Special:
        target, source = known[1], operand_type(types, 0).shape
        if target is None:
            return self, frozenset()
        shape: list[int] = []
        for place, number in enumerate(target):
            dim: Dim = number
            if self.keeps and number == 0:
                dim = source[place] if source is not None and place < len(source) else None
            if not isinstance(dim, int):
                return self, frozenset()
            shape.append(dim)
        return Reshape(shape=tuple(shape)), frozenset({1})


class DynamicSqueeze(Move):
    """Takes out dimensions of extent 1: those of ``axes``, where it is left out all of them.

    Axes may count from the end. ONNX Squeeze.
    """

    operands = (Operand("x", ANY), index_operand("axes"))

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, axes = operand_type(types, 0), types[1] if len(types) > 1 else None
        if axes is None:
            shape = static_shape(x.shape)
            return moved(x, None if shape is None else tuple(d for d in shape if d != 1))
        count = element_count(axes.shape)
        if x.rank is None or count is None:
            return moved(x, None)
        return moved(x, shape_of_rank(x.rank - count))

    def specialize(self, known: Known, types: Types) -> Special:
        axes = known[1] if len(known) > 1 else None
        places = None if axes is None else _axes(axes, operand_type(types, 0).rank)
        if places is None:
            return self, frozenset()
        return Squeeze(axes=places), frozenset({1})


class DynamicUnsqueeze(Move):
    """Puts in dimensions of extent 1 at the places ``axes`` of the result.

    Axes may count from the end. ONNX Unsqueeze.
    """

    operands = (Operand("x", ANY), index_operand("axes"))

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, count = operand_type(types, 0), element_count(operand_type(types, 1).shape)
        if x.rank is None or count is None:
            return moved(x, None)
        return moved(x, shape_of_rank(x.rank + count))

    def specialize(self, known: Known, types: Types) -> Special:
        axes, rank = known[1], operand_type(types, 0).rank
        if axes is None or rank is None:
            return self, frozenset()
        places = _axes(axes, rank + len(axes))
        return (self, frozenset()) if places is None else (Unsqueeze(axes=places), frozenset({1}))


class Expand(Move):
    """x and a tensor of the given ``shape`` broadcast together; gives x. ONNX Expand."""

    operands = (Operand("x", ANY), index_operand("shape"))

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, count = operand_type(types, 0), element_count(operand_type(types, 1).shape)
        if x.rank is None or count is None:
            return moved(x, None)
        own = x.shape or ()
        kept = [dim if isinstance(dim, int) and dim != 1 else None for dim in own]
        return moved(x, (*(shape_of_rank(max(count - x.rank, 0)) or ()), *kept))

    def specialize(self, known: Known, types: Types) -> Special:
        shape, given = operand_type(types, 0).shape, known[1]
        if given is None or shape is None or min(given, default=0) < 0:
            return self, frozenset()
        target = static_shape(broadcast_shapes((shape, given)))
        if target is None:
            return self, frozenset()
        return BroadcastTo(shape=target), frozenset({1})


@op_class
class DynamicSplit(Move):
    """``count`` consecutive parts along ``axis`` of the given ``sizes``.

    Where these are left out, of equal size, but for the last ones, which may be smaller.
    TFLite SPLIT_V, ONNX Split.
    """

    operands = (Operand("x", ANY), index_operand("sizes"))
    layout_kind = LayoutKind.ATTRIBUTE

    axis: int
    count: int

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is None:
            return moved(x, None) * self.count
        if not 0 <= self.axis < len(x.shape):
            raise ValueError(f"axis {self.axis} is out of range for rank {len(x.shape)}")
        return moved(x, (*x.shape[: self.axis], None, *x.shape[self.axis + 1 :])) * self.count

    def specialize(self, known: Known, types: Types) -> Special:
        sizes = known[1] if len(known) > 1 else None
        if sizes is None or len(sizes) != self.count:
            return self, frozenset()
        return Split(axis=self.axis, sizes=sizes), frozenset({1})

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if operand_type(types, 0).rank != len(perm):
            return None
        op = self.replace(axis=perm.index(self.axis))
        rest = (None,) * (len(types) - 1)
        return Permuted(op, (perm, *rest), (perm,) * self.count)


class DynamicSlice(Move):
    """Elements starts, starts + steps, ... before ends along each of ``axes``, as in Python.

    Negative starts and ends count from the end, those out of range are clipped; so do axes. Where
    axes are left out they are the first ones; steps then are 1. ONNX Slice.
    """

    operands = (
        Operand("x", ANY),
        index_operand("starts"),
        index_operand("ends"),
        index_operand("axes"),
        index_operand("steps"),
    )

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        counts = [element_count(t.shape) for t in types[1:] if t is not None]
        known = {count for count in counts if count is not None}
        if len(known) > 1 or (x.rank is not None and max(known, default=0) > x.rank):
            raise ValueError(f"bounds of {plural(counts, 'dimension')} for rank {x.rank}")
        return moved(x, shape_of_rank(x.rank))

    def specialize(self, known: Known, types: Types) -> Special:
        given = [known[i] if i < len(known) else None for i in range(5)]
        absent = [i >= len(types) or types[i] is None for i in range(5)]
        if any(v is None and not gone for v, gone in zip(given[1:], absent[1:], strict=True)):
            return self, frozenset()
        rank = operand_type(types, 0).rank
        _, starts, ends, axes, steps = given
        if rank is None or starts is None or ends is None:
            return self, frozenset()
        op = static_slice(rank, starts, ends, axes, steps)
        return (self, frozenset()) if op is None else (op, frozenset({1, 2, 3, 4}))


def static_slice(
    rank: int,
    starts: tuple[int, ...],
    ends: tuple[int, ...],
    axes: tuple[int, ...] | None,
    steps: tuple[int, ...] | None,
) -> Slice | None:
    """The Slice of bounds along some axes; None where they don't fit together."""
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        return None
    places = [axis + rank if axis < 0 else axis for axis in axes]
    if any(not 0 <= axis < rank for axis in places) or 0 in steps:
        return None
    full_starts: list[int | None] = [None] * rank
    full_ends: list[int | None] = [None] * rank
    strides = [1] * rank
    for axis, *bounds in zip(places, starts, ends, steps, strict=True):
        start, end, step = (min(max(n, -_FAR), _FAR) for n in bounds)
        full_starts[axis] = start if step < 0 or start else None
        full_ends[axis] = _end(end, step)
        if step < 0 and start == _FAR:
            full_starts[axis] = None
        strides[axis] = step
    return Slice(starts=tuple(full_starts), ends=tuple(full_ends), strides=tuple(strides))


_FAR = (1 << 31) - 1
"""No extent is greater."""


def _end(end: int, step: int) -> int | None:
    """An end as Slice has it: None for all the way."""
    return None if end == (_FAR if step > 0 else -_FAR) else end
