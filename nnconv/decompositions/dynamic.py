"""Ops of which a run decides what elsewhere an attribute would, by shapes known at run time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.extents import (
    FAR,
    as_int32,
    extent,
    ints,
    joined,
    saturated,
    scalar,
    shape_of,
)
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import element_count, static_shape
from nnconv.ops import dynamic as d
from nnconv.ops import elementwise as e
from nnconv.ops import shape as s
from nnconv.ops.gather import Gather, NonZero, OneHot
from nnconv.ops.quantize import Cast
from nnconv.ops.reduce import CumSum, ReduceSum
from nnconv.ops.slices import Slice

_VIEWS = (
    s.Concat,
    s.Identity,
    s.Reshape,
    s.Split,
    s.Squeeze,
    s.Stack,
    s.Unsqueeze,
    s.Unstack,
    e.Add,
    e.Maximum,
    e.Mul,
    Cast,
    Gather,
    Slice,
)
"""Ops that make extents of extents."""

_DEPTH = 12
"""How far back the origin of a shape is followed."""


def _operands(node: Node) -> list[Value | None]:
    return [*node.inputs, None, None, None, None]


def _is_extents(value: Value, depth: int = _DEPTH) -> bool:
    """Whether numbers are extents of tensors, or constants that aren't 0."""
    if value.data is not None:
        return bool(np.all(value.data))
    node = value.producer
    if node is None or not depth:
        return False
    if isinstance(node.op, s.ShapeOf | s.Size):
        return True
    data = node.inputs[:1] if isinstance(node.op, Gather | Slice) else node.inputs
    return isinstance(node.op, _VIEWS) and all(
        v is not None and _is_extents(v, depth - 1) for v in data
    )


def reshape(node: Node, b: Builder) -> list[Value] | None:
    """DynamicReshape: Reshape, once the extents that stay are put into the shape.

    Those of a tensor without elements aside, extents computed from extents need no look.
    """
    op, x = node.op, node.operand(0)
    assert isinstance(op, d.DynamicReshape)
    target = node.operand(1)
    shape = as_int32(b, target)
    if op.keeps and x.shape != () and not _is_extents(target):
        kept = _with_extents(b, x, shape)
        if kept is None:
            return None
        shape = kept
    return [b.add(s.Reshape(shape=None), [x, shape])]


def _with_extents(b: Builder, x: Value, shape: Value) -> Value | None:
    """A shape with the extents of x in the place of zeros; None if its length isn't known."""
    if shape.data is not None:
        return joined(
            b, [extent(b, x, i) if n == 0 else ints(b, [n]) for i, n in enumerate(shape.data)]
        )
    count = element_count(shape.shape)
    if count is None or x.shape is None:
        return None
    places = np.minimum(np.arange(count, dtype=np.int32), len(x.shape) - 1)
    own = b.add(Gather(axis=0), [shape_of(b, x), b.const(places)])
    return b.add(e.Select(), [b.add(e.Equal(), [shape, ints(b, [0])]), own, shape])


def _marks(b: Builder, axes: Value, rank: int) -> Value:
    """[axes, rank]: 1 where a dimension is that axis."""
    places = b.add(e.FloorMod(), [as_int32(b, axes), scalar(b, rank)])
    return b.add(OneHot(axis=1, depth=rank), [places, scalar(b, 1), scalar(b, 0)])


def _count_at(b: Builder, marks: Value) -> Value:
    return b.add(ReduceSum(axes=(0,), keep_dims=False), [marks])


def as_stated(node: Node, b: Builder) -> list[Value] | None:
    """What keeps the elements in their order: a Reshape to what the result is known to be."""
    x, shape = node.operand(0), static_shape(node.outputs[0].shape)
    if shape is None or element_count(x.shape) != element_count(shape):
        return None
    return [b.add(s.Reshape(shape=shape), [x])]


def squeeze(node: Node, b: Builder) -> list[Value] | None:
    """DynamicSqueeze: a Reshape to the extents that are left."""
    x, axes = node.operand(0), _operands(node)[1]
    if x.shape is None or axes is None:
        return None
    gone = _count_at(b, _marks(b, axes, len(x.shape)))
    stays = b.add(e.Equal(), [gone, scalar(b, 0)])
    places = b.add(Cast(dtype=DType.INT32), [b.add(NonZero(), [stays])])
    places = b.add(s.Reshape(shape=(-1,)), [places])
    shape = b.add(Gather(axis=0), [shape_of(b, x), places])
    return [b.add(s.Reshape(shape=None), [x, shape])]


def unsqueeze(node: Node, b: Builder) -> list[Value] | None:
    """DynamicUnsqueeze: a Reshape to a shape in which each old dimension has found its place."""
    x, axes = node.operand(0), _operands(node)[1]
    count = None if axes is None else element_count(axes.shape)
    if x.shape is None or axes is None or count is None:
        return None
    rank = len(x.shape)
    is_new = _count_at(b, _marks(b, axes, rank + count))
    is_old = b.add(e.Sub(), [scalar(b, 1), is_new])
    before = b.add(CumSum(axis=0, exclusive=True), [is_old])
    place = b.add(e.Add(), [before, b.add(e.Mul(), [is_new, scalar(b, rank)])])
    place = b.add(e.Minimum(), [place, scalar(b, rank)])
    extents = joined(b, [shape_of(b, x), ints(b, [1])])
    shape = b.add(Gather(axis=0), [extents, place])
    return [b.add(s.Reshape(shape=None), [x, shape])]


