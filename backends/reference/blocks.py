"""Ops that exchange space with depth or batch."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.conv import channels_last, in_layout
from nnconv.backends.reference.executor import Array, Kernel, code_of, flat, takes_kind

from nnconv.ir.op import Layout, Op
from nnconv.ir.types import TensorType
from nnconv.ops.blocks import BatchToSpace, DepthToSpace, SpaceToBatch, SpaceToDepth


def depth_to_space(op: DepthToSpace, x: Array) -> list[Array]:
    """DepthToSpace."""
    data, b = channels_last(x, op.layout), op.block
    n, h, w, c = data.shape
    depth = c // (b * b)
    if op.column_row_depth:
        parts = data.reshape(n, h, w, depth, b, b).transpose(0, 1, 4, 2, 5, 3)
    else:
        parts = data.reshape(n, h, w, b, b, depth).transpose(0, 1, 3, 2, 4, 5)
    return [in_layout(parts.reshape(n, h * b, w * b, depth), op.layout)]


def space_to_depth(op: SpaceToDepth, x: Array) -> list[Array]:
    """SpaceToDepth."""
    data, b = channels_last(x, op.layout), op.block
    n, h, w, c = data.shape
    parts = data.reshape(n, h // b, b, w // b, b, c)
    order = (0, 1, 3, 5, 2, 4) if op.column_row_depth else (0, 1, 3, 2, 4, 5)
    parts = parts.transpose(order)
    return [in_layout(parts.reshape(n, h // b, w // b, b * b * c), op.layout)]


def _pairs(
    given: tuple[tuple[int, int], ...] | None, operand: Array | None
) -> list[tuple[int, int]]:
    if given is not None:
        return list(given)
    assert operand is not None
    return [(int(a), int(b)) for a, b in operand.reshape(-1, 2)]


def _blocks(given: tuple[int, ...] | None, operand: Array | None) -> list[int]:
    return list(given) if given is not None else flat(operand)


def _layout(op: SpaceToBatch | BatchToSpace) -> Layout:
    return Layout.NCHW if op.channels_first else Layout.NHWC


@takes_kind
def space_to_batch(
    op: SpaceToBatch,
    x: Array,
    block: Array | None = None,
    pads: Array | None = None,
    *,
    kind: TensorType,
) -> list[Array]:
    """SpaceToBatch."""
    data = channels_last(x, _layout(op))
    blocks, edges = _blocks(op.block, block), _pairs(op.pads, pads)
    count = len(blocks)
    around = [(0, 0), *edges, *[(0, 0)] * (data.ndim - 1 - count)]
    data = np.pad(data, around, constant_values=code_of(0.0, kind))
    split = [data.shape[0]]
    for extent, size in zip(data.shape[1 : count + 1], blocks, strict=True):
        split += [extent // size, size]
    split += data.shape[count + 1 :]
    inner = [2 + 2 * i for i in range(count)]
    outer = [i for i in range(len(split)) if i not in inner]
    parts = data.reshape(split).transpose(*inner, *outer)
    small = [extent // size for extent, size in zip(data.shape[1:], blocks, strict=False)]
    batch = data.shape[0] * int(np.prod(blocks))
    result = parts.reshape(batch, *small, *data.shape[count + 1 :])
    return [in_layout(result, _layout(op))]


def batch_to_space(
    op: BatchToSpace, x: Array, block: Array | None = None, crops: Array | None = None
) -> list[Array]:
    """BatchToSpace."""
    data = channels_last(x, _layout(op))
    blocks, edges = _blocks(op.block, block), _pairs(op.crops, crops)
    count = len(blocks)
    batch = data.shape[0] // int(np.prod(blocks))
    parts = data.reshape(*blocks, batch, *data.shape[1:])
    perm = [count]
    for i in range(count):
        perm += [count + 1 + i, i]
    perm += range(2 * count + 1, parts.ndim)
    big = [extent * size for extent, size in zip(data.shape[1:], blocks, strict=False)]
    result = parts.transpose(perm).reshape(batch, *big, *data.shape[count + 1 :])
    keep = tuple(slice(a, n - b) for (a, b), n in zip(edges, big, strict=True))
    return [in_layout(result[(slice(None), *keep)], _layout(op))]


KERNELS: dict[type[Op], Kernel] = {
    DepthToSpace: depth_to_space,
    SpaceToDepth: space_to_depth,
    SpaceToBatch: space_to_batch,
    BatchToSpace: batch_to_space,
}
