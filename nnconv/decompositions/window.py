"""Ops on windows, by others."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import static_shape
from nnconv.ops import elementwise as e
from nnconv.ops.gather import Reduction
from nnconv.ops.quantize import Bitcast
from nnconv.ops.shape import Reshape
from nnconv.ops.slices import Pad, PadMode, Slice
from nnconv.ops.window import Dilate, ReduceWindow


def dilate_by_pads(node: Node, b: Builder) -> Sequence[Value] | None:
    """Dilate: each slice along a dimension gets the value behind it.

    What comes behind the last slice is cut off. Extents are known, but for one before those that
    grow, such as how many images there are.
    """
    op, x, value = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, Dilate)
    if op.dilations is None or x.shape is None or 0 in x.shape:
        return None
    extents = [extent if isinstance(extent, int) else -1 for extent in x.shape]
    first = next((i for i, factor in enumerate(op.dilations) if factor > 1), len(extents))
    if extents.count(-1) > 1 or -1 in extents[first:]:
        return None
    pad = Pad(before=(0, 0), after=(0, 0), mode=PadMode.CONSTANT)
    cut = Slice(starts=(0, 0), ends=(None, None), strides=(1, 1))
    for axis, factor in enumerate(op.dilations):
        if factor == 1 or extents[axis] == 1:
            continue
        before, behind = max(prod(extents[:axis]), -1), prod(extents[axis + 1 :])
        count = max(before * extents[axis], -1)
        rows = b.add(Reshape(shape=(count, behind)), [x], quant=x.quant)
        wide = pad.replace(after=(0, (factor - 1) * behind))
        padded = b.add(wide, [rows, None, value], quant=x.quant)
        extents[axis] = (extents[axis] - 1) * factor + 1
        whole = (before, (extents[axis] + factor - 1) * behind)
        joined = b.add(Reshape(shape=whole), [padded], quant=x.quant)
        x = b.add(cut.replace(ends=(None, extents[axis] * behind)), [joined], quant=x.quant)
    return [b.add(Reshape(shape=tuple(extents)), [x], quant=x.quant)]


_COMBINED: dict[Reduction, Op] = {
    Reduction.ADD: e.Add(),
    Reduction.MUL: e.Mul(),
    Reduction.MIN: e.Minimum(),
    Reduction.MAX: e.Maximum(),
    Reduction.AND: e.LogicalAnd(),
    Reduction.OR: e.LogicalOr(),
}

_MOST_PLACES = 256
"""Of a window, each of which is a node or two."""


def windows_by_slices(node: Node, b: Builder) -> Sequence[Value] | None:
    """ReduceWindow of known extents: what meets each place of the window, combined in turn."""
    op, x, start = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, ReduceWindow)
    shape, counts = static_shape(x.shape), static_shape(node.outputs[0].shape)
    if shape is None or counts is None or prod(op.window) > _MOST_PLACES:
        return None
    plain = b.add(Bitcast(dtype=x.dtype), [x]) if x.type.has_codes else x
    result = b.add(Bitcast(dtype=x.dtype), [start]) if start.type.has_codes else start
    for place in np.ndindex(*op.window):
        starts = tuple(p * d for p, d in zip(place, op.dilation, strict=True))
        ends = tuple(
            first + max(count - 1, 0) * stride + (count > 0)
            for first, count, stride in zip(starts, counts, op.stride, strict=True)
        )
        part = b.add(Slice(starts=starts, ends=ends, strides=op.stride), [plain])
        result = b.add(_COMBINED[op.reduction], [result, part])
    if not x.type.has_codes:
        return [result]
    return list(b.add_typed(Bitcast(dtype=x.dtype), [result], [node.outputs[0].type]))


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    Dilate: (dilate_by_pads,),
    ReduceWindow: (windows_by_slices,),
}
