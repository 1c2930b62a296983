"""Ops that work along some dimensions, on fewer: neighbours that they leave alone become one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from nnconv.decompositions.extents import open_shape
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import Shape, TensorType, element_count, static_shape
from nnconv.ops.gather import Gather
from nnconv.ops.norm import LogSoftmax, Softmax
from nnconv.ops.reduce import ArgExtreme, CumSum, Reduction
from nnconv.ops.shape import BroadcastTo, Concat, Reshape, Split, Squeeze, Tile, Unstack
from nnconv.ops.slices import Pad, Reverse, Slice

_JOINED = (BroadcastTo, Reduction, Reverse)
"""Ops for which neighbouring dimensions that they work along are as good as one."""

_APART = (BroadcastTo, Pad, Reverse, Slice, Tile)
"""Ops that may work along one dimension after the other."""

_ONE = (ArgExtreme, Concat, CumSum, Gather, LogSoftmax, Softmax, Split, Unstack)
"""Ops along one dimension, ``axis``."""

ALONG = (*_APART, *_ONE, Reduction)

_BY_DIMENSION: dict[type[Op], tuple[str, ...]] = {
    BroadcastTo: ("shape",),
    Pad: ("before", "after"),
    Slice: ("starts", "ends", "strides"),
    Tile: ("repeats",),
}
"""Fields that have an entry for each dimension."""


def along_few(node: Node, b: Builder, most: int) -> list[Value] | None:
    """A node on fewer dimensions, at best on up to ``most``; None if it can't have fewer."""
    axes = _axes(node)
    if axes is None or any(v.quant and not v.quant.is_per_tensor for v in node.outputs):
        return None
    x = node.operand(0)
    rank = len(x.shape or ())
    if isinstance(node.op, BroadcastTo):
        rank = len(node.op.shape or ())
    groups = _groups(node.op, axes, rank)
    if len(groups) > most and isinstance(node.op, _APART) and len(axes) > 1:
        for axis in axes:
            x = b.add(_only(node.op, axis, x.shape), [x, *node.inputs[1:]], quant=x.quant)
        return [x]
    if len(groups) > most and isinstance(node.op, Reduction) and len(axes) > 1:
        return _one_by_one(node, b)
    if len(groups) == rank and not isinstance(node.op, Gather):
        return None
    return _on_groups(node, groups, axes, b)


def _one_by_one(node: Node, b: Builder) -> list[Value] | None:
    """A reduction along one dimension after the other, of plain numbers."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, Reduction)
    assert op.axes is not None
    if x.type.has_codes:
        return None
    for axis in op.axes:
        x = b.add(op.replace(axes=(axis,), keep_dims=True), [x])
    return [x if op.keep_dims else b.add(Squeeze(axes=op.axes), [x])]


def _axes(node: Node) -> tuple[int, ...] | None:
    """The dimensions that a node works along; None if that isn't known."""
    op: Any = node.op
    x = node.operand(0)
    if x.shape is None or any(v.shape is None for v in node.outputs):
        return None
    if isinstance(op, Reverse | Reduction):
        found: tuple[int, ...] | None = op.axes
        return found
    if isinstance(op, _ONE):
        if getattr(op, "batch_dims", 0) or op.axis is None:
            return None
        return (op.axis,)
    fields = [getattr(op, name) for name in _BY_DIMENSION.get(type(op), ())]
    if not fields or None in fields:
        return None
    if isinstance(op, BroadcastTo):
        own = static_shape(x.shape)
        lead = len(op.shape or ()) - len(own or ())
        shape = (1,) * lead + (own or ())
        if own is None or op.shape is None:
            return None
        return tuple(i for i, (d, n) in enumerate(zip(shape, op.shape, strict=True)) if d != n)
    idle = {Pad: (0, 0), Slice: (0, None, 1), Tile: (1,)}[type(op)]
    entries = zip(*fields, strict=True)
    return tuple(i for i, entry in enumerate(entries) if _plain(entry) != idle)


def _plain(entry: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """What an op does along a dimension; a start of None is 0 where the stride is positive."""
    if len(entry) == 3 and entry[0] is None and (entry[2] or 0) > 0:
        return (0, *entry[1:])
    return entry


def _groups(op: Op, axes: Sequence[int], rank: int) -> list[list[int]]:
    """Dimensions in groups that may become one each."""
    groups = [[0]] if rank else []
    for i, j in pairwise(range(rank)):
        alike = (i in axes) == (j in axes) and (i not in axes or isinstance(op, _JOINED))
        if alike:
            groups[-1].append(j)
        else:
            groups.append([j])
    return groups


def _only(op: Any, axis: int, shape: Shape) -> Op:
    """An op along one of the dimensions that it works along."""
    if isinstance(op, Reverse):
        return op.replace(axes=(axis,))
    if isinstance(op, BroadcastTo):
        assert op.shape is not None
        own = (1,) * (len(op.shape) - len(shape or ())) + tuple(shape or ())
        return op.replace(shape=(*own[:axis], op.shape[axis], *own[axis + 1 :]))
    idle = {"repeats": 1, "strides": 1, "before": 0, "after": 0}
    changed = {
        name: tuple(
            entry if i == axis else idle.get(name) for i, entry in enumerate(getattr(op, name))
        )
        for name in _BY_DIMENSION[type(op)]
    }
    made: Op = op.replace(**changed)
    return made


def _on_groups(
    node: Node, groups: Sequence[Sequence[int]], axes: Sequence[int], b: Builder
) -> list[Value] | None:
    """A node on operands with a dimension for each group."""
    op: Any = node.op
    whole = [node.inputs[i] for i in range(_counted(node))]
    shapes = []
    for value in whole:
        assert value is not None
        own = value.shape or ()
        own = (1,) * (sum(map(len, groups)) - len(own)) + tuple(own)
        shapes.append(
            open_shape(tuple(element_count(tuple(own[i] for i in group)) for group in groups))
        )
    finals = [open_shape(v.shape or ()) for v in node.outputs]
    if None in shapes or None in finals:
        return None
    flat = [
        b.add(Reshape(shape=shape), [v], quant=v.quant)
        for v, shape in zip(whole, shapes, strict=True)
        if v is not None and shape is not None
    ]
    places = [place for place, group in enumerate(groups) if group[0] in axes]
    if isinstance(op, Reverse | Reduction):
        changed: dict[str, Any] = {"axes": tuple(places)}
    elif isinstance(op, _ONE):
        changed = {"axis": places[0]}
    elif isinstance(op, BroadcastTo):
        assert op.shape is not None
        changed = {"shape": tuple(math.prod(op.shape[i] for i in group) for group in groups)}
    else:
        changed = {
            name: tuple(getattr(op, name)[group[0]] for group in groups)
            for name in _BY_DIMENSION[type(op)]
        }
    changed_op = op.replace(**changed)
    inputs = [*flat, *node.inputs[len(flat) :]]
    if isinstance(op, Gather):
        inputs[1] = b.add(Reshape(shape=(-1,)), [node.operand(1)])
    kinds = [
        TensorType(old.dtype, new.shape, old.quant)
        for old, new in zip(node.outputs, b.infer(changed_op, inputs), strict=True)
    ]
    made = b.add_typed(changed_op, inputs, kinds)
    return [
        b.add(Reshape(shape=final), [v], quant=v.quant)
        for v, final in zip(made, finals, strict=True)
        if final is not None
    ]


def _counted(node: Node) -> int:
    """How many operands have the dimensions that a node works along."""
    return len(node.inputs) if isinstance(node.op, Concat) else 1
