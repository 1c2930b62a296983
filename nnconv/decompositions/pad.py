"""Pads of other kinds: by cuts, by elements picked by their places, by copies of edges."""

from __future__ import annotations

import math
from math import prod

import numpy as np

from nnconv.decompositions.arithmetic import Arithmetic
from nnconv.decompositions.constants import MOST_ELEMENTS
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.quant import dequantize, quantize
from nnconv.ir.types import static_shape
from nnconv.ops.elementwise import FloorMod, Maximum, Minimum, Select
from nnconv.ops.gather import Gather
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Concat, Range, Reshape, ShapeOf, Tile, Transpose
from nnconv.ops.slices import Pad, PadMode, Reverse, Slice

_NUMPY_MODES = {
    PadMode.REFLECT: "reflect",
    PadMode.SYMMETRIC: "symmetric",
    PadMode.EDGE: "edge",
    PadMode.WRAP: "wrap",
}

MOST_DIMENSIONS = 5


def _operand(node: Node) -> tuple[Pad, Value]:
    op, x = node.op, node.operand(0)
    assert isinstance(op, Pad)
    return op, x


def cut_first(node: Node, b: Builder) -> list[Value] | None:
    """Negative counts: a Slice before."""
    op, x = _operand(node)
    if op.before is None or op.after is None or min((*op.before, *op.after), default=0) >= 0:
        return None
    if op.mode is PadMode.CONSTANT and not _leaves_any(op, x):
        return None
    cut = Slice(
        starts=tuple(max(-n, 0) for n in op.before),
        ends=tuple(n if n < 0 else None for n in op.after),
        strides=(1,) * len(op.before),
    )
    left = b.add(cut, [x], quant=x.quant)
    before, after = (tuple(max(n, 0) for n in counts) for counts in (op.before, op.after))
    if not any((*before, *after)):
        return [left]
    return [b.add(op.replace(before=before, after=after), [left, *node.inputs[1:]], quant=x.quant)]


def tell_value(node: Node, b: Builder) -> list[Value] | None:
    """Of a number that is a constant: as an attribute."""
    op, x = _operand(node)
    number = node.inputs[2] if node.inputs[2:] else None
    if number is None or number.data is None or number.data.size != 1 or x.quant != number.quant:
        return None
    data = number.data if number.quant is None else dequantize(number.data, number.quant)
    value = float(data.reshape(()))
    if number.quant is None and data.reshape(()) != value:
        return None
    return [b.add(op.replace(value=value), [x, *node.inputs[1:2]], quant=x.quant)]


def choose(node: Node, b: Builder) -> list[Value] | None:
    """Of a number that is an operand: zeros, in whose places that number is chosen."""
    op, x = _operand(node)
    shape, number = static_shape(node.outputs[0].shape), node.inputs[2] if node.inputs[2:] else None
    if op.mode is not PadMode.CONSTANT or op.before is None or op.after is None or number is None:
        return None
    own = static_shape(x.shape)
    if shape is None or own is None or x.quant != number.quant:
        return None
    if prod(shape) > MOST_ELEMENTS or min((*op.before, *op.after), default=0) < 0:
        return None
    pairs = list(zip(op.before, op.after, strict=True))
    inside = b.const(np.pad(np.ones(own, np.bool_), pairs))
    wide = b.add(op.replace(value=0.0), [x], quant=x.quant)
    return [b.add(Select(), [inside, wide, number], quant=x.quant)]


def _leaves_any(op: Pad, x: Value) -> bool:
    """Whether what is cut off lies in x, not in what was put in."""
    assert op.before is not None
    assert op.after is not None
    if x.shape is None:
        return False
    return all(
        not isinstance(n, int) or (n + before >= 0 and n + after >= 0 and n + before + after >= 0)
        for n, before, after in zip(x.shape, op.before, op.after, strict=True)
    )


def pick(node: Node, b: Builder) -> list[Value] | None:
    """Modes that repeat elements, along known extents: a Gather along each dimension."""
    op, x = _operand(node)
    if op.mode is PadMode.CONSTANT or op.before is None or op.after is None or x.shape is None:
        return None
    for axis, (before, after, n) in enumerate(zip(op.before, op.after, x.shape, strict=True)):
        if before or after:
            if not isinstance(n, int) or not 0 < n <= MOST_ELEMENTS - before - after:
                return None  # of no elements there is none to repeat
            places = np.pad(np.arange(n), (before, after), mode=_NUMPY_MODES[op.mode])  # type: ignore[call-overload]
            index = b.const(places.astype(np.int32))
            x = b.add(Gather(axis=axis), [x, index], quant=x.quant)
    return [x]


