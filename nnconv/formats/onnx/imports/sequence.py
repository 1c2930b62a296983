"""Sequences of tensors: what they are made of is followed, what is taken from them are tensors."""

from __future__ import annotations

import numpy as np

from nnconv.errors import Reason
from nnconv.formats.onnx.importer import Importer, NotConvertible, Source
from nnconv.formats.onnx.lists import Listed, Parts, TensorList
from nnconv.formats.onnx.scope import SEQUENCE_HINT
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.types import static_shape
from nnconv.ops.gather import Gather
from nnconv.ops.shape import Concat, Reshape, ShapeOf, Split, Stack, Transpose


def refused(src: Source, why: str) -> NotConvertible:
    """The exception for a sequence that can't be followed."""
    return src.unsupported(why, reason=Reason.OUT_OF_SCOPE, hint=SEQUENCE_HINT)


def sequence(src: Source, place: int) -> TensorList:
    """Operand ``place``, a sequence.

    Raises:
        NotConvertible: when it isn't known what it is made of.
    """
    name = src.node.inputs[place] if place < src.operand_count else ""
    found = src.scope.find_list(name)
    if found is None:
        src.operand(place)
        if src.scope.unsupported:
            raise NotConvertible  # what should have made it has been refused
        raise refused(src, f"it isn't known what the sequence `{name}` is made of")
    return found


def _known(src: Source, place: int) -> Listed:
    found = sequence(src, place)
    if isinstance(found, Parts):
        raise refused(src, "how many tensors its sequence has isn't known")
    return found


def give(src: Source, made: TensorList, place: int = 0) -> None:
    """Let a sequence be result ``place``; nothing happens if the node doesn't want it."""
    if not src.wants(place):
        return
    name = src.node.outputs[place]
    if src.scope.find_list(name) is not None:
        raise src.fail(f"there is a `{name}` already")
    src.scope.lists[name] = made


def import_construct(src: Source) -> None:
    """SequenceConstruct."""
    give(src, Listed(tuple(src.all_operands())))


def import_empty(src: Source) -> None:
    """SequenceEmpty."""
    give(src, Listed(()))


def _position(src: Source, place: int, count: int, default: int) -> int:
    """Where in a sequence of ``count`` an operand says, which may count from the end."""
    if src.optional(place) is None:
        return default
    given = src.ints(place)
    if given is None or len(given) != 1:
        raise refused(src, "a place in its sequence is computed at run time")
    position = given[0] + count if given[0] < 0 else given[0]
    if not 0 <= position < count:
        raise src.fail(f"place {given[0]} in a sequence of {count}")
    return position


def import_insert(src: Source) -> None:
    """SequenceInsert: at the end, or before a place."""
    values = list(_known(src, 0).values)
    if len(values) >= _LONGEST:
        raise refused(src, f"its sequence has more than {_LONGEST} tensors")
    place = _position(src, 2, len(values) + 1, len(values))
    values.insert(place, src.operand(1))
    give(src, Listed(tuple(values)))


def import_erase(src: Source) -> None:
    """SequenceErase: of the last, or one by its place."""
    values = list(_known(src, 0).values)
    del values[_position(src, 1, len(values), len(values) - 1)]
    give(src, Listed(tuple(values)))


def import_length(src: Source) -> None:
    """SequenceLength."""
    found = sequence(src, 0)
    if isinstance(found, Listed):
        src.bind(0, src.const(np.asarray(len(found.values), np.int64)))
        return
    if found.size != 1:
        raise refused(src, "how many tensors its sequence has isn't known")
    count = src.add(ShapeOf(dtype=DType.INT64, dims=(found.axis,)), [found.x])
    src.bind(0, src.add(Reshape(shape=()), [count]))


def import_at(src: Source) -> None:
    """SequenceAt."""
    found, index = sequence(src, 0), src.operand(1)
    if isinstance(found, Listed):
        given = src.ints(1)
        if given is not None:
            src.bind(0, found.values[_position(src, 1, len(found.values), 0)])
            return
        stacked = _stacked(src, found, 0)
        src.bind(0, src.standard("Gather", [stacked, _scalar(src, index)])[0])
        return
    if found.squeezed:
        attributes = {"axis": found.axis}
        src.bind(0, src.standard("Gather", [found.x, _scalar(src, index)], attributes)[0])
        return
    src.bind(0, _part(src, found))


def _part(src: Source, found: Parts) -> Value:
    """The part at a known place, or at any where each has an extent of 1."""
    given = src.ints(1)
    if found.size == 1:
        row = src.add(Reshape(shape=(1,)), [src.operand(1)])
        return src.standard("Gather", [found.x, row], {"axis": found.axis})[0]
    if given is None or len(given) != 1 or given[0] < 0:
        raise refused(src, "a place in its sequence counts from the end, or is computed")
    ends = [given[0] * found.size, (given[0] + 1) * found.size, found.axis]
    return src.standard("Slice", [found.x, *(src.const(np.asarray([i])) for i in ends)])[0]


