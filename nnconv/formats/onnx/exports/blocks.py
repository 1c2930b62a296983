"""Ops that exchange space with depth or batch: on codes."""

from __future__ import annotations

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.exports.shape import Extent, combine, extent, extent_of, extents, index
from nnconv.formats.onnx.exports.slices import pad_with_zero
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Layout, Op
from nnconv.ops.blocks import BatchToSpace, DepthToSpace, SpaceToBatch, SpaceToDepth

_DEPTH_TYPES = frozenset(
    {DType.FLOAT16, DType.FLOAT32, DType.FLOAT64, DType.INT8, DType.UINT8},
)
"""Types that onnxruntime's DepthToSpace and SpaceToDepth take."""


def export_depth_to_space(node: Node, t: Target) -> None:
    """DepthToSpace, in NCHW."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, DepthToSpace)
    assert op.layout is Layout.NCHW, "blocks must be in NCHW here"
    mode = "CRD" if op.column_row_depth else "DCR"
    if t.inner_type(x) in _DEPTH_TYPES:
        t.set_codes(y, t.node("DepthToSpace", [t.codes(x)], blocksize=op.block, mode=mode))
        return
    batch, channels, height, width = (extent(t, x, axis) for axis in range(4))
    depth = combine(t, "Div", channels, op.block * op.block)
    if op.column_row_depth:
        split, perm = [depth, op.block, op.block], (0, 1, 4, 2, 5, 3)
    else:
        split, perm = [op.block, op.block, depth], (0, 3, 4, 1, 5, 2)
    name = t.node("Reshape", [t.codes(x), extents(t, [batch, *split, height, width])])
    name = t.node("Transpose", [name], perm=perm)
    tall, wide = (combine(t, "Mul", size, op.block) for size in (height, width))
    t.set_codes(y, t.node("Reshape", [name, extents(t, [batch, depth, tall, wide])]))


def export_space_to_depth(node: Node, t: Target) -> None:
    """SpaceToDepth, in NCHW."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, SpaceToDepth)
    assert op.layout is Layout.NCHW, "blocks must be in NCHW here"
    if t.inner_type(x) in _DEPTH_TYPES and not op.column_row_depth:
        t.set_codes(y, t.node("SpaceToDepth", [t.codes(x)], blocksize=op.block))
        return
    batch, channels, height, width = (extent(t, x, axis) for axis in range(4))
    tall, wide = (combine(t, "Div", size, op.block) for size in (height, width))
    split = [batch, channels, tall, op.block, wide, op.block]
    name = t.node("Reshape", [t.codes(x), extents(t, split)])
    order = (0, 1, 3, 5, 2, 4) if op.column_row_depth else (0, 3, 5, 1, 2, 4)
    name = t.node("Transpose", [name], perm=order)
    depth = combine(t, "Mul", channels, op.block * op.block)
    t.set_codes(y, t.node("Reshape", [name, extents(t, [batch, depth, tall, wide])]))


def _sizes(t: Target, value: Value | None, given: tuple[int, ...] | None) -> list[Extent]:
    """Block sizes: the attribute's, or the elements of the operand."""
    if given is not None:
        return list(given)
    if value is None or not value.shape or not isinstance(value.shape[0], int):
        raise t.unsupported("the number of blocks isn't known")
    name = t.int64(value)
    return [t.node("Slice", [name, t.const([i]), t.const([i + 1])]) for i in range(value.shape[0])]