def expand(node: Node, b: Builder) -> list[Value] | None:
    """Expand: Tile, which takes a fraction of the time of BroadcastTo; that for unknown ranks."""
    x, target = node.operand(0), _operands(node)[1]
    assert target is not None, "the verifier wants a shape"
    given, count = as_int32(b, target), element_count(target.shape)
    if x.shape is None or count is None:
        whole = b.add(s.BroadcastArgs(), [shape_of(b, x), given])
        return [b.add(s.BroadcastTo(shape=None), [x, whole])]
    missing = count - len(x.shape)
    if missing > 0:
        x = b.add(s.Unsqueeze(axes=tuple(range(missing))), [x])
    elif missing < 0:
        given = joined(b, [ints(b, [1] * -missing), given])
    known = _repeats(x, given)
    if known is not None:
        return [b.add(s.Tile(repeats=known), [x])]
    own = shape_of(b, x)
    whole = b.add(s.BroadcastArgs(), [own, given])
    repeats = b.add(e.FloorDiv(), [whole, b.add(e.Maximum(), [own, scalar(b, 1)])])
    return [b.add(s.Tile(repeats=None), [x, repeats])]


def _repeats(x: Value, shape: Value) -> tuple[int, ...] | None:
    """How often each dimension is repeated, where that doesn't depend on open extents."""
    if shape.data is None:
        return None
    repeats = []
    for dim, wanted in zip(x.shape or (), shape.data.tolist(), strict=True):
        if dim != 1 and wanted != 1 and not isinstance(dim, int):
            return None
        repeats.append(wanted if dim == 1 else 1)
    return tuple(repeats)


def split(node: Node, b: Builder) -> Sequence[Value] | None:
    """DynamicSplit without sizes: with them."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, d.DynamicSplit)
    if _operands(node)[1] is not None:
        return None
    whole = extent(b, x, op.axis)
    count = scalar(b, op.count)
    part = b.add(e.FloorDiv(), [b.add(e.Add(), [whole, scalar(b, op.count - 1)]), count])
    before = b.add(e.Mul(), [part, ints(b, range(op.count))])
    left = b.add(e.Maximum(), [b.add(e.Sub(), [whole, before]), scalar(b, 0)])
    return b.add_many(op, [x, b.add(e.Minimum(), [left, part])])


def cut(node: Node, b: Builder) -> list[Value] | None:
    """DynamicSlice: a Slice with bounds for all dimensions."""
    x = node.operand(0)
    _, starts, ends, axes, steps = _operands(node)[:5]
    assert starts is not None, "the verifier wants starts"
    assert ends is not None, "the verifier wants ends"
    if x.shape is None:
        return None
    rank = len(x.shape)
    count = element_count(starts.shape)
    known = axes.data if axes is not None else None
    if axes is None and count is not None:
        known = np.arange(count)
    if known is not None:
        places = [int(axis) % rank for axis in known.reshape(-1)] if rank else []
        columns = [
            _along(b, saturated(b, v), places, [rest] * rank)
            for v, rest in ((starts, 0), (ends, FAR))
        ]
        fixed = None if steps is None else steps.data
        if steps is not None and fixed is None:
            columns.append(_along(b, saturated(b, steps), places, [1] * rank))
        strides = [1] * rank
        for axis, step in zip(places, () if fixed is None else fixed.reshape(-1), strict=False):
            strides[axis] = int(step)
    elif axes is None:
        columns = [
            _first(b, saturated(b, v), [rest] * rank) for v, rest in ((starts, 0), (ends, FAR))
        ]
        strides = [1] * rank
    else:
        marks = _marks(b, axes, rank)
        rest = b.add(e.Equal(), [_count_at(b, marks), scalar(b, 0)])
        columns = [
            _spread(b, v, marks, rest, default)
            for v, default in ((starts, 0), (ends, FAR), (steps, 1))
            if v is not None
        ]
        strides = [1] * rank
    op = Slice(starts=None, ends=None, strides=None if len(columns) > 2 else tuple(strides))
    return [b.add(op, [x, *columns])]


def _along(b: Builder, value: Value, places: list[int], rest: list[int]) -> Value:
    """The entries of a vector at their places in one of full rank."""
    if places == list(range(len(rest))):
        return value
    entry_of = {axis: i for i, axis in enumerate(places)}
    pieces = [
        b.add(Gather(axis=0), [value, ints(b, [entry_of[axis]])])
        if axis in entry_of and value.data is None
        else ints(b, [number if axis not in entry_of else int(value.data[entry_of[axis]])])  # type: ignore[index]
        for axis, number in enumerate(rest)
    ]
    return joined(b, pieces)


def _first(b: Builder, value: Value, rest: list[int]) -> Value:
    """A vector of any length, filled up to the length of another by entries of that."""
    filled = joined(b, [value, ints(b, rest)])
    return b.add(Slice(starts=(0,), ends=(len(rest),), strides=(1,)), [filled])


def _spread(b: Builder, value: Value, marks: Value, rest: Value, default: int) -> Value:
    """The entries of a vector at the places that ``marks`` tell; elsewhere a number."""
    column = b.add(s.Reshape(shape=(-1, 1)), [saturated(b, value)])
    found = _count_at(b, b.add(e.Mul(), [marks, column]))
    return b.add(e.Select(), [rest, scalar(b, default), found])


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    d.DynamicReshape: (as_stated, reshape),
    d.DynamicSqueeze: (as_stated, squeeze),
    d.DynamicUnsqueeze: (as_stated, unsqueeze),
    d.Expand: (expand,),
    d.DynamicSplit: (split,),
    d.DynamicSlice: (cut,),
}