def _scalar(src: Source, index: Value) -> Value:
    return index if index.shape == () else src.add(Reshape(shape=()), [index])


def _stacked(src: Source, found: Listed, axis: int) -> Value:
    """The tensors along a new axis."""
    if not found.values or len({static_shape(v.shape) for v in found.values}) > 1:
        raise refused(src, "the tensors of its sequence have several shapes, or there are none")
    return src.add(Stack(axis=axis), found.values)


def import_concat(src: Source) -> None:
    """ConcatFromSequence: along an axis that there is, or a new one."""
    found, new = sequence(src, 0), bool(src.int("new_axis", 0))
    if isinstance(found, Parts):
        src.bind(0, _rejoined(src, found, new=new))
        return
    if not found.values:
        raise src.fail("it joins a sequence of nothing")
    rank = src.rank(found.values[0])
    axis = src.axis(src.int("axis"), rank + new)
    if new:
        src.bind(0, src.add(Stack(axis=axis), found.values))
    elif len(found.values) == 1:
        src.bind(0, found.values[0])
    else:
        src.emit(Concat(axis=axis), found.values)


def _rejoined(src: Source, found: Parts, *, new: bool) -> Value:
    """The parts of a tensor along another axis than the one they were cut along, or the same."""
    rank = src.rank(found.x)
    axis = src.axis(src.int("axis"), rank - found.squeezed + new)
    if not found.squeezed:
        if new or axis != found.axis:
            raise refused(src, "parts of a tensor are joined along another axis")
        return found.x
    others = [i for i in range(rank) if i != found.axis]
    perm = (*others[:axis], found.axis, *others[axis:])
    moved = found.x
    if perm != tuple(range(rank)):
        moved = src.add(Transpose(perm=perm), [moved])
    if new:
        return moved
    before, after = tuple(range(axis)), tuple(range(axis + 2, rank))
    target = [
        src.add(ShapeOf(dtype=DType.INT64, dims=dims), [moved]) if dims else None
        for dims in (before, after)
    ]
    sizes = [v for v in (target[0], src.const(np.asarray([-1])), target[1]) if v is not None]
    shape = src.add(Concat(axis=0), sizes) if len(sizes) > 1 else sizes[0]
    return src.standard("Reshape", [moved, shape])[0]


def import_split(src: Source) -> None:
    """SplitToSequence: into parts of given sizes, equal ones, or single places."""
    x, given = src.operand(0), src.optional(1)
    axis = src.axis(src.int("axis", 0), src.rank(x))
    if given is None:
        _cut(src, Parts(x, axis, 1, squeezed=not src.int("keepdims", 1)))
        return
    sizes = src.required_ints(1, "the size of its parts")
    if src.rank(given):
        give(src, Listed(src.add_many(Split(axis=axis, sizes=sizes), [x])))
    elif sizes[0] < 1:
        raise src.fail(f"its parts are of {sizes[0]}, must be 1 at least")
    else:
        _cut(src, Parts(x, axis, sizes[0], squeezed=False))


def _cut(src: Source, parts: Parts) -> None:
    """Give equal parts: each as a tensor, where it is known how many there are, and few."""
    x, axis, size, squeezed = parts
    extent = (x.shape or ())[axis]
    if not isinstance(extent, int) or not 0 < extent <= _MOST * size:
        give(src, parts)
    elif squeezed:
        places = [src.const(np.asarray(i)) for i in range(extent)]
        give(src, Listed(tuple(src.add(Gather(axis=axis), [x, place]) for place in places)))
    else:
        sizes = tuple(min(size, extent - start) for start in range(0, extent, size))
        give(src, Listed(src.add_many(Split(axis=axis, sizes=sizes), [x])))


_LONGEST = 1 << 12
"""A sequence put together one by one has no more: each turn's tensors are kept."""

_MOST = 256
"""Of more parts none is made before it is taken."""


def joined(src: Source, before: Listed, collected: Value) -> TensorList:
    """What a loop has, at its end, put behind a sequence: the parts of a scan output."""
    if not before.values:
        return Parts(collected, 0, 1, squeezed=True)
    first = _stacked(src, before, 0)
    return Parts(src.add(Concat(axis=0), [first, collected]), 0, 1, squeezed=True)


IMPORTERS: dict[str, Importer] = {
    "ConcatFromSequence": import_concat,
    "SequenceAt": import_at,
    "SequenceConstruct": import_construct,
    "SequenceEmpty": import_empty,
    "SequenceErase": import_erase,
    "SequenceInsert": import_insert,
    "SequenceLength": import_length,
    "SplitToSequence": import_split,
}
