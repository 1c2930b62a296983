"""Ops that move, repeat, join or split elements; shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnconv.decompositions.base import Refused
from nnconv.formats.indexed import Ref
from nnconv.formats.nnrt.exporter import Exporter, Input, Target
from nnconv.formats.nnrt.exports.quantize import emit_cast
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops import shape as o


def export_identity(node: Node, t: Target) -> None:
    """The operand itself; a copy of it where an output needs one."""
    t.keep(node.operand(0), node.outputs[0])


def open_extents(t: Target, value: Value) -> list[int] | None:
    """The extents for a RESHAPE, -1 for the one that isn't known; None if more aren't."""
    if value.shape is None or t.shape(value).count(None) > 1:
        return None
    return [-1 if extent is None else extent for extent in t.shape(value)]


def export_reshape(node: Node, t: Target) -> None:
    """RESHAPE: also of what only puts in or takes out extents of 1, where the result is known."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    extents = open_extents(t, y)
    if extents is None and isinstance(op, o.Reshape) and op.shape is not None:
        extents = list(op.shape)
    if extents is None:
        if isinstance(op, o.Squeeze):
            t.emit("SQUEEZE", {"input": x}, y, {"axis": list(op.axes)})
        elif isinstance(op, o.Unsqueeze):
            _unsqueeze(t, x, y, op.axes)
        else:
            t.emit("RESHAPE", {"input": x, "InputShape": node.operand(1)}, y)
        return
    if extents:
        t.emit("RESHAPE", {"input": x, "InputShape": t.ints(extents)}, y)
    else:  # a shape without elements can't be stated
        t.emit("SQUEEZE", {"input": x}, y)


def _unsqueeze(t: Target, x: Value, y: Value, axes: tuple[int, ...]) -> None:
    """UNSQUEEZE, once for each axis."""
    source, dims = t.tensor(x), list(x.shape or ())
    for axis in axes[:-1]:
        dims.insert(axis, 1)
        kind = TensorType(x.dtype, tuple(dims), x.quant)
        source = t.result("UNSQUEEZE", {"input": source}, kind, {"axis": axis})
    t.emit("UNSQUEEZE", {"input": source}, y, {"axis": axes[-1]})


def export_transpose(node: Node, t: Target) -> None:
    """TRANSPOSE."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, o.Transpose)
    if op.perm is not None and len(op.perm) < 2:
        t.keep(x, y)
        return
    perm = node.operand(1) if op.perm is None else t.ints(op.perm)
    t.emit("TRANSPOSE", {"input": x, "permutation": perm}, y)


def export_concat(node: Node, t: Target) -> None:
    """CONCAT, of as many parts at once as it takes; all codes have the same parameters."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, o.Concat)
    if op.activation is not Activation.NONE:
        raise Refused("CONCAT has no activation", activation=True)
    operands = [node.operand(i) for i in range(len(node.inputs))]
    parts: list[Value | Ref] = [v for v in operands if 0 not in (v.shape or ())]
    parts = parts or [operands[0]]
    for part in parts:
        assert isinstance(part, Value)
        if part.quant != y.quant:
            raise t.to_floats(f"`{part.name}` has other parameters than the result")
    if isinstance(only := parts[0], Value) and len(parts) == 1:
        t.keep(only, y)
        return
    while len(parts) > _MOST_PARTS:
        parts = [_joined(t, parts[:_MOST_PARTS], op, y), *parts[_MOST_PARTS:]]
    t.emit("CONCAT", {"input": parts}, y, {"axis": op.axis})


_MOST_PARTS = 200


def _joined(t: Target, parts: list[Value | Ref], op: o.Concat, y: Value) -> Ref:
    dims: list[int] = list(static_shape(y.shape) or ())
    if not dims:
        raise t.refused(f"more than {_MOST_PARTS} parts, and the result's extents aren't known")
    tensors = [t.tensors[t.tensor(part) if isinstance(part, Value) else part] for part in parts]
    dims[op.axis] = sum(tensor.dimensions[op.axis] for tensor in tensors)
    kind = TensorType(y.dtype, tuple(dims), y.quant)
    return t.result("CONCAT", {"input": parts}, kind, {"axis": op.axis})


def export_stack(node: Node, t: Target) -> None:
    """STACK; of one part UNSQUEEZE."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, o.Stack)
    parts = [node.operand(i) for i in range(len(node.inputs))]
    if len(parts) == 1:
        t.emit("UNSQUEEZE", {"input": parts[0]}, y, {"axis": op.axis})
    else:
        t.emit("STACK", {"input": parts}, y, {"axis": op.axis})


def export_unstack(node: Node, t: Target) -> None:
    """UNSTACK."""
    op = node.op
    assert isinstance(op, o.Unstack)
    t.emit("UNSTACK", {"input": node.operand(0)}, node.outputs, {"axis": op.axis})


def export_split(node: Node, t: Target) -> None:
    """SPLIT."""
    op = node.op
    assert isinstance(op, o.Split)
    params: dict[str, Any] = {"outputNum": len(op.sizes), "axis": op.axis}
    if len(set(op.sizes)) > 1:
        params["sizeSplits"] = list(op.sizes)
    t.emit("SPLIT", {"input": node.operand(0)}, node.outputs, params)


def export_tile(node: Node, t: Target) -> None:
    """TILE."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, o.Tile)
    repeats = node.operand(1) if op.repeats is None else t.ints(op.repeats)
    t.emit("TILE", {"input": x, "multiples": repeats}, node.outputs)


