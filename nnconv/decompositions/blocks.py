"""Exchanges of space with depth or the batch in other orders of channels, by moves."""

from __future__ import annotations

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Layout, Op
from nnconv.ir.types import static_shape
from nnconv.ops.blocks import BatchToSpace, DepthToSpace, SpaceToBatch, SpaceToDepth
from nnconv.ops.gather import Gather
from nnconv.ops.shape import Reshape, Transpose
from nnconv.ops.slices import Pad


def by_moves(node: Node, b: Builder) -> list[Value] | None:
    """DepthToSpace, SpaceToDepth of at most one open extent."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, DepthToSpace | SpaceToDepth)
    if op.layout is not Layout.NHWC or not x.shape or not y.shape:
        return None
    n = x.shape[0] if isinstance(x.shape[0], int) else -1
    inner, outer = static_shape(x.shape[1:]), static_shape(y.shape[1:])
    if inner is None or outer is None:
        return None
    (h, w, c), size = inner, op.block
    split: tuple[int, ...]
    perm: tuple[int, ...]
    if isinstance(op, DepthToSpace):
        inner_first = (n, h, w, size, size, c // size**2), (0, 1, 3, 2, 4, 5)
        outer_first = (n, h, w, c // size**2, size, size), (0, 1, 4, 2, 5, 3)
        split, perm = outer_first if op.column_row_depth else inner_first
    else:
        split = (n, h // size, size, w // size, size, c)
        perm = (0, 1, 3, 5, 2, 4) if op.column_row_depth else (0, 1, 3, 2, 4, 5)
    parts = b.add(Reshape(shape=split), [x], quant=x.quant)
    turned = b.add(Transpose(perm=perm), [parts], quant=x.quant)
    return [b.add(Reshape(shape=(n, *outer)), [turned], quant=x.quant)]


def by_channels(node: Node, b: Builder) -> list[Value] | None:
    """The same of open extents: the op in the other order, its channels picked in this one."""
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, DepthToSpace | SpaceToDepth)
    deep = x if isinstance(op, DepthToSpace) else y
    channels = deep.shape[-1] if deep is not None and deep.shape else None
    if x is None or not op.column_row_depth or op.layout is not Layout.NHWC:
        return None
    if not isinstance(channels, int):
        return None
    places = np.arange(channels, dtype=np.int32)
    other = op.replace(column_row_depth=False)
    if isinstance(op, DepthToSpace):
        order = b.const(places.reshape(-1, op.block**2).T.reshape(-1))
        picked = b.add(Gather(axis=3), [x, order], quant=x.quant)
        return [b.add(other, [picked], quant=y.quant)]
    order = b.const(places.reshape(op.block**2, -1).T.reshape(-1))
    return [b.add(Gather(axis=3), [b.add(other, [x], quant=x.quant), order], quant=y.quant)]


def by_turning(node: Node, b: Builder) -> list[Value] | None:
    """SpaceToBatch, BatchToSpace of channels before the space: the op of channels behind it."""
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, SpaceToBatch | BatchToSpace)
    if x is None or x.shape is None or not op.channels_first:
        return None
    rank = len(x.shape)
    turned = b.add(Transpose(perm=(0, *range(2, rank), 1)), [x], quant=x.quant)
    operands = [turned, *node.inputs[1:]]
    moved = b.add(op.replace(channels_first=False), operands, quant=y.quant)
    return [b.add(Transpose(perm=(0, rank - 1, *range(1, rank - 1))), [moved], quant=y.quant)]


def pads_apart(node: Node, b: Builder) -> list[Value] | None:
    """SpaceToBatch of what was padded before."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, SpaceToBatch)
    if op.channels_first or x.shape is None or not op.pads or op.block is None:
        return None
    if not any(side for pair in op.pads for side in pair):
        return None
    rest = (0,) * (len(x.shape) - 1 - len(op.pads))
    before, after = ((0, *(pair[i] for pair in op.pads), *rest) for i in (0, 1))
    padded = b.add(Pad(before=before, after=after), [x], quant=x.quant)
    return [b.add(op.replace(pads=((0, 0),) * len(op.pads)), [padded], quant=y.quant)]


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    DepthToSpace: (by_moves, by_channels),
    SpaceToDepth: (by_moves, by_channels),
    SpaceToBatch: (by_turning, pads_apart),
    BatchToSpace: (by_turning,),
}
