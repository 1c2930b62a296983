"""Ops that move, repeat, join or split elements; shapes."""

from __future__ import annotations

import numpy as np

from nnconv.decompositions.ranks import unsplit
from nnconv.errors import Reason, UnsupportedItem
from nnconv.formats.nnapi import counting, integers
from nnconv.formats.nnapi.exporter import MOST_RANK, Exporter, Target
from nnconv.formats.refusals import item_of
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import MOST_DIMENSIONS, Shape, TensorType, element_count, static_shape
from nnconv.ops import shape as s


def export_identity(node: Node, t: Target) -> None:
    """The operand itself; a copy of it where an output needs one."""
    t.keep(node.operand(0), node.outputs[0])


def open_extents(shape: Shape) -> list[int] | None:
    """The extents for a RESHAPE, -1 for the one that isn't known; None if more aren't."""
    if shape is None or sum(not isinstance(d, int) for d in shape) > 1:
        return None
    found = [d if isinstance(d, int) else -1 for d in shape]
    return None if 0 in found and -1 in found else found or [1]


def export_reshape(node: Node, t: Target) -> None:
    """RESHAPE: also of what only puts in or takes out extents of 1, where the result is known."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    extents = open_extents(y.shape)
    if extents is not None:
        x = unsplit(x, MOST_RANK)
    if len(x.shape or ()) > MOST_RANK:
        own = open_extents(x.shape)
        axes = op.axes if isinstance(op, s.Unsqueeze) else _put_in(own, extents or [])
        if axes:
            _expand(t, x, y, axes)
            return
    t.rank(x)
    if isinstance(op, s.Reshape) and op.shape is not None and extents is None:
        extents = list(op.shape)
    if extents is not None:
        _reshape(t, x, y, extents)
        return
    if isinstance(op, s.Reshape):
        t.emit("RESHAPE", {"input": x, "shape": t.index(node.operand(1))}, y)
    elif isinstance(op, s.Squeeze):
        t.emit("SQUEEZE", {"input": x, "axes": t.ints(op.axes)}, y)
    else:
        assert isinstance(op, s.Unsqueeze)
        _expand(t, x, y, op.axes)


def _reshape(t: Target, x: Value, y: Value, extents: list[int]) -> None:
    """RESHAPE; of integers below level 6 EXPAND_DIMS or GATHER's moves can't do all of it."""
    own = open_extents(x.shape)
    if own == extents and -1 not in extents:
        t.keep(x, y)
        return
    node = t.node
    integral = t.stored(x.dtype) is DType.INT32 and t.level < _RESHAPES_INTEGERS
    many = len(extents) > MOST_RANK and not y.goes_out
    if many and (x.dtype is DType.BOOL or integral):
        t.defer(y, _many_dimensions(node))
        return
    if integral:
        axes = _put_in(own, extents)
        if axes is not None:
            _expand(t, x, y, axes)
            return
    if x.dtype is DType.BOOL and x.type.is_static:
        integers.reshape_truths(t, x, y, extents)
        return
    t.emit("RESHAPE", {"input": x, "shape": t.ints(extents)}, y)


def _many_dimensions(node: Node) -> UnsupportedItem:
    why = f"NNAPI reshapes no {node.operand(0).dtype} to more than {MOST_RANK} dimensions"
    return item_of(node, why, reason=Reason.IMPOSSIBLE)


_RESHAPES_INTEGERS = 6


def _put_in(own: list[int] | None, extents: list[int]) -> tuple[int, ...] | None:
    """The axes of extents 1 that are new; None if that isn't all that is new."""
    if own is None:
        return None
    axes, at = [], 0
    for axis, extent in enumerate(extents):
        if at < len(own) and own[at] == extent:
            at += 1
        elif extent == 1:
            axes.append(axis)
        else:
            return None
    return tuple(axes) if at == len(own) and axes else None


def _expand(t: Target, x: Value, y: Value, axes: tuple[int, ...]) -> None:
    """EXPAND_DIMS, once for each axis."""
    source, dims = t.operand(x), None if x.shape is None else list(x.shape)
    for axis in axes[:-1]:
        if dims is not None:
            dims.insert(axis, 1)
        kind = TensorType(x.dtype, None if dims is None else tuple(dims), x.quant)
        source = t.result("EXPAND_DIMS", {"input": source, "axis": axis}, kind)
    t.emit("EXPAND_DIMS", {"input": source, "axis": axes[-1]}, y)


