"""Ops of more dimensions than kernels take, on fewer.

Neighbouring dimensions that every operand has alike become one. Where too many are left, operands
are broadcast beforehand, which leaves one; a transpose is done in several steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TypeAlias

from nnconv.decompositions.along import ALONG, along_few
from nnconv.decompositions.extents import extent, ints, joined
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import LayoutKind
from nnconv.ir.types import Dim, static_shape
from nnconv.ops.elementwise import Mul
from nnconv.ops.shape import BroadcastTo, Reshape, Squeeze, Tile, Transpose, Unsqueeze

Place: TypeAlias = tuple[Value, int]
"""A value and a dimension of it, which has the extent that is meant."""


def fewer_dimensions(node: Node, b: Builder, most: int) -> list[Value] | None:
    """A node on up to ``most`` dimensions; None if it is none of these, or too little is known."""
    if any(v.quant is not None and not v.quant.is_per_tensor for v in node.inputs if v is not None):
        return None
    if isinstance(node.op, Transpose):
        return _transposed(node, b, most)
    if node.op.layout_kind is LayoutKind.TRANSPARENT and len(node.outputs) == 1:
        return _elementwise(node, b, most)
    return along_few(node, b, most)


def could_be_fewer(node: Node, most: int) -> bool:
    """Whether there are too many dimensions, though those of operands are fewer ones split up."""
    op = node.op
    if not (isinstance(op, (Transpose, *ALONG)) or op.layout_kind is LayoutKind.TRANSPARENT):
        return False
    if isinstance(op, Tile) and op.repeats is None:
        return False
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    many = [v for v in values if len(v.shape or ()) > most]
    return bool(many) and all(
        v.data is not None or len(unsplit(v, most).shape or ()) <= most
        for v in many
        if v not in node.outputs
    )


def unsplit(x: Value, most: int) -> Value:
    """What a value of many dimensions is a reshaped form of."""
    while len(x.shape or ()) > most and x.producer is not None:
        if not isinstance(x.producer.op, Reshape | Squeeze | Unsqueeze):
            break
        x = x.producer.operand(0)
    return x


def _elementwise(node: Node, b: Builder, most: int) -> list[Value] | None:
    operands = [v for v in node.inputs if v is not None and v.shape is not None]
    (y,) = node.outputs
    if y.shape is None or len(operands) != len(node.inputs) or not operands:
        return None
    rank = len(y.shape)
    shapes = [(1,) * (rank - len(v.shape or ())) + (v.shape or ()) for v in operands]
    repeated = [tuple(shape[i] == 1 for shape in shapes) for i in range(rank)]
    kept = [i for i in range(rank) if y.shape[i] != 1]
    for i in kept:  # an open extent may turn out to be 1, if it isn't the one of the result
        if any(shape[i] not in (1, y.shape[i]) or shape[i] is None for shape in shapes):
            return None
    groups = _runs(kept, lambda i, j: repeated[i] == repeated[j])
    if len(groups) > most:
        whole = static_shape(y.shape)
        if whole is None:
            return None
        operands = [b.add(BroadcastTo(shape=whole), [v], quant=v.quant) for v in operands]
        shapes, groups = [y.shape] * len(operands), [kept]
    places: list[Place] = []
    for i in range(rank):
        owner = next((v for v, s in zip(operands, shapes, strict=True) if s[i] != 1), operands[0])
        places.append((owner, i - rank + len(owner.shape or ())))
    flat = []
    for value, shape in zip(operands, shapes, strict=True):
        own = [[i for i in group if shape[i] != 1] for group in groups]
        flat.append(_grouped(value, shape, own, places, b))
    result = b.add(node.op, flat, quant=y.quant, dtype=y.dtype)
    return [_grouped(result, y.shape, [[i] for i in range(rank)], places, b)]


def _transposed(node: Node, b: Builder, most: int) -> list[Value] | None:
    op, x = node.op, node.inputs[0]
    assert isinstance(op, Transpose)
    if x is None or x.shape is None or op.perm is None:
        return None
    shape = x.shape
    places = [(x, i) for i in range(len(shape))]
    wanted = [i for i in op.perm if shape[i] != 1]
    order = sorted(wanted)
    value, done = x, 0
    # With those that are in their places, and what lies between, kernels see twice as many and 2.
    at_once = (most - 2) // 2
    while order != wanted:
        place = {dim: number for number, dim in enumerate(order)}
        after = wanted
        if len(_blocks(after, place)) > most:
            done += at_once
            after = wanted[:done] + [i for i in order if i not in wanted[:done]]
        runs = _blocks(after, place)
        before = sorted(runs, key=lambda run: place[run[0]])
        flat = _grouped(value, shape, before, places, b)
        perm = tuple(before.index(run) for run in runs)
        value = b.add(Transpose(perm=perm), [flat], quant=x.quant)
        order = after
    return [_grouped(value, shape, [[i] for i in op.perm], places, b)]


def _blocks(dims: Sequence[int], place: Mapping[int, int]) -> list[list[int]]:
    """Neighbours that are neighbours in another order too, together."""
    return _runs(dims, lambda i, j: place[j] == place[i] + 1)


def _runs(dims: Sequence[int], alike: Callable[[int, int], bool]) -> list[list[int]]:
    """Neighbours that are alike, together."""
    runs: list[list[int]] = []
    for dim in dims:
        if runs and alike(runs[-1][-1], dim):
            runs[-1].append(dim)
        else:
            runs.append([dim])
    return runs


def _grouped(
    value: Value,
    shape: Sequence[Dim],
    groups: Sequence[Sequence[int]],
    places: Sequence[Place],
    b: Builder,
) -> Value:
    """A value with a dimension for each group of the dimensions of ``shape``."""
    sizes = [_size([shape[i] for i in group]) for group in groups]
    known = [size for size in sizes if size is not None]
    if len(sizes) - len(known) <= (0 not in known):
        numbers = tuple(-1 if size is None else size for size in sizes)
        return b.add(Reshape(shape=numbers), [value], quant=value.quant)
    parts = []
    for group, size in zip(groups, sizes, strict=True):
        if size is None:
            extents = [extent(b, *places[i]) for i in group]
            parts.append(reduce(lambda one, other: b.add(Mul(), [one, other]), extents))
        else:
            parts.append(ints(b, [size]))
    return b.add(Reshape(shape=None), [value, joined(b, parts)], quant=value.quant)


def _size(dims: Sequence[Dim]) -> int | None:
    """How many elements there are; None where that isn't known."""
    known = [dim for dim in dims if isinstance(dim, int)]
    return math.prod(known) if len(known) == len(dims) else None