def export_space_to_batch(node: Node, t: Target) -> None:
    """SpaceToBatch: Pad, Reshape, Transpose, Reshape; in NCHW with a batch of 1 SpaceToDepth."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, SpaceToBatch)
    if x.shape is None:
        raise t.unsupported("the rank isn't known")
    rank, first = len(x.shape), 2 if op.channels_first else 1
    blocks = _sizes(t, node.optional(1), op.block)
    end = first + len(blocks)
    if op.pads is not None:
        edges = [(0, 0)] * first + list(op.pads) + [(0, 0)] * (rank - end)
        name = pad_with_zero(t, t.codes(x), x, edges)
    else:
        pairs = t.reshape(t.int64(node.inputs[2]), [-1])
        rows = t.node(
            "Concat", [t.const([0] * 2 * first), pairs, t.const([0] * 2 * (rank - end))], axis=0
        )
        columns = t.node("Transpose", [t.reshape(rows, [-1, 2])], perm=(1, 0))
        name = pad_with_zero(t, t.codes(x), x, t.reshape(columns, [-1]))
    dims: list[Extent] = [extent(t, x, axis) for axis in range(rank)]
    for i, axis in enumerate(range(first, end)):
        if op.pads is None:
            dims[axis] = extent_of(t, name, axis)
        else:
            dims[axis] = combine(t, "Add", dims[axis], sum(op.pads[i]))
    small = [combine(t, "Div", d, b) for d, b in zip(dims[first:end], blocks, strict=True)]
    batch = dims[0]
    for size in blocks:
        batch = combine(t, "Mul", batch, size)
    result = [batch, *dims[1:first], *small, *dims[end:]]
    if (
        op.channels_first
        and len(blocks) == 2
        and dims[0] == 1
        and blocks[0] == blocks[1]
        and isinstance(blocks[0], int)
        and t.inner_type(x) in _DEPTH_TYPES
    ):
        name = t.node("SpaceToDepth", [name], blocksize=blocks[0])
        t.set_codes(y, t.node("Reshape", [name, extents(t, result)]))
        return
    split: list[Extent] = list(dims[:first])
    inner = []  # where the block sizes stand
    for part, size in zip(small, blocks, strict=True):
        inner.append(len(split) + 1)
        split += [part, size]
    split += dims[end:]
    outer = [i for i in range(len(split)) if i not in inner]
    name = t.node("Reshape", [name, extents(t, split)])
    name = t.node("Transpose", [name], perm=(*inner, *outer))
    t.set_codes(y, t.node("Reshape", [name, extents(t, result)]))


def export_batch_to_space(node: Node, t: Target) -> None:
    """BatchToSpace: Reshape, Transpose, Reshape, Slice; in NCHW to a batch of 1 DepthToSpace."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, BatchToSpace)
    if x.shape is None:
        raise t.unsupported("the rank isn't known")
    rank, first = len(x.shape), 2 if op.channels_first else 1
    blocks = _sizes(t, node.optional(1), op.block)
    end = first + len(blocks)
    dims: list[Extent] = [extent(t, x, axis) for axis in range(rank)]
    batch = dims[0]
    for size in blocks:
        batch = combine(t, "Div", batch, size)
    big = [combine(t, "Mul", d, b) for d, b in zip(dims[first:end], blocks, strict=True)]
    if (
        op.channels_first
        and len(blocks) == 2
        and batch == 1
        and blocks[0] == blocks[1]
        and isinstance(blocks[0], int)
        and t.inner_type(x) in _DEPTH_TYPES
    ):
        channels = combine(t, "Mul", dims[0], dims[1])
        name = t.node("Reshape", [t.codes(x), extents(t, [1, channels, *dims[2:]])])
        name = t.node("DepthToSpace", [name], blocksize=blocks[0], mode="DCR")
    else:
        split = [*blocks, batch, *dims[1:]]
        count = len(blocks)
        perm = [*range(count, count + first)]
        for i in range(count):
            perm += [count + first + i, i]
        perm += range(count + end, count + rank)
        name = t.node("Reshape", [t.codes(x), extents(t, split)])
        name = t.node("Transpose", [name], perm=tuple(perm))
        name = t.node("Reshape", [name, extents(t, [batch, *dims[1:first], *big, *dims[end:]])])
    t.set_codes(y, _crop(t, node, name, big, first))


def _crop(t: Target, node: Node, name: str, sizes: list[Extent], first: int) -> str:
    op = node.op
    assert isinstance(op, BatchToSpace)
    axes = t.const(list(range(first, first + len(sizes))))
    crops = op.crops
    if crops is None and (known := node.operand(2).data) is not None:
        crops = tuple((int(before), int(after)) for before, after in known)
    if crops is None:
        pairs = t.reshape(t.int64(node.inputs[2]), [-1, 2])
        before, after = (t.node("Gather", [pairs, index(t, i)], axis=1) for i in (0, 1))
        whole = t.node(
            "Slice",
            [
                t.node("Shape", [name]),
                t.const([first]),
                t.const([first + len(sizes)]),
            ],
        )
        return t.node("Slice", [name, before, t.node("Sub", [whole, after]), axes])
    if not any(any(pair) for pair in crops):
        return name
    starts = t.const([before for before, _ in crops])
    far = (1 << 63) - 1
    ends = t.const([-after if after else far for _, after in crops])
    return t.node("Slice", [name, starts, ends, axes])


EXPORTERS: dict[type[Op], Exporter] = {
    DepthToSpace: export_depth_to_space,
    SpaceToDepth: export_space_to_depth,
    SpaceToBatch: export_space_to_batch,
    BatchToSpace: export_batch_to_space,
}