def export_transpose(node: Node, t: Target) -> None:
    """TRANSPOSE; weights with a scale for each filter are for operations that want them so."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, s.Transpose)
    t.rank(x)
    if x.quant is not None and not x.quant.is_per_tensor and x.data is None:
        t.defer(y, _many_scales(node))
        return
    perm = t.index(node.operand(1)) if op.perm is None else t.ints(op.perm)
    if op.perm is not None and len(op.perm) < 2:
        t.keep(x, y)
        return
    if op.perm is not None and integers.transpose(t, x, y, op.perm):
        return
    t.emit("TRANSPOSE", {"input": x, "perm": perm}, y)


def _many_scales(node: Node) -> UnsupportedItem:
    why = f"NNAPI's TRANSPOSE takes no {node.operand(0).type}"
    return item_of(node, why, reason=Reason.IMPOSSIBLE)


def export_concat(node: Node, t: Target) -> None:
    """CONCATENATION; before level 3 codes need the result's parameters."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, s.Concat)
    t.rank(y)
    t.activation_alone(op.activation)
    parts = [node.operand(i) for i in range(len(node.inputs))]
    if integers.concat(t, parts, y, op.axis):
        return
    joined = [
        t.requantized(part, y.quant, y.dtype) if y.quant is not None else t.operand(part)
        for part in parts
    ]
    t.emit("CONCATENATION", {"inputs": joined, "axis": op.axis}, y)


def export_stack(node: Node, t: Target) -> None:
    """PACK, at level 6; else CONCATENATION of reshaped parts."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, s.Stack)
    parts = [node.operand(i) for i in range(len(node.inputs))]
    is_many = any(len(unsplit(part, MOST_RANK).shape or ()) > MOST_RANK for part in parts)
    t.rank(y, MOST_DIMENSIONS if is_many and t.level >= _PACKS else MOST_RANK)
    if t.level >= _PACKS and (parts[0].shape or ()):
        t.emit("PACK", {"axis": op.axis, "inputs": parts}, y)
        return
    raised = []
    for part in parts:
        if part.shape is None:
            raise t.refused("the rank of its operands isn't known")
        shape = (*part.shape[: op.axis], 1, *part.shape[op.axis :])
        kind = TensorType(part.dtype, shape, part.quant)
        if part.shape:
            operands = {"input": part, "axis": op.axis}
            raised.append(t.result("EXPAND_DIMS", operands, kind))
        else:
            raised.append(t.operand(part))
    t.emit("CONCATENATION", {"inputs": raised, "axis": op.axis}, y)


_PACKS = 6


def export_split(node: Node, t: Target) -> None:
    """SPLIT into equal parts, else a SLICE for each, before level 3 a STRIDED_SLICE."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, s.Split)
    rank = t.rank(x, MOST_DIMENSIONS)
    has_slices = t.level >= _SLICES
    if has_slices and len(set(op.sizes)) == 1 and static_shape(x.shape) is not None and op.sizes[0]:
        t.emit("SPLIT", {"input": x, "axis": op.axis, "count": len(op.sizes)}, node.outputs)
        return
    start = 0
    for size, y in zip(op.sizes, node.outputs, strict=True):
        begin, sizes = [0] * rank, [-1] * rank
        begin[op.axis], sizes[op.axis] = start, size
        if has_slices:
            t.emit("SLICE", {"input": x, "begin": t.ints(begin), "size": t.ints(sizes)}, y)
        else:
            _cut(t, x, y, op.axis, start, start + size)
        start += size


_SLICES = 3
"""The first feature level that has SPLIT and SLICE."""


