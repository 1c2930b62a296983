"""Ops on windows, by others."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from nnconv.decompositions.base import Decomposition
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import static_shape
from nnconv.ops.shape import Reshape
from nnconv.ops.slices import Pad, PadMode, Slice
from nnconv.ops.window import Dilate


def dilate_by_pads(node: Node, b: Builder) -> Sequence[Value] | None:
    """Dilate of known extents: each slice along a dimension gets the value behind it.

    What comes behind the last slice is cut off.
    """
    op, x, value = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, Dilate)
    shape = static_shape(x.shape)
    if op.dilations is None or shape is None or 0 in shape:
        return None
    pad = Pad(before=(0, 0), after=(0, 0), mode=PadMode.CONSTANT)
    cut = Slice(starts=(0, 0), ends=(None, None), strides=(1, 1))
    extents = list(shape)
    for axis, factor in enumerate(op.dilations):
        if factor == 1 or extents[axis] == 1:
            continue
        before, behind = prod(extents[:axis]), prod(extents[axis + 1 :])
        rows = b.add(Reshape(shape=(before * extents[axis], behind)), [x], quant=x.quant)
        wide = pad.replace(after=(0, (factor - 1) * behind))
        padded = b.add(wide, [rows, None, value], quant=x.quant)
        extents[axis] = (extents[axis] - 1) * factor + 1
        whole = (before, (extents[axis] + factor - 1) * behind)
        joined = b.add(Reshape(shape=whole), [padded], quant=x.quant)
        x = b.add(cut.replace(ends=(None, extents[axis] * behind)), [joined], quant=x.quant)
    return [b.add(Reshape(shape=tuple(extents)), [x], quant=x.quant)]


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {Dilate: (dilate_by_pads,)}