def mirror(node: Node, b: Builder) -> list[Value] | None:
    """REFLECT, SYMMETRIC of open extents: the stretches at the edges, reversed, beside x."""
    op, x = _operand(node)
    if op.mode not in (PadMode.REFLECT, PadMode.SYMMETRIC):
        return None
    if op.before is None or op.after is None:
        return None
    rank, skipped = len(op.before), int(op.mode is PadMode.REFLECT)

    def turned(axis: int, start: int, end: int | None) -> Value:
        cut = Slice(
            starts=tuple(start if i == axis else 0 for i in range(rank)),
            ends=tuple(end if i == axis else None for i in range(rank)),
            strides=(1,) * rank,
        )
        part = b.add(cut, [x], quant=x.quant)
        return b.add(Reverse(axes=(axis,)), [part], quant=x.quant)

    for axis, (before, after) in enumerate(zip(op.before, op.after, strict=True)):
        parts = [x]
        if before:
            parts.insert(0, turned(axis, skipped, skipped + before))
        if after:
            parts.append(turned(axis, -skipped - after, -skipped or None))
        if len(parts) > 1:
            x = b.add(Concat(axis=axis), parts, quant=x.quant)
    return [x]


def copy_edges(node: Node, b: Builder) -> list[Value] | None:
    """EDGE of open extents: copies of the first and last elements beside x."""
    op, x = _operand(node)
    if op.mode is not PadMode.EDGE or op.before is None or op.after is None:
        return None
    rank = len(op.before)

    def copies(axis: int, start: int, end: int | None, count: int) -> Value:
        cut = Slice(
            starts=tuple(start if i == axis else 0 for i in range(rank)),
            ends=tuple(end if i == axis else None for i in range(rank)),
            strides=(1,) * rank,
        )
        edge = b.add(cut, [x], quant=x.quant)
        repeats = tuple(count if i == axis else 1 for i in range(rank))
        return b.add(Tile(repeats=repeats), [edge], quant=x.quant)

    for axis, (before, after) in enumerate(zip(op.before, op.after, strict=True)):
        parts = [x]
        if before:
            parts.insert(0, copies(axis, 0, 1, before))
        if after:
            parts.append(copies(axis, -1, None, after))
        if len(parts) > 1:
            x = b.add(Concat(axis=axis), parts, quant=x.quant)
    return [x]


def wrap(node: Node, b: Builder) -> list[Value] | None:
    """WRAP of open extents, which may be less than the counts: a Gather of places modulo them."""
    op, x = _operand(node)
    if op.mode is not PadMode.WRAP or op.before is None or op.after is None or x.shape is None:
        return None
    if max(*op.before, *op.after) > MOST_ELEMENTS:
        return None
    a = Arithmetic(b)
    for axis, (before, after) in enumerate(zip(op.before, op.after, strict=True)):
        if before or after:
            length = _length(x, axis, a)
            end = a.add(length, a.ints(after))
            places = b.add(Range(), [a.ints(-before), end, a.ints(1)])
            x = b.add(Gather(axis=axis), [x, b.add(FloorMod(), [places, length])], quant=x.quant)
    return [x]


def in_pairs(node: Node, b: Builder) -> list[Value] | None:
    """Flat counts, or of some dimensions: as [rank, 2] of all."""
    op, x = _operand(node)
    pads = node.optional(1)
    if pads is None or not (op.flat or op.axes is not None) or x.shape is None:
        return None
    rank = len(x.shape)
    axes = tuple(range(rank)) if op.axes is None else op.axes
    if pads.dtype is not DType.INT32:
        pads = b.add(Cast(dtype=DType.INT32), [pads])
    if op.flat:
        pads = b.add(Transpose(perm=(1, 0)), [b.add(Reshape(shape=(2, len(axes))), [pads])])
    if op.axes is not None:
        places = [axes.index(i) if i in axes else len(axes) for i in range(rank)]
        with_zeros = b.add(Concat(axis=0), [pads, b.const(np.zeros((1, 2), np.int32))])
        pads = b.add(Gather(axis=0), [with_zeros, b.const(np.asarray(places, np.int32))])
    plain = op.replace(flat=False, axes=None)
    return [b.add(plain, [x, pads, *node.inputs[2:]], quant=x.quant)]


