"""Exchanges of space with depth or the batch in other orders of channels, by moves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.constants import MOST_ELEMENTS
from nnconv.decompositions.extents import as_int32, ints
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Layout, Op
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops import elementwise as e
from nnconv.ops.blocks import BatchToSpace, DepthToSpace, SpaceToBatch, SpaceToDepth
from nnconv.ops.gather import Gather
from nnconv.ops.shape import Concat, Reshape, Split, Transpose
from nnconv.ops.slices import Pad, Slice


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


def by_batches(node: Node, b: Builder) -> list[Value] | None:
    """DepthToSpace of open extents: BatchToSpace of the parts of the channels as batches."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, DepthToSpace)
    channels = x.shape[-1] if x.shape else None
    if op.column_row_depth or op.layout is not Layout.NHWC or not isinstance(channels, int):
        return None
    count = op.block**2
    parts = b.add_many(Split(axis=3, sizes=(channels // count,) * count), [x])
    joined = b.add(Concat(axis=0), parts, quant=x.quant)
    block, none = (op.block,) * 2, ((0, 0),) * 2
    return [b.add(BatchToSpace(block=block, crops=none), [joined], quant=y.quant)]


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


def crops_behind(node: Node, b: Builder) -> list[Value] | None:
    """BatchToSpace of what is cropped behind it."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, BatchToSpace)
    if op.channels_first or x.shape is None or not op.crops or op.block is None:
        return None
    if not any(side for pair in op.crops for side in pair):
        return None
    rest = (None,) * (len(x.shape) - 1 - len(op.crops))
    whole = b.add(op.replace(crops=((0, 0),) * len(op.crops)), [x], quant=x.quant)
    ends = tuple(-after if after else None for _, after in op.crops)
    cut = Slice(
        starts=(0, *(before for before, _ in op.crops), *(0 for _ in rest)),
        ends=(None, *ends, *rest),
        strides=(1,) * len(x.shape),
    )
    return [b.add(cut, [whole], quant=x.quant)]


def blocks_by_moves(node: Node, b: Builder) -> list[Value] | None:
    """SpaceToBatch, BatchToSpace of known extents, without pads or crops: a transpose."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, SpaceToBatch | BatchToSpace)
    edges = op.pads if isinstance(op, SpaceToBatch) else op.crops
    before, after = static_shape(x.shape), static_shape(y.shape)
    if op.channels_first or op.block is None or not before or not after or 0 in before:
        return None
    if edges is None or any(side for pair in edges for side in pair):
        return None
    count = len(op.block)
    spread = after if isinstance(op, SpaceToBatch) else before
    inner = [n for pair in zip(spread[1 : count + 1], op.block, strict=True) for n in pair]
    batch = min(before[0], after[0])
    rest = math.prod(spread[count + 1 :])
    extents, within = range(1, 2 * count, 2), range(2, 2 * count + 1, 2)
    perm = (*within, 0, *extents, 2 * count + 1)  # from space to batch
    split: tuple[int, ...] = (batch, *inner, rest)
    if isinstance(op, BatchToSpace):
        split = tuple(split[i] for i in perm)
        perm = tuple(perm.index(i) for i in range(len(perm)))
    parts = b.add(Reshape(shape=split), [x], quant=x.quant)
    turned = b.add(Transpose(perm=perm), [parts], quant=x.quant)
    return [b.add(Reshape(shape=after), [turned], quant=x.quant)]


def pads_at_run_time(node: Node, b: Builder) -> list[Value] | None:
    """SpaceToBatch of known blocks whose pads are computed: of what was padded before."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, SpaceToBatch)
    if op.channels_first or op.block is not None or x.shape is None or y.shape is None:
        return None
    block, pads = node.operand(1), node.operand(2)
    if block.data is None:
        return None
    sizes = tuple(block.data.astype(int).tolist())
    rows = [b.const(np.zeros((1, 2), np.int32)), as_int32(b, pads)]
    if rest := len(x.shape) - 1 - len(sizes):
        rows.append(b.const(np.zeros((rest, 2), np.int32)))
    dims = list(x.shape)
    for i, size in enumerate(sizes, 1):
        extent = y.shape[i]
        dims[i] = extent * size if isinstance(extent, int) else None
    kind = TensorType(x.dtype, tuple(dims), x.quant)
    whole = b.add(Concat(axis=0), rows)
    (padded,) = b.add_typed(Pad(before=None, after=None), [x, whole], [kind])
    plain = op.replace(block=sizes, pads=((0, 0),) * len(sizes))
    return list(b.add_typed(plain, [padded], [y.type]))


def picked_by_block(node: Node, b: Builder) -> list[Value] | None:
    """SpaceToBatch, BatchToSpace of computed blocks, between known extents: a Gather of places.

    In the batch the place in a block comes before the batch's own, the last dimension last.
    """
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, SpaceToBatch | BatchToSpace)
    before, result = static_shape(x.shape), static_shape(y.shape)
    if op.channels_first or op.block is not None or not before or not result:
        return None
    if math.prod(before) == 0 or math.prod(result) > MOST_ELEMENTS:
        return None
    block, edges = (as_int32(b, node.operand(i)) for i in (1, 2))
    if block.shape is None or not isinstance(block.shape[0], int) or edges.type.rank != 2:
        return None
    sizes = [_entry(block, i, b) for i in range(block.shape[0])]
    starts = [_entry(_entry(edges, i, b), 0, b, axis=1) for i in range(len(sizes))]
    places = [
        b.const(np.arange(n, dtype=np.int32).reshape(-1, *(1,) * (len(result) - 1 - i)))
        for i, n in enumerate(result)
    ]
    inside = None
    if isinstance(op, SpaceToBatch):
        inside = _from_space(places, sizes, starts, before, b)
    else:
        _from_batch(places, sizes, starts, result[0], b)
    steps = [math.prod(before[i + 1 :]) for i in range(len(before))]
    index = b.add(e.Mul(), [places[0], ints(b, [steps[0]])])
    for place, step in zip(places[1:], steps[1:], strict=True):
        index = b.add(e.Add(), [index, b.add(e.Mul(), [place, ints(b, [step])])])
    source = b.add(Reshape(shape=(-1,)), [x], quant=x.quant)
    if inside is not None:
        nothing = np.zeros(1) if x.quant is None else np.asarray(x.quant.zero_point)
        filler = b.const(nothing.astype(x.dtype.numpy), quant=x.quant)
        source = b.add(Concat(axis=0), [source, filler], quant=x.quant)
        index = b.add(e.Select(), [inside, index, ints(b, [math.prod(before)])])
    return [b.add(Gather(axis=0), [source, index], quant=y.quant)]


def _from_space(
    places: list[Value],
    sizes: Sequence[Value],
    starts: Sequence[Value],
    extents: tuple[int, ...],
    b: Builder,
) -> Value | None:
    """Change places in SpaceToBatch's result to those in x; gives which of them x has."""
    blocks, places[0] = _divided(places[0], ints(b, [extents[0]]), b)
    inside: Value | None = None
    for i in range(len(sizes), 0, -1):
        blocks, within = _divided(blocks, sizes[i - 1], b)
        place = b.add(e.Add(), [b.add(e.Mul(), [places[i], sizes[i - 1]]), within])
        place = b.add(e.Sub(), [place, starts[i - 1]])
        least = b.add(e.Maximum(), [place, ints(b, [0])])
        places[i] = b.add(e.Minimum(), [least, ints(b, [extents[i] - 1])])
        here = b.add(e.Equal(), [place, places[i]])
        inside = here if inside is None else b.add(e.LogicalAnd(), [inside, here])
    return inside


def _from_batch(
    places: list[Value],
    sizes: Sequence[Value],
    starts: Sequence[Value],
    batch: int,
    b: Builder,
) -> None:
    """Change places in BatchToSpace's result to those in x, which has them all."""
    blocks = b.const(np.zeros(1, np.int32))
    for i, (size, start) in enumerate(zip(sizes, starts, strict=True), 1):
        places[i], within = _divided(b.add(e.Add(), [places[i], start]), size, b)
        blocks = b.add(e.Add(), [b.add(e.Mul(), [blocks, size]), within])
    places[0] = b.add(e.Add(), [b.add(e.Mul(), [blocks, ints(b, [batch])]), places[0]])


def _entry(values: Value, index: int, b: Builder, axis: int = 0) -> Value:
    return b.add(Gather(axis=axis), [values, ints(b, [index])])


def _divided(value: Value, divisor: Value, b: Builder) -> tuple[Value, Value]:
    """Quotient and rest of integers from 0 on."""
    quotient = b.add(e.Div(), [value, divisor])
    return quotient, b.add(e.Sub(), [value, b.add(e.Mul(), [quotient, divisor])])


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    DepthToSpace: (by_moves, by_channels, by_batches),
    SpaceToDepth: (by_moves, by_channels),
    SpaceToBatch: (by_turning, pads_apart, blocks_by_moves, pads_at_run_time, picked_by_block),
    BatchToSpace: (by_turning, crops_behind, blocks_by_moves, picked_by_block),
}
