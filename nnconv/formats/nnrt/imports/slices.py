"""Operations that cut or pad stretches of a tensor."""

from __future__ import annotations

import numpy as np

from nnconv.errors import plural
from nnconv.formats.nnrt.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ops import elementwise as e
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Concat, ShapeOf, Squeeze, Unsqueeze
from nnconv.ops.slices import Pad, PadMode, Slice

MODES = {0: PadMode.CONSTANT, 1: PadMode.REFLECT, 2: PadMode.SYMMETRIC}


def import_slice(s: Source) -> None:
    """SLICE: of the dimensions that the axes name, or of all; a size of -1 goes to the end."""
    x = s.operand("input")
    rank = s.rank(x)
    begin, size = s.ints("begin"), s.ints("size")
    axes = s.list("axes") if s.match.api > 1 else ()
    if begin is None or size is None:
        if axes and tuple(axes) != tuple(range(rank)):
            raise s.unsupported("bounds of some axes are computed at run time")
        starts, sizes = (_whole(s, s.operand(name)) for name in ("begin", "size"))
        ends = s.add(e.Add(), [starts, sizes])
        s.emit(Slice(starts=None, ends=None, strides=(1,) * rank), [x, starts, ends])
        return
    places = [s.axis(axis, rank) for axis in axes] if axes else list(range(rank))
    if not len(begin) == len(size) == len(places) or len(set(places)) != len(places):
        raise s.fail(
            f"{plural(len(begin), 'start')} and {plural(len(size), 'size')} for the axes {places}"
        )
    starts_known: list[int | None] = [None] * rank
    ends_known: list[int | None] = [None] * rank
    for axis, start, count in zip(places, begin, size, strict=True):
        extent = (x.shape or ())[axis]
        if start < 0 or count < -1 or count == 0:
            raise s.fail(f"{plural(count, 'element')} from {start} on along axis {axis}")
        if isinstance(extent, int) and start + max(count, 0) > extent:
            raise s.fail(f"{plural(count, 'element')} from {start} on of {extent}")
        starts_known[axis] = start
        ends_known[axis] = None if count < 0 else start + count
    op = Slice(starts=tuple(starts_known), ends=tuple(ends_known), strides=(1,) * rank)
    s.emit(op, [x])


def _whole(s: Source, bounds: Value) -> Value:
    """Bounds as int64, so that both have one type."""
    return bounds if bounds.dtype is DType.INT64 else s.add(Cast(dtype=DType.INT64), [bounds])


def import_strided_slice(s: Source) -> None:
    """STRIDED_SLICE: a slice of full rank, then the dimensions that go, then the new ones."""
    x = s.operand("input")
    rank = s.rank(x)
    if any(s.ints(name) is None for name in _BOUNDS):
        _open_slice(s, x, rank)
        return
    begin, end, strides = (s.required_ints(name) for name in _BOUNDS)
    count = len(begin)
    if not count == len(end) == len(strides):
        raise s.fail(
            f"{plural(count, 'start')}, {plural(len(end), 'end')} and "
            f"{plural(len(strides), 'stride')}"
        )
    masks = {
        name: s.int(f"{name}Mask") for name in ("begin", "end", "ellipsis", "newAxis", "shrinkAxis")
    }
    given = {name: [bool(mask >> i & 1) for i in range(count)] for name, mask in masks.items()}
    if sum(given["ellipsis"]) > 1:
        raise s.fail("more than one ellipsis")
    fresh = [given["newAxis"][i] and not given["ellipsis"][i] for i in range(count)]
    named = count - sum(fresh) - sum(given["ellipsis"])
    if named > rank:
        raise s.fail(f"{plural(named, 'bound')} for rank {rank}")
    starts: list[int | None] = []
    ends: list[int | None] = []
    steps: list[int] = []
    gone: list[int] = []
    added: list[int] = []
    place = 0  # in the result
    for i in range(count):
        if given["ellipsis"][i]:
            skipped = rank - named
            starts += [None] * skipped
            ends += [None] * skipped
            steps += [1] * skipped
            place += skipped
        elif fresh[i]:
            added.append(place)
            place += 1
        elif given["shrinkAxis"][i]:
            gone.append(len(starts))
            starts.append(_index(s, begin[i], (x.shape or ())[len(starts)]))
            ends.append(None if starts[-1] == -1 else (starts[-1] or 0) + 1)
            steps.append(1)
        else:
            if strides[i] == 0:
                raise s.fail("a stride of 0")
            starts.append(None if given["begin"][i] else begin[i])
            ends.append(None if given["end"][i] else end[i])
            steps.append(strides[i])
            place += 1
    rest = rank - len(starts)
    op = Slice(
        starts=(*starts, *[None] * rest),
        ends=(*ends, *[None] * rest),
        strides=(*steps, *[1] * rest),
    )
    _emit_slice(s, op, x, tuple(gone), tuple(added))


_BOUNDS = ("begin", "end", "strides")