def one_by_one(node: Node, b: Builder) -> list[Value] | None:
    """More dimensions than formats take: each padded by itself, among those before and after."""
    op, x = _operand(node)
    shape = static_shape(x.shape)
    if op.before is None or op.after is None or shape is None or len(shape) <= MOST_DIMENSIONS:
        return None
    dims = list(shape)
    for axis, (before, after) in enumerate(zip(op.before, op.after, strict=True)):
        if not before and not after:
            continue
        around = (int(np.prod(dims[:axis])), dims[axis], int(np.prod(dims[axis + 1 :])))
        flat = b.add(Reshape(shape=around), [x], quant=x.quant)
        part = op.replace(before=(0, before, 0), after=(0, after, 0))
        padded = b.add(part, [flat, *node.inputs[1:]], quant=x.quant)
        dims[axis] += before + after
        x = b.add(Reshape(shape=tuple(dims)), [padded], quant=x.quant)
    return [x]


def joined(node: Node, b: Builder) -> list[Value] | None:
    """A known value around known extents: constants put before and behind."""
    op, x = _operand(node)
    extents = static_shape(x.shape)
    known = len(node.inputs) < 3 or node.inputs[2] is None
    if op.mode is not PadMode.CONSTANT or not known or extents is None:
        return None
    if op.before is None or op.after is None or min((*op.before, *op.after), default=0) < 0:
        return None
    if math.prod(map(sum, zip(extents, op.before, op.after, strict=True))) > MOST_ELEMENTS:
        return None
    value = np.asarray(op.value)
    filler = value.astype(x.dtype.numpy) if x.quant is None else quantize(value, x.quant, x.dtype)
    shape = list(extents)
    for axis, sides in enumerate(zip(op.before, op.after, strict=True)):
        parts: list[Value] = [x]
        for place, count in zip((0, len(parts) + 1), sides, strict=True):
            if count:
                block = np.full([*shape[:axis], count, *shape[axis + 1 :]], filler)
                parts.insert(place, b.const(block, quant=x.quant))
        if len(parts) > 1:
            x = b.add(Concat(axis=axis), parts, quant=x.quant)
            shape[axis] += sum(sides)
    return [x]


def pick_at_run_time(node: Node, b: Builder) -> list[Value] | None:
    """EDGE and WRAP of counts known at run time: a Gather of places along each dimension."""
    op, x = _operand(node)
    pads = node.optional(1)
    if pads is None or x.shape is None or op.mode not in (PadMode.EDGE, PadMode.WRAP):
        return None
    if op.flat or op.axes is not None:
        return None
    a = Arithmetic(b)
    pairs = a.cast(pads, DType.INT32)
    zero, one = a.ints(0), a.ints(1)
    for axis in range(len(x.shape)):
        length = _length(x, axis, a)
        row = a.entry(pairs, axis)
        before, after = a.entry(row, 0), a.entry(row, 1)
        start = a.sub(zero, before)
        places = b.add(Range(), [start, a.add(length, after), one])
        if op.mode is PadMode.EDGE:
            last = a.sub(length, one)
            places = b.add(Minimum(), [b.add(Maximum(), [places, zero]), last])
        else:
            places = b.add(FloorMod(), [places, length])
        x = b.add(Gather(axis=axis), [x, places], quant=x.quant)
    return [x]


def _length(x: Value, axis: int, a: Arithmetic) -> Value:
    """How many elements there are along a dimension, a scalar."""
    extent = None if x.shape is None else x.shape[axis]
    if isinstance(extent, int):
        return a.ints(extent)
    return a.entry(a.b.add(ShapeOf(dtype=DType.INT32), [x]), axis)


PAD = (
    cut_first,
    tell_value,
    choose,
    in_pairs,
    pick,
    mirror,
    copy_edges,
    wrap,
    pick_at_run_time,
    one_by_one,
    joined,
)
"""What a Pad can become, the best first."""
