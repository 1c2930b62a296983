"""Finds moves that are spelled in simpler ones: stacks, their parts, and slices that are written.

ONNX lacks these, TFLite has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ir.types import static_shape
from nnconv.ops.elementwise import Add, Maximum, Minimum
from nnconv.ops.gather import Reduction, ScatterNd
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Concat, Reshape, Split, Squeeze, Stack, Unsqueeze, Unstack
from nnconv.ops.slices import DynamicUpdateSlice, Slice
from nnconv.passes.base import Rule, RulesPass


def _is_inner(value: Value, outputs: set[Value]) -> bool:
    return value.use_count == 1 and value not in outputs


def _as_stack(node: Node, outputs: set[Value]) -> bool:
    """A Concat of what each gets a dimension of 1 at the place is a Stack."""
    op = node.op
    assert isinstance(op, Concat)
    if op.activation is not Activation.NONE or len(node.inputs) < 2:
        return False
    parts = []
    for value in node.inputs:
        source = None if value is None else _before_unsqueeze(value, op.axis)
        if value is None or source is None or not _is_inner(value, outputs):
            return False
        parts.append(source)
    first = parts[0].type
    if any(p.type != first for p in parts) or first.quant != node.outputs[0].quant:
        return False
    node.op = Stack(axis=op.axis)
    node.set_inputs(parts)
    return True


def _before_unsqueeze(value: Value, axis: int) -> Value | None:
    """What has one dimension, of extent 1, less than ``value``."""
    node = value.producer
    x = node.inputs[0] if node is not None and isinstance(node.op, Unsqueeze | Reshape) else None
    if x is None or x.shape is None or value.shape is None or x.type.rank == 0:
        return None
    return x if value.shape == (*x.shape[:axis], 1, *x.shape[axis:]) else None


def _as_unstack(node: Node, outputs: set[Value]) -> bool:
    """A Split into slices of 1 each of which loses that dimension is an Unstack."""
    op = node.op
    assert isinstance(op, Split)
    if set(op.sizes) != {1}:
        return False
    views = []
    for value in node.outputs:
        if not _is_inner(value, outputs) or value.shape is None:
            return False
        view = value.uses[0].node
        wanted = (*value.shape[: op.axis], *value.shape[op.axis + 1 :])
        if not isinstance(view.op, Squeeze | Reshape) or view.outputs[0].shape != wanted:
            return False
        views.append(view)
    made = []
    for view in views:
        result = view.outputs[0]
        made.append(Value(result.name, result.type, origin=result.origin))
    x, graph = node.inputs[0], node.graph
    assert graph is not None
    graph.insert_before(node, Node(Unstack(axis=op.axis, count=len(made)), [x], made))
    for view, value in zip(views, made, strict=True):
        old = view.outputs[0]
        old.replace_all_uses_with(value)
        if old in outputs:
            graph.replace_output(old, value)
            outputs.add(value)
        graph.remove(view)
    graph.remove(node)
    return True


def _as_update(node: Node, _: set[Value]) -> bool:
    """A ScatterND to all places of a box that begins somewhere inside is a DynamicUpdateSlice."""
    op, (x, places, update) = node.op, node.inputs
    assert isinstance(op, ScatterNd)
    if op.reduction is not Reduction.NONE or x is None or places is None or update is None:
        return False
    whole, box = static_shape(x.shape), static_shape(update.shape)
    total = places.producer
    if whole is None or box is None or len(whole) != len(box) or total is None:
        return False
    if not isinstance(total.op, Add) or x.quant != update.quant:
        return False
    grid = next((v for v in total.inputs if v is not None and v.data is not None), None)
    moved = next((v for v in total.inputs if v is not None and v.data is None), None)
    if grid is None or moved is None or grid.data is None or not grid.data.ndim:
        return False
    depth = grid.data.shape[-1]
    if not 0 < depth <= len(box) or box[depth:] != whole[depth:]:
        return False
    wanted = np.moveaxis(np.indices(box[:depth]), 0, -1)
    if grid.data.shape != wanted.shape or not np.array_equal(grid.data, wanted):
        return False
    room = np.asarray(whole[:depth]) - np.asarray(box[:depth])
    starts = _clamped(moved, room)
    starts = None if starts is None else _all_starts(starts, len(whole))
    if starts is None:
        return False
    node.op = DynamicUpdateSlice()
    node.set_inputs([x, update, starts])
    return True


def _clamped(value: Value, room: np.ndarray) -> Value | None:
    """What is clamped to 0 ... ``room``, in either order."""
    for first, second in ((Maximum, Minimum), (Minimum, Maximum)):
        bounds = {Maximum: np.zeros_like(room), Minimum: room}
        middle = _but_for(value, first, bounds[first])
        found = None if middle is None else _but_for(middle, second, bounds[second])
        if found is not None:
            return found
    return None


def _but_for(value: Value, kind: type[Op], bound: np.ndarray) -> Value | None:
    """The operand beside this constant, of an op of this kind that makes ``value``."""
    node = value.producer
    if node is None or not isinstance(node.op, kind) or value.shape != (len(bound),):
        return None
    a, b = node.inputs
    for x, other in ((a, b), (b, a)):
        if other is None or other.data is None or other.data.size not in (1, len(bound)):
            continue
        if x is not None and np.array_equal(np.resize(other.data, len(bound)), bound):
            return x
    return None


def _all_starts(value: Value, rank: int) -> Value | None:
    """Starts of all dimensions: those left out are of dimensions without room."""
    while value.producer is not None and isinstance(value.producer.op, Cast | Slice):
        op, source = value.producer.op, value.producer.inputs[0]
        if source is None or not source.dtype.is_integer:
            break
        if isinstance(op, Cast) and not (value.dtype is DType.INT64 and source.dtype.bits < 64):
            break
        if isinstance(op, Slice) and (op.starts not in ((0,), (None,)) or op.strides != (1,)):
            break
        value = source
    return value if value.shape == (rank,) else None


class RespellMovesPass(RulesPass):
    """Makes one op of each spelling, where nothing else reads what is in between.

    A spelling is found at its last op.
    """

    name: ClassVar[str] = "respell_moves"
    rules: ClassVar[Mapping[type[Op], Rule]] = {
        Concat: _as_stack,
        Split: _as_unstack,
        ScatterNd: _as_update,
    }
