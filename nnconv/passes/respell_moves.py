"""Finds moves that are spelled in simpler ones: stacks, their parts, slices that are written.

Also blocks of sizes that a run gives. ONNX lacks these, TFLite has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

import numpy as np

from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation, Op, Role
from nnconv.ir.quant import Quant
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops.blocks import BatchToSpace, SpaceToBatch
from nnconv.ops.dynamic import DynamicReshape
from nnconv.ops.elementwise import Add, Div, Maximum, Minimum, Mul
from nnconv.ops.gather import Reduction, ScatterNd
from nnconv.ops.moves import Move
from nnconv.ops.quantize import Bitcast, Cast
from nnconv.ops.shape import (
    Concat,
    Identity,
    Reshape,
    ShapeOf,
    Split,
    Squeeze,
    Stack,
    Transpose,
    Unsqueeze,
    Unstack,
)
from nnconv.ops.slices import DynamicUpdateSlice, Pad, Slice
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


def _may_be_empty(x: Value, graph: Graph | None) -> bool:
    """Whether a run decides on an extent, other than by what the inputs have."""
    extents = {extent for extent in x.shape or () if not isinstance(extent, int)}
    if not extents or graph is None:
        return False
    return not extents <= {e for v in graph.inputs for e in v.shape or () if isinstance(e, str)}


def _as_unstack(node: Node, outputs: set[Value]) -> bool:
    """A Split into slices of 1 each of which loses that dimension is an Unstack.

    What may turn out empty in a run stays: LiteRT's UNPACK fails on it.
    """
    op = node.op
    assert isinstance(op, Split)
    if set(op.sizes) != {1} or _may_be_empty(node.operand(0), node.graph):
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


# -------------------------------------------------------------------- blocks


def _as_blocks(node: Node, outputs: set[Value]) -> bool:
    """Extents split or joined by two sizes that a run gives are blocks, moved from or to a batch.

    Reshape, Transpose, Reshape: the sizes stand in the shape of the first one.
    """
    last = _entries(node)
    turn = node.operand(0).producer
    split = None if turn is None or not isinstance(turn.op, Transpose) else turn.operand(0).producer
    if last is None or turn is None or split is None or not isinstance(split.op, DynamicReshape):
        return False
    if not _is_inner(turn.outputs[0], outputs) or not _is_inner(split.outputs[0], outputs):
        return False
    entries, x = _entries(split), split.operand(0)
    if entries is None or len(entries) != 6 or len(last) != 4 or x.type.rank != 4:
        return False
    assert isinstance(turn.op, Transpose)
    none = ((0, 0), (0, 0))
    op: SpaceToBatch | BatchToSpace
    if turn.op.perm in _SPLITS:
        places = _SPLITS[turn.op.perm]
        found = _split_blocks(x, entries, last, places)
        op = SpaceToBatch(block=None, channels_first=places[0] == 3, pads=none)
    elif turn.op.perm in _JOINS:
        first = _JOINS[turn.op.perm]
        found = _joined_blocks(x, entries, last, first=first)
        op = BatchToSpace(block=None, channels_first=first, crops=none)
    else:
        return False
    if found is None:
        return False
    node.op = op if isinstance(found, Value) else op.replace(block=found)
    node.set_inputs([x, found] if isinstance(found, Value) else [x])
    return True


_SPLITS = {(2, 4, 0, 1, 3, 5): (2, 4), (3, 5, 0, 1, 2, 4): (3, 5)}
"""How dimensions taken apart go to the batch: by their order, where the sizes of blocks stood."""

_JOINS = {(2, 3, 0, 4, 1, 5): False, (2, 3, 4, 0, 5, 1): True}
"""How they come from there: by their order, whether channels are first."""

Entry: TypeAlias = "Value | int"
"""One extent of a shape: a value of one element, or a number."""


def _entries(node: Node) -> list[Entry] | None:
    """The extents that a reshape's shape was put together of."""
    shape = node.operand(1).producer
    if shape is None or not isinstance(shape.op, Concat):
        return None
    entries: list[Entry] = []
    for part in (shape.operand(i) for i in range(len(shape.inputs))):
        if part.data is not None:
            entries += [int(number) for number in part.data.reshape(-1)]
        elif part.shape == (1,):
            entries.append(part)
        else:
            return None
    return entries


