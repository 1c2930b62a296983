"""Ops that cut, pad or turn round, by others."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import element_count, static_shape
from nnconv.ops import slices as o
from nnconv.ops.gather import Gather
from nnconv.ops.shape import Concat, Reshape, Tile


def _data(node: Node) -> Value:
    x = node.inputs[0]
    assert x is not None, "operand 0 is required"
    return x


def reverse_behind(node: Node, b: Builder) -> list[Value] | None:
    """Slice with strides of -1: a forward Slice of the same elements, and Reverse."""
    op, x = node.op, _data(node)
    assert isinstance(op, o.Slice)
    if op.starts is None or op.ends is None or op.strides is None or -1 not in op.strides:
        return None
    starts, ends = list(op.starts), list(op.ends)
    axes = tuple(i for i, stride in enumerate(op.strides) if stride == -1)
    for axis in axes:
        starts[axis], ends[axis] = _forward(starts[axis], ends[axis])
    strides = tuple(1 if stride == -1 else stride for stride in op.strides)
    if any(
        (start or 0, end, by) != (0, None, 1)
        for start, end, by in zip(starts, ends, strides, strict=True)
    ):
        x = b.add(o.Slice(starts=tuple(starts), ends=tuple(ends), strides=strides), [x])
    return [b.add(o.Reverse(axes=axes), [x])]


def _forward(start: int | None, end: int | None) -> tuple[int | None, int | None]:
    """Bounds of stride 1 around what ``start:end:-1`` picks."""
    low = None if end is None else end + 1 if end != -1 else _NOTHING
    high = None if start is None or start == -1 else start + 1
    return low, high


_NOTHING = (1 << 31) - 1
"""A start behind all elements."""


def reverse_in_turn(node: Node, b: Builder) -> list[Value] | None:
    """Reverse of dimensions apart: one for each stretch of neighbours."""
    op, x = node.op, _data(node)
    assert isinstance(op, o.Reverse)
    runs = groupby(enumerate(sorted(set(op.axes))), lambda pair: pair[1] - pair[0])
    groups = [tuple(axis for _, axis in run) for _, run in runs]
    if len(groups) < 2:
        return None
    for axes in groups:
        x = b.add(o.Reverse(axes=axes), [x])
    return [x]


def cut_and_pad(node: Node, b: Builder) -> list[Value] | None:
    """Pad by negative counts: a Slice, and the rest of the Pad."""
    op, x = node.op, _data(node)
    assert isinstance(op, o.Pad)
    if op.before is None or op.after is None or min((*op.before, *op.after), default=0) >= 0:
        return None
    starts = tuple(-n if n < 0 else None for n in op.before)
    ends = tuple(n if n < 0 else None for n in op.after)
    cut = b.add(o.Slice(starts=starts, ends=ends, strides=(1,) * len(starts)), [x])
    rest = op.replace(
        before=tuple(max(n, 0) for n in op.before), after=tuple(max(n, 0) for n in op.after)
    )
    if not any((*rest.before, *rest.after)):
        return [cut]
    return [b.add(rest, [cut, *node.inputs[1:]])]


def pick_mirrored(node: Node, b: Builder) -> list[Value] | None:
    """Pad with the tensor's own elements: a Gather for each dimension."""
    op, x = node.op, _data(node)
    assert isinstance(op, o.Pad)
    if op.mode is o.PadMode.CONSTANT or op.before is None or op.after is None or x.shape is None:
        return None
    for axis, (before, after) in enumerate(zip(op.before, op.after, strict=True)):
        extent = x.shape[axis]
        if not before and not after:
            continue
        if not isinstance(extent, int):
            if op.mode is not o.PadMode.EDGE:
                return None
            x = _with_edges(b, x, axis, before, after)
            continue
        places = padded_places(op.mode, extent, before, after)
        if places is None:
            return None
        x = b.add(Gather(axis=axis), [x, b.const(places)])
    return [x]