def _open_slice(s: Source, x: Value, rank: int) -> None:
    """A slice by bounds of which some are computed at run time, of whole vectors."""
    masks = {name: s.int(f"{name}Mask") for name in ("begin", "end")}
    if any(s.int(f"{name}Mask") for name in ("ellipsis", "newAxis", "shrinkAxis")):
        s.required_ints(next(name for name in _BOUNDS if s.ints(name) is None))
    known: list[tuple[int | None, ...] | None] = []
    inputs: list[Value | None] = [x]
    for name in _BOUNDS:
        bounds, mask = s.ints(name), masks.get(name, 0)
        if bounds is None and not mask:
            operand = s.operand(name)
            if operand.shape != (rank,):
                raise s.fail(f"{name} is {operand.type}, must have {plural(rank, 'element')}")
            inputs.append(operand)
            known.append(None)
            continue
        entries = s.required_ints(name)
        if len(entries) != rank:
            raise s.fail(
                f"{plural(len(entries), 'bound')} for rank {rank}, where others aren't known"
            )
        known.append(tuple(None if mask >> i & 1 else entry for i, entry in enumerate(entries)))
        inputs.append(None)
    starts, ends, strides = known
    if strides is not None and 0 in strides:
        raise s.fail("a stride of 0")
    steps = None if strides is None else tuple(step or 1 for step in strides)
    while inputs[-1] is None:
        inputs.pop()
    s.emit(Slice(starts=starts, ends=ends, strides=steps), inputs)


def _index(s: Source, index: int, extent: object) -> int:
    """An index of a dimension that goes."""
    if isinstance(extent, int) and not -extent <= index < extent:
        raise s.fail(f"index {index} is out of range for an extent of {extent}")
    return index + extent if isinstance(extent, int) and index < 0 else index


def _emit_slice(
    s: Source, op: Slice, x: Value, gone: tuple[int, ...], added: tuple[int, ...]
) -> None:
    if not gone and not added:
        s.emit(op, [x])
        return
    value = s.add(op, [x], quant=x.quant)
    if gone and added:
        value = s.add(Squeeze(axes=gone), [value], quant=x.quant)
    s.emit(Unsqueeze(axes=added) if added else Squeeze(axes=gone), [value])


def import_pad(s: Source) -> None:
    """PAD: with a real number, or with what lies at the edge."""
    x, pads = s.operand("inputX"), s.ints("paddings")
    number = s.int("paddingMode") if s.match.api > 1 else 0
    mode = MODES.get(number)
    if mode is None:
        raise s.fail(f"paddingMode {number} is reserved")
    value = s.float("constantValue")
    if pads is None:
        s.emit(Pad(before=None, after=None, mode=mode, value=value), [x, s.operand("paddings")])
        return
    if min(pads, default=0) < 0 or len(pads) != 2 * s.rank(x):
        raise s.fail(f"paddings {list(pads)}, must be two numbers of 0 and more for each dimension")
    before, after = pads[0::2], pads[1::2]
    if mode is not PadMode.CONSTANT:
        edge = mode is PadMode.REFLECT  # the outermost element isn't repeated
        for extent, sides in zip(x.shape or (), zip(before, after, strict=True), strict=False):
            if isinstance(extent, int) and max(sides) > extent - edge:
                raise s.fail(f"paddings {list(pads)} mirror more than {list(x.shape or ())} has")
    s.emit(Pad(before=before, after=after, mode=mode, value=value), [x])


def import_crop(s: Source) -> None:
    """CROP: dimensions from the axis on get the extents of the second input; 0 is no offset."""
    x, like = s.operand("input"), s.stored("shape")
    rank = s.rank(x)
    axis = s.axis(s.int("axis"), rank)
    offsets = s.list("offset")
    count = rank - axis
    if len(offsets) < 2:
        offsets = (offsets or (0,)) * count
    if len(offsets) != count or min(offsets, default=0) < 0:
        raise s.fail(f"offsets {list(offsets)} for {plural(count, 'dimension')}")
    target = s.of_rank(like, rank).shape or ()
    if any(not isinstance(size, int) for size in target[axis:]):
        _open_crop(s, x, like, offsets)
        return
    starts: list[int | None] = [None] * axis
    ends: list[int | None] = [None] * axis
    for place, offset in enumerate(offsets, axis):
        size, extent = target[place], (x.shape or ())[place]
        assert isinstance(size, int)
        if isinstance(extent, int) and offset + size > extent:
            raise s.fail(f"{plural(size, 'element')} from {offset} on of {extent}")
        starts.append(offset)
        ends.append(offset + size)
    s.emit(Slice(starts=tuple(starts), ends=tuple(ends), strides=(1,) * rank), [x])


def _open_crop(s: Source, x: Value, like: Value, offsets: tuple[int, ...]) -> None:
    """A crop to extents that a run tells, of the last dimensions; the ones before stay."""
    rank = s.rank(x)
    axis = rank - len(offsets)
    sizes = s.add(ShapeOf(dtype=DType.INT64, dims=tuple(range(axis, rank))), [like])
    ends = s.add(e.Add(), [sizes, s.const(np.array(offsets, np.int64))])
    if axis:
        whole = s.add(ShapeOf(dtype=DType.INT64, dims=tuple(range(axis))), [x])
        ends = s.add(Concat(axis=0), [whole, ends])
    starts = (*[None] * axis, *offsets)
    s.emit(Slice(starts=starts, ends=None, strides=(1,) * rank), [x, None, ends])


IMPORTERS: dict[str, Importer] = {
    "CROP": import_crop,
    "PAD": import_pad,
    "SLICE": import_slice,
    "STRIDED_SLICE": import_strided_slice,
}