def _is_product(entry: Entry, kind: type[Op], a: Entry | None, b: Entry) -> bool:
    """Whether an entry is ``a`` times (or by) ``b``; None: whatever is taken."""
    node = entry.producer if isinstance(entry, Value) else None
    if node is None or not isinstance(node.op, kind) or len(node.inputs) != 2:
        return False
    x, y = (v if v.data is None else int(v.data.reshape(-1)[0]) for v in map(node.operand, (0, 1)))
    return y == b and (a is None or x == a)


def _is_extent(value: Value, source: Value, axis: int) -> bool:
    """Whether a value is this extent of another one."""
    if value.data is not None:
        return source.shape is not None and source.shape[axis] == int(value.data.reshape(-1)[0])
    cut = value.producer
    if cut is None or not isinstance(cut.op, Slice) or cut.op.strides != (1,):
        return False
    shape = cut.operand(0).producer
    bounds = ((cut.op.starts or (None,))[0] or 0, (cut.op.ends or (None,))[0])
    whole = shape is not None and isinstance(shape.op, ShapeOf) and shape.op.dims is None
    return whole and shape is not None and shape.operand(0) is source and bounds == (axis, axis + 1)


def _split_blocks(
    x: Value, entries: list[Entry], last: list[Entry], places: tuple[int, int]
) -> Value | tuple[int, int] | None:
    """The sizes of blocks by which a split takes height and width apart."""
    axes = (1, 2) if places[0] == 2 else (2, 3)
    for place, axis in zip(places, axes, strict=True):
        size, rest = entries[place], entries[place - 1]
        if not _is_product(rest, Div, None, size):
            return None
        assert isinstance(rest, Value)
        assert rest.producer is not None
        if last[axis] is not rest or not _is_extent(rest.producer.operand(0), x, axis):
            return None
    kept, end = (5, 3) if axes == (1, 2) else (1, 1)
    if (
        entries[kept] != last[end]
        or not _keeps(x, end, entries[kept])
        or not _keeps(x, 0, entries[0])
    ):
        return None
    return _pair(entries[places[0]], entries[places[1]])


def _joined_blocks(
    x: Value, entries: list[Entry], last: list[Entry], *, first: bool
) -> Value | tuple[int, int] | None:
    """The sizes of blocks by which height and width become longer."""
    axes, channel = ((2, 3), 1) if first else ((1, 2), 3)
    for number, axis in enumerate(axes):
        own = entries[2 + axis]
        size = entries[number]
        longer = _is_product(last[axis], Mul, own, size) or (own == 1 and last[axis] == size)
        if not longer or not _keeps(x, axis, own):
            return None
    if last[0] is not entries[2] or last[channel] != entries[2 + channel]:
        return None
    return _pair(entries[0], entries[1]) if _keeps(x, channel, last[channel]) else None


def _keeps(x: Value, axis: int, entry: Entry) -> bool:
    """Whether an entry is an extent of ``x``.

    Where paddings that a run gives make that unknown: whether it was one before. Padding makes
    nothing smaller, and all extents together must come out right.
    """
    if isinstance(entry, Value):
        return _is_extent(entry, x, axis)
    pad = x.producer
    if pad is not None and isinstance(pad.op, Pad) and pad.op.before is None:
        x = pad.operand(0)
    return x.shape is not None and x.shape[axis] == entry


def _pair(a: Entry, b: Entry) -> Value | tuple[int, int] | None:
    """The vector whose elements two entries are, or the numbers that they are."""
    if isinstance(a, int) and isinstance(b, int):
        return a, b
    sources = []
    for place, entry in enumerate((a, b)):
        cut = entry.producer if isinstance(entry, Value) else None
        if cut is None or not isinstance(cut.op, Slice) or cut.op.strides != (1,):
            return None
        if ((cut.op.starts or (None,))[0] or 0, (cut.op.ends or (None,))[0]) != (place, place + 1):
            return None
        sources.append(cut.operand(0))
    return sources[0] if sources[0] is sources[1] and sources[0].shape == (2,) else None


# -------------------------------------------------------------------- bits


