"""Blocks put back into images."""

from __future__ import annotations

from itertools import product

import numpy as np

from nnconv.decompositions.arithmetic import Arithmetic
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.types import static_shape
from nnconv.ops import elementwise as e
from nnconv.ops import sampling as s
from nnconv.ops.gather import Reduction, ScatterNd
from nnconv.ops.reduce import ReduceProd
from nnconv.ops.shape import Concat, Fill, Range, Reshape, ShapeOf, Transpose, Unsqueeze
from nnconv.ops.slices import Pad, Slice
from nnconv.ops.window import Dilate

MOST_PLACES = 1 << 10
"""Of a block, for each of which there are a few nodes."""


def part_of(x: Value, axis: int, start: int, count: int, b: Builder) -> Value:
    """A stretch of one dimension."""
    rank = x.type.rank
    assert rank is not None
    cut = Slice(
        starts=tuple(start if i == axis else 0 for i in range(rank)),
        ends=tuple(start + count if i == axis else None for i in range(rank)),
        strides=(1,) * rank,
    )
    return b.add(cut, [x])


def add_up(node: Node, b: Builder) -> list[Value] | None:
    """Col2Im of known shapes: the sum of what each place of the block gives, spread and moved.

    How many images there are may be open.
    """
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, s.Col2Im)
    if x.shape is None or y.shape is None or op.block is None:
        return None
    blocks_of, result = static_shape(x.shape[2:]), static_shape(y.shape[1:])
    if blocks_of is None or result is None:
        return None
    if np.prod([float(n) for n in op.block]) > MOST_PLACES:
        return None
    rank, window = len(op.block), op.block
    n = x.shape[0] if isinstance(x.shape[0], int) else -1
    channels, *extents = result
    before, after = op.padding.before, op.padding.after
    full = [size + before[i] + after[i] for i, size in enumerate(extents)]
    counts = [
        (full[i] - (window[i] - 1) * op.dilation[i] - 1) // op.stride[i] + 1 for i in range(rank)
    ]
    if int(np.prod(counts)) != blocks_of[0]:
        return None
    blocks = b.add(Reshape(shape=(n, channels, int(np.prod(window)), *blocks_of)), [x])
    total: Value | None = None
    for number, place in enumerate(product(*(range(size) for size in window))):
        part = part_of(blocks, 2, number, 1, b)
        part = b.add(Reshape(shape=(n, channels, *counts)), [part])
        if max(op.stride) > 1:
            zero = b.const(np.zeros((), x.dtype.numpy))
            part = b.add(Dilate(dilations=(1, 1, *op.stride)), [part, zero])
        first = [p * d for p, d in zip(place, op.dilation, strict=True)]
        reach = [(count - 1) * step + 1 for count, step in zip(counts, op.stride, strict=True)]
        rest = [full[i] - first[i] - reach[i] for i in range(rank)]
        part = b.add(Pad(before=(0, 0, *first), after=(0, 0, *rest)), [part])
        total = part if total is None else b.add(e.Add(), [total, part])
    assert total is not None
    if any((*before, *after)):
        ends = [start + size for start, size in zip(before, extents, strict=True)]
        cut = Slice(starts=(0, 0, *before), ends=(None, None, *ends), strides=(1,) * (rank + 2))
        total = b.add(cut, [total])
    return [total]


def scatter(node: Node, b: Builder) -> list[Value] | None:
    """Col2Im of extents known at run time: each element is added where it belongs."""
    op = node.op
    x, image, block = node.operand(0), node.optional(1), node.optional(2)
    assert isinstance(op, s.Col2Im)
    if op.image is not None and op.block is not None:
        return None
    a, rank = Arithmetic(b), len(op.stride)
    whole = _vector(op.image, image, a)
    window = _vector(op.block, block, a)
    before, after = (a.ints(np.asarray(n)) for n in (op.padding.before, op.padding.after))
    full = a.add(whole, a.add(before, after))
    steps, spread = a.ints(np.asarray(op.stride)), a.ints(np.asarray(op.dilation))
    reach = a.add(a.mul(a.sub(window, a.ints(1)), spread), a.ints(1))
    counts = a.add(a.do(e.FloorDiv(), a.sub(full, reach), steps), a.ints(1))
    rows = _places(window, spread, rank, a)
    columns = _places(counts, steps, rank, a)
    number: Value | None = None
    for i in range(rank):
        here = a.add(b.add(Unsqueeze(axes=(1,)), [rows[i]]), columns[i])
        number = here if number is None else a.add(a.mul(number, a.entry(full, i)), here)
    assert number is not None
    index = b.add(Reshape(shape=(-1, 1)), [number])
    whole_rows = b.add(ReduceProd(axes=(0,), keep_dims=True), [window])
    length = a.mul(whole_rows, b.add(ReduceProd(axes=(0,), keep_dims=True), [counts]))
    minus_one = a.ints(np.asarray([-1]))
    flat_shape = b.add(Concat(axis=0), [minus_one, length])
    flat = b.add(Reshape(shape=None), [x, flat_shape])
    turned = b.add(Transpose(perm=(1, 0)), [flat])  # [elements, N * C]
    many = b.add(ShapeOf(dtype=DType.INT32, dims=(0,)), [flat])
    area = b.add(ReduceProd(axes=(0,), keep_dims=True), [full])
    shape = b.add(Concat(axis=0), [area, many])
    zeros = b.add(Fill(shape=None), [b.const(np.zeros((), x.dtype.numpy)), shape])
    sums = b.add(ScatterNd(reduction=Reduction.ADD), [zeros, index, turned])
    sums = b.add(Transpose(perm=(1, 0)), [sums])
    sizes = b.add(ShapeOf(dtype=DType.INT32, dims=(0, 1)), [x])
    images = b.add(Reshape(shape=(1,)), [a.entry(sizes, 0)])
    channels = a.do(e.FloorDiv(), b.add(Reshape(shape=(1,)), [a.entry(sizes, 1)]), whole_rows)
    lead = [images, channels]
    spaced = b.add(Reshape(shape=None), [sums, b.add(Concat(axis=0), [*lead, full])])
    starts = b.add(Concat(axis=0), [a.ints(np.zeros(2)), before])
    ends = b.add(Concat(axis=0), [*lead, a.add(before, whole)])
    cut = Slice(starts=None, ends=None, strides=(1,) * (rank + 2))
    return [b.add(cut, [spaced, starts, ends])]


def _vector(given: tuple[int, ...] | None, operand: Value | None, a: Arithmetic) -> Value:
    if given is not None:
        return a.ints(np.asarray(given))
    assert operand is not None, "the verifier wants an operand or an attribute"
    return a.cast(operand, DType.INT32)


def _places(counts: Value, steps: Value, rank: int, a: Arithmetic) -> list[Value]:
    """Of elements of a block of ``counts``, in row-major order: places in each dimension."""
    total = a.b.add(ReduceProd(axes=(0,)), [counts])
    rest = a.b.add(Range(), [a.ints(0), total, a.ints(1)])
    found = []
    for i in reversed(range(rank)):
        count = a.entry(counts, i)
        found.append(a.mul(a.do(e.FloorMod(), rest, count), a.entry(steps, i)))
        rest = a.do(e.FloorDiv(), rest, count)
    return found[::-1]