def padded_places(mode: o.PadMode, extent: int, before: int, after: int) -> np.ndarray | None:
    """Which element stands at each place of a padded dimension; None where there is none."""
    places = np.arange(-before, extent + after, dtype=np.int64)
    if not extent:
        return None if places.size else places.astype(np.int32)
    if mode is o.PadMode.EDGE:
        found = np.clip(places, 0, extent - 1)
    elif mode is o.PadMode.REFLECT:
        period = max(2 * (extent - 1), 1)
        found = places % period
        found = np.minimum(found, period - found) if extent > 1 else found * 0
    elif mode is o.PadMode.SYMMETRIC:
        found = places % (2 * extent)
        found = np.minimum(found, 2 * extent - 1 - found)
    else:
        found = places % extent
    return found.astype(np.int32)


def _with_edges(b: Builder, x: Value, axis: int, before: int, after: int) -> Value:
    """The first and the last element repeated along a dimension of unknown extent."""
    assert x.shape is not None, "the caller knows the rank"
    rank = len(x.shape)
    parts = [x]
    for count, start, end in ((before, 0, 1), (after, -1, None)):
        if not count:
            continue
        starts: list[int | None] = [None] * rank
        ends: list[int | None] = [None] * rank
        starts[axis], ends[axis] = start, end
        op = o.Slice(starts=tuple(starts), ends=tuple(ends), strides=(1,) * rank)
        edge = b.add(op, [x])
        repeats = tuple(count if i == axis else 1 for i in range(rank))
        parts.insert(0 if start == 0 else len(parts), b.add(Tile(repeats=repeats), [edge]))
    return b.add(Concat(axis=axis), parts, quant=x.quant)


def pad_in_fewer(node: Node, b: Builder) -> list[Value] | None:
    """Pad of many dimensions: neighbours that aren't padded go together."""
    op, x, y = node.op, _data(node), node.outputs[0]
    assert isinstance(op, o.Pad)
    shape, final = static_shape(x.shape), static_shape(y.shape)
    if shape is None or final is None or op.before is None or op.after is None:
        return None
    pairs = list(zip(op.before, op.after, strict=True))
    runs = [list(run) for _, run in groupby(range(len(shape)), key=lambda i: any(pairs[i]) and i)]
    groups = [run if not any(pairs[run[0]]) else [run[0]] for run in runs]
    if len(groups) == len(shape):
        return _pad_in_turn(node, b)
    fewer = tuple(element_count(shape[g[0] : g[-1] + 1]) or 0 for g in groups)
    flat = b.add(Reshape(shape=fewer), [x])
    rest = op.replace(
        before=tuple(pairs[g[0]][0] for g in groups), after=tuple(pairs[g[0]][1] for g in groups)
    )
    made = b.add(rest, [flat, *node.inputs[1:]])
    return [b.add(Reshape(shape=final), [made])]


def _pad_in_turn(node: Node, b: Builder) -> list[Value] | None:
    """Pad of many dimensions, half of them first."""
    op, x = node.op, _data(node)
    assert isinstance(op, o.Pad)
    assert op.before is not None, "the caller knows the counts"
    assert op.after is not None, "the caller knows the counts"
    places = [i for i, pair in enumerate(zip(op.before, op.after, strict=True)) if any(pair)]
    if len(places) < 2:
        return None
    half = set(places[: len(places) // 2])
    for chosen in (half, set(places) - half):
        part = op.replace(
            before=tuple(n if i in chosen else 0 for i, n in enumerate(op.before)),
            after=tuple(n if i in chosen else 0 for i, n in enumerate(op.after)),
        )
        x = b.add(part, [x, *node.inputs[1:]])
    return [x]


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    o.Slice: (reverse_behind,),
    o.Reverse: (reverse_in_turn,),
    o.Pad: (cut_and_pad, pick_mirrored, pad_in_fewer),
}