def export_unstack(node: Node, t: Target) -> None:
    """A STRIDED_SLICE for each part, which takes the axis out."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, s.Unstack)
    if t.rank(x) == 1 or (x.dtype not in t.types_of("STRIDED_SLICE") and not x.type.has_codes):
        _unstack_by_gather(node, t, op)
        return
    for place, y in enumerate(node.outputs):
        _cut(t, x, y, op.axis, place, place + 1, shrinks=True)


def _cut(
    t: Target, x: Value, y: Value, axis: int, start: int, end: int, *, shrinks: bool = False
) -> None:
    """A STRIDED_SLICE of all elements but for one axis, which may be taken out."""
    rank = t.rank(x)
    begins = [0] * rank
    ends = [d if isinstance(d, int) else _FAR for d in x.shape or ()]
    begins[axis], ends[axis] = start, end
    t.emit(
        "STRIDED_SLICE",
        {
            "input": x,
            "begin": t.ints(begins),
            "end": t.ints(ends),
            "strides": t.ints([1] * rank),
            "begin_mask": 0,
            "end_mask": sum(1 << other for other in range(rank) if other != axis),
            "shrink_axis_mask": int(shrinks) << axis,
        },
        y,
    )


_FAR = (1 << 31) - 1


def _unstack_by_gather(node: Node, t: Target, op: s.Unstack) -> None:
    """A GATHER for each part of a vector; of integers none takes an axis out below level 6."""
    x = node.operand(0)
    for place, y in enumerate(node.outputs):
        inputs = {"input": x, "axis": op.axis, "indices": t.ints([place])}
        if len(x.shape or ()) == 1:
            t.emit("GATHER", inputs, y)
            continue
        shape = [*(x.shape or ())]
        shape[op.axis] = 1
        part = t.result("GATHER", inputs, TensorType(x.dtype, tuple(shape), x.quant))
        extents = open_extents(y.shape)
        if extents is None:
            raise t.refused("the extents of its results aren't known")
        t.emit("RESHAPE", {"input": part, "shape": t.ints(extents)}, y)


def export_tile(node: Node, t: Target) -> None:
    """TILE."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, s.Tile)
    t.rank(x, MOST_DIMENSIONS)
    repeats = t.index(node.operand(1)) if op.repeats is None else t.ints(op.repeats or (1,))
    t.emit("TILE", {"input": x, "multiples": repeats}, node.outputs[0])


def export_broadcast_to(node: Node, t: Target) -> None:
    """TILE, of known extents, or one element; of others an ADD of zeros, which broadcasts."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, s.BroadcastTo)
    rank = t.rank(y)
    if op.shape is None and element_count(x.shape) == 1 and static_shape(y.shape) is None:
        source = t.operand(x)
        if rank > 1:
            kind = TensorType(x.dtype, (1,) * rank, x.quant)
            source = t.result("RESHAPE", {"input": source, "shape": t.ints((1,) * rank)}, kind)
        t.emit("TILE", {"input": source, "multiples": t.index(node.operand(1))}, y)
        return
    shape = t.static(y)
    if x.shape == shape:
        t.keep(x, y)
        return
    if x.shape is not None and static_shape(x.shape) is None and x.dtype is not DType.BOOL:
        point = 0 if x.quant is None else x.quant.zero_point[0]
        zeros = t.const(np.full(shape or (1,), point, x.dtype.numpy), quant=x.quant)
        t.emit("ADD", {"input0": x, "input1": zeros, "activation": 0}, y)
        return
    own = t.static(x)
    lead = (1,) * (len(shape) - len(own)) + own
    source = t.operand(x)
    if lead != (own or (1,)):
        kind = TensorType(x.dtype, lead, x.quant)
        source = t.result("RESHAPE", {"input": source, "shape": t.ints(lead)}, kind)
    times = [n if d == 1 and n != 1 else 1 for d, n in zip(lead, shape, strict=True)]
    t.emit("TILE", {"input": source, "multiples": t.ints(times)}, y)


def export_rank(node: Node, t: Target) -> None:
    """RANK, whose scalar may be an output of the graph, but nothing reads it; else a constant."""
    x, y = node.operand(0), node.outputs[0]
    if y.uses:
        t.constant(y, np.asarray(t.rank(x, MOST_DIMENSIONS), np.int32))
        return
    t.emit("RANK", {"input": x}, y, scalar=True)


def export_fill(node: Node, t: Target) -> None:
    """FILL with a constant."""
    op, value, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, s.Fill)
    if value.data is None:
        raise t.refused("FILL's value is a scalar, here it is computed at run time")
    dims = t.index(node.operand(1)) if op.shape is None else t.ints(op.shape or (1,))
    t.require(node, plain=t.scalars_of("FILL"), operands=(0,))
    t.emit("FILL", {"dims": dims, "value": value.data.reshape(-1)[0].item()}, y)


EXPORTERS: dict[type[Op], Exporter] = {
    s.Identity: export_identity,
    s.Reshape: export_reshape,
    s.Squeeze: export_reshape,
    s.Unsqueeze: export_reshape,
    s.Transpose: export_transpose,
    s.Concat: export_concat,
    s.Stack: export_stack,
    s.Unstack: export_unstack,
    s.Split: export_split,
    s.Tile: export_tile,
    s.BroadcastTo: export_broadcast_to,
    s.Range: counting.export_range,
    s.ShapeOf: counting.export_shape_of,
    s.Rank: export_rank,
    s.Fill: export_fill,
}