def export_broadcast_to(node: Node, t: Target) -> None:
    """BROADCAST_TO, whose shape is known; version 1 has TILE."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, o.BroadcastTo)
    if op.shape is None:
        raise t.refused("the shape is computed at run time")
    if t.api > 1:
        t.emit("BROADCAST_TO", {"input": x}, y, {"shape": list(op.shape)})
        return
    own = t.static(x)
    lead = (1,) * (len(op.shape) - len(own)) + own
    times = [1 if d == n else n for d, n in zip(lead, op.shape, strict=True)]
    t.emit("TILE", {"input": x, "multiples": t.ints(times)}, y)


def export_shape_of(node: Node, t: Target) -> None:
    """SHAPE gives int32; of some dimensions GATHER picks."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, o.ShapeOf)
    extents = static_shape(x.shape)
    if extents is not None:
        chosen = extents if op.dims is None else [extents[i] for i in op.dims]
        if chosen:
            t.constant(y, np.asarray(chosen, op.dtype.numpy))
            return
    plain = op.dims is None and op.dtype is DType.INT32
    if plain:
        t.emit("SHAPE", {"input": x}, y)
        return
    count = len(t.shape(x)) if op.dims is None else len(op.dims)
    made = t.result("SHAPE", {"input": x}, TensorType(DType.INT32, (len(t.shape(x)),)))
    if op.dims is not None:
        inputs = {"input": made, "inputIndices": t.ints(op.dims), "axis": t.single(0)}
        if op.dtype is DType.INT32:
            t.emit("GATHER", inputs, y)
            return
        made = t.result("GATHER", inputs, TensorType(DType.INT32, (count,)))
    emit_cast(t, made, y)


def export_rank(node: Node, t: Target) -> None:
    """A constant."""
    rank = len(t.shape(node.operand(0)))
    t.constant(node.outputs[0], np.asarray(rank, np.int32))


def export_fill(node: Node, t: Target) -> None:
    """FILL."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, o.Fill)
    if op.shape == ():
        t.keep(node.operand(0), y)
        return
    shape = node.operand(1) if op.shape is None else t.ints(op.shape)
    t.emit("FILL", {"value": node.operand(0), "shape": shape}, y)


def export_range(node: Node, t: Target) -> None:
    """RANGE, whose bounds are known whole numbers; the input says nothing but the type.

    Up to a limit that is computed at run time the places of equal elements: TOP_K gives of equals
    the first one first.
    """
    y = node.outputs[0]
    data = [node.operand(i).data for i in range(3)]
    bounds = [None if d is None else d.reshape(-1)[0] for d in data]
    if bounds == [0, None, 1] and y.dtype is DType.INT32:
        _count_up(t, node.operand(1), y)
        return
    if any(bound is None or bound != int(bound) for bound in bounds):
        raise t.refused("RANGE has bounds that are known, and whole")
    start, limit, delta = (int(bound) for bound in bounds if bound is not None)
    count = -(-(limit - start) // delta) if delta else 0
    if count < 1:
        raise t.refused("RANGE gives at least one number")
    y.type = y.type.with_shape((count,))
    unread = t.const(np.zeros(1, y.dtype.numpy))
    t.emit("RANGE", {"input": unread}, y, {"start": start, "limit": limit, "delta": delta})


def _count_up(t: Target, limit: Value, y: Value) -> None:
    """0, 1, ... below an int32 of one element, by TOP_K of as many zeros."""
    bounds: dict[str, Input] = {"input1": limit, "input2": t.single(0)}
    count = t.result("MAXIMUM", bounds, TensorType(DType.INT32, (1,)))
    zero = t.const(np.zeros(1, np.float32))
    kind = TensorType(DType.FLOAT32, y.shape)
    zeros = t.result("FILL", {"value": zero, "shape": count}, kind)
    t.operate("TOP_K", {"input": zeros, "k": count}, [t.temp(kind), t.declare(y)], {"sorted": True})


EXPORTERS: dict[type[Op], Exporter] = {
    o.BroadcastTo: export_broadcast_to,
    o.Concat: export_concat,
    o.Fill: export_fill,
    o.Identity: export_identity,
    o.Range: export_range,
    o.Rank: export_rank,
    o.Reshape: export_reshape,
    o.ShapeOf: export_shape_of,
    o.Split: export_split,
    o.Squeeze: export_reshape,
    o.Stack: export_stack,
    o.Tile: export_tile,
    o.Transpose: export_transpose,
    o.Unsqueeze: export_reshape,
    o.Unstack: export_unstack,
}