def _as_itself(node: Node, outputs: set[Value]) -> bool:
    """Moves of bits of another type, or of widened integers, are those of what they are.

    ``node`` is the Bitcast or Cast behind the last move; there must be one behind each of its
    results.
    """
    move = node.operand(0).producer
    if move is None or not _moves_anything(move):
        return False
    if not all(_is_inner(value, outputs) for value in move.outputs):
        return False
    rereads = [value.uses[0].node for value in move.outputs]
    y = node.outputs[0]
    if not all(
        type(again.op) is type(node.op)
        and (again.outputs[0].dtype, again.outputs[0].quant) == (y.dtype, y.quant)
        for again in rereads
    ):
        return False
    line = _line_to(move, node, outputs)
    places = _data_places(line[0])
    sources = [_before(node, line[0].operand(i)) for i in places]
    kinds = {_moved_quant(line, source) for source in sources if source is not None}
    if None in sources or kinds != {y.quant}:
        return False
    for place, source in zip(places, sources, strict=True):
        line[0].replace_input_with(place, source)
    for earlier in line[:-1]:
        between = earlier.outputs[0]
        between.type = TensorType(y.dtype, between.shape, y.quant)
    for moved, again in zip(move.outputs, rereads, strict=True):
        moved.type = TensorType(y.dtype, moved.shape, y.quant)
        if again.outputs[0] in outputs:
            again.op = Identity()
            continue
        again.outputs[0].replace_all_uses_with(moved)
        assert again.graph is not None
        again.graph.remove(again)
    return True


def _moves_anything(node: Node) -> bool:
    """Whether a node moves its data without a look at them, and puts nothing in."""
    if isinstance(node.op, Concat):
        return node.op.activation is Activation.NONE
    return isinstance(node.op, Move) and not isinstance(node.op, Pad | SpaceToBatch | Identity)


def _data_places(move: Node) -> list[int]:
    return [i for i in range(len(move.inputs)) if move.op.role(i) is Role.DATA]


def _line_to(move: Node, node: Node, outputs: set[Value]) -> list[Node]:
    """The moves of one operand, up to ``move``, whose first reads what ``node`` goes back to."""
    line = [move]  # from the last to the first
    while len(places := _data_places(line[-1])) == 1:
        value = line[-1].operand(places[0])
        before = value.producer
        if before is None or not _moves_anything(before) or _before(node, value) is not None:
            break
        if len(before.outputs) > 1 or not _is_inner(value, outputs):
            break
        line.append(before)
    return line[::-1]


def _before(node: Node, value: Value) -> Value | None:
    """The value that another has the bits or the numbers of, of the type that ``node`` gives."""
    kind, dtype, made = type(node.op), node.outputs[0].dtype, value.producer
    if made is not None and isinstance(made.op, kind) and made.operand(0).dtype is dtype:
        return made.operand(0) if kind is Bitcast or _is_within(dtype, value.dtype) else None
    return value if kind is Bitcast and value.dtype is dtype and value.data is None else None


def _is_within(dtype: DType, wider: DType) -> bool:
    """Whether a type's numbers are all of another's."""
    if not dtype.is_integer or not wider.is_integer:
        return False
    (low, high), (least, most) = dtype.int_range, wider.int_range
    return least <= low and high <= most


def _moved_quant(line: Sequence[Node], source: Value) -> Quant | None:
    """The parameters of a value behind moves; None where they aren't told."""
    quant, op = source.quant, line[0].op
    if quant is None or quant.is_per_tensor:
        return quant
    if len(line) > 1 or not isinstance(op, Transpose) or op.perm is None:
        return None
    return source.type.permuted(op.perm).quant if source.type.rank == len(op.perm) else None


class RespellMovesPass(RulesPass):
    """Makes one op of each spelling, where nothing else reads what is in between.

    A spelling is found at its last op.
    """

    name: ClassVar[str] = "respell_moves"
    rules: ClassVar[Mapping[type[Op], Rule]] = {
        Bitcast: _as_itself,
        Cast: _as_itself,
        Concat: _as_stack,
        DynamicReshape: _as_blocks,
        Split: _as_unstack,
        ScatterNd: _as_update,
    }
